/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/export/records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS        1000000ll
#define BEGIN_NS  1700000000000000000ll
#define WINDOW_NS (10000 * MS)

static struct engine_target target = {.name = "shop",
                                      .uuid = "00112233445566778899aabbccddeeff",
                                      .pid = 4711,
                                      .executable = "shopd",
                                      .labels = "team=blue,zone=a/1"};

static void must(sonde_err err) {
    if (err)
        abort();
}

static uint32_t text(struct sonde_profile *profile, const char *string) {
    uint32_t id;
    must(sonde_profile_string(profile, string, strlen(string), &id));
    return id;
}

static uint32_t add_mapping(struct sonde_profile *profile) {
    uint32_t id;
    struct sonde_mapping mapping = {.start = 0x400000,
                                    .limit = 0x40000000,
                                    .offset = 0x1000,
                                    .filename = text(profile, "/usr/bin/shopd"),
                                    .build_id = text(profile, "c0ffee")};
    must(sonde_profile_add_mapping(profile, &mapping, &id));
    return id;
}

static uint32_t add_location(struct sonde_profile *profile, uint32_t mapping, uint64_t address,
                             const char *name) {
    uint32_t id;
    struct sonde_function function = {.name = text(profile, name),
                                      .system_name = text(profile, name),
                                      .filename = text(profile, "shop.c"),
                                      .start_line = 10};
    struct sonde_line line = {.line = 12};
    struct sonde_location location = {.mapping = mapping,
                                      .address = address,
                                      .line_count = 1,
                                      .kind = SONDE_FRAME_APPLICATION,
                                      .lines = &line};
    must(sonde_profile_add_function(profile, &function, &line.function));
    must(sonde_profile_add_location(profile, &location, &id));
    return id;
}

static void add_sample(struct sonde_profile *profile, uint32_t leaf, uint32_t root, bool is_main,
                       const int64_t *values) {
    const uint32_t locations[] = {leaf, root};
    struct sonde_label labels[] = {
        {.key = text(profile, "thread"), .str = text(profile, is_main ? "shopd" : "worker")},
        {.key = text(profile, "tid"), .num = is_main ? 4711 : 4712},
    };
    struct sonde_sample sample = {.locations = locations,
                                  .location_count = 2,
                                  .label_count = 2,
                                  .values = values,
                                  .labels = labels};
    must(sonde_profile_add_sample(profile, &sample));
}

struct record make_cpu_record(uint64_t number, uint64_t rows, uint64_t name_bytes) {
    static const struct sonde_value_type types[] = {{"samples", "count"}, {"cpu", "nanoseconds"}};
    struct sonde_profile *profile = sonde_profile_create(types, 2, 0);
    int64_t begin_ns = BEGIN_NS + (int64_t)number * WINDOW_NS;
    const struct sonde_profile_info info = {.period_type = {"cpu", "nanoseconds"},
                                            .period = 52631579,
                                            .time_unix_ns = begin_ns,
                                            .duration_ns = WINDOW_NS,
                                            .default_type = 1};
    sonde_profile_set_info(profile, &info);
    char *name = malloc(name_bytes + 32);
    uint32_t mapping = add_mapping(profile),
             root = add_location(profile, mapping, 0x400010, "main");
    for (uint64_t i = 0; i < rows; i++) {
        size_t len = (size_t)sprintf(name, "work_%llu", (unsigned long long)i);
        for (; len < name_bytes; len++)
            name[len] = 'x';
        name[len] = 0;
        uint32_t leaf = add_location(profile, mapping, 0x400100 + i, name);
        add_sample(profile, leaf, root, i % 2 == 0, (int64_t[]){1, (int64_t)(i + 1) * MS});
        if (i == 0)
            add_sample(profile, leaf, root, false, (int64_t[]){1, MS});
    }
    free(name);
    return (struct record){.event = SONDE_ON_CPU,
                           .target = &target,
                           .cgroup = "/system.slice/shop.service",
                           .profile = profile,
                           .begin_unix_ns = begin_ns,
                           .end_unix_ns = begin_ns + WINDOW_NS,
                           .period_ns = 52631579,
                           .samples = rows,
                           .clock = "fake"};
}

static struct sonde_profile *make_snapshot(int64_t grown) {
    static const struct sonde_value_type types[] = {{"alloc_objects", "count"},
                                                    {"alloc_space", "bytes"},
                                                    {"inuse_objects", "count"},
                                                    {"inuse_space", "bytes"}};
    struct sonde_profile *profile = sonde_profile_create(types, 4, 0);
    const struct sonde_profile_info info = {.period_type = {"space", "bytes"}, .period = 524288};
    sonde_profile_set_info(profile, &info);
    uint32_t mapping = add_mapping(profile),
             root = add_location(profile, mapping, 0x400010, "main");
    uint32_t grow = add_location(profile, mapping, 0x400100, "grow");
    uint32_t hold = add_location(profile, mapping, 0x400200, "hold");
    add_sample(profile, grow, root, true, (int64_t[]){grown * 100, grown * 1000, 100, 1000});
    add_sample(profile, hold, root, true, (int64_t[]){7, 70, 7, 70});
    return profile;
}

static struct record heap_record(enum sonde_event_id event, struct sonde_profile *profile,
                                 int64_t begin_unix_ns, int64_t end_unix_ns) {
    return (struct record){.event = event,
                           .target = &target,
                           .cgroup = "",
                           .profile = profile,
                           .begin_unix_ns = begin_unix_ns,
                           .end_unix_ns = end_unix_ns,
                           .clock = ""};
}

size_t make_heap_records(struct heap_delta *delta, int snapshot, uint64_t epoch,
                         struct record records[2]) {
    struct sonde_profile *profile = make_snapshot(snapshot + 1), *live, *allocated;
    int64_t since_ns, now_ns = BEGIN_NS + (snapshot + 1) * 60000 * MS;
    must(heap_delta_live(profile, now_ns, &live));
    must(heap_delta_allocated(delta, profile, epoch, now_ns, now_ns, &since_ns, &allocated));
    sonde_profile_destroy(profile);
    records[0] = heap_record(SONDE_MEM_INUSE, live, now_ns, now_ns);
    if (!allocated)
        return 1;
    records[1] = heap_record(SONDE_MEM_ALLOC, allocated, since_ns, now_ns);
    return 2;
}

struct record make_span_record(void) {
    static const char trace[] = "0af7651916cd43dd8448eb211c80319c";
    static const char *const spans[] = {"b7ad6b7169203331", "b7ad6b7169203331", "00f067aa0ba902b7",
                                        "b7ad6b716920333"};
    struct record record = make_cpu_record(0, 0, 1);
    struct sonde_profile *profile = record.profile;
    uint32_t mapping = add_mapping(profile);
    for (uint32_t i = 0; i < sizeof spans / sizeof spans[0]; i++) {
        uint32_t location = add_location(profile, mapping, 0x400100 + i, "serve");
        struct sonde_label labels[] = {
            {.key = text(profile, "trace_id"), .str = text(profile, trace)},
            {.key = text(profile, "span_id"), .str = text(profile, spans[i])},
        };
        struct sonde_sample sample = {.locations = &location,
                                      .location_count = 1,
                                      .label_count = 2,
                                      .values = (int64_t[]){1, MS},
                                      .labels = labels};
        must(sonde_profile_add_sample(profile, &sample));
    }
    return record;
}
