/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/select/processes.h"
#include "tests/unit/check.h"

#include <string.h>

static uint32_t text(struct sonde_profile *profile, const char *string) {
    uint32_t id;
    CHECK_INT(sonde_profile_string(profile, string, strlen(string), &id), ==, SONDE_OK);
    return id;
}

static uint32_t place(struct sonde_profile *profile, const char *name, const char *file) {
    struct sonde_mapping mapping = {.start = 0x1000, .limit = 0x9000};
    struct sonde_function function = {.name = text(profile, name)};
    struct sonde_line line = {0};
    struct sonde_location location = {.line_count = 1, .lines = &line};
    uint32_t id;
    if (file) {
        mapping.filename = text(profile, file);
        CHECK_INT(sonde_profile_add_mapping(profile, &mapping, &location.mapping), ==, SONDE_OK);
        location.address = 0x1000 + (uint64_t)name[0];
    }
    CHECK_INT(sonde_profile_add_function(profile, &function, &line.function), ==, SONDE_OK);
    CHECK_INT(sonde_profile_add_location(profile, &location, &id), ==, SONDE_OK);
    return id;
}

static void add(struct sonde_profile *profile, const uint32_t *stack, uint32_t depth, int64_t pid,
                const char *thread) {
    const struct sonde_label labels[] = {
        {.key = text(profile, "thread"), .str = text(profile, thread)},
        {.key = text(profile, "pid"), .num = pid}};
    const int64_t value = 1;
    const struct sonde_sample sample = {.locations = stack,
                                        .location_count = depth,
                                        .values = &value,
                                        .labels = labels,
                                        .label_count = 2};
    CHECK_INT(sonde_profile_add_sample(profile, &sample), ==, SONDE_OK);
}

struct found {
    char names[4][32];
    int64_t pids[4], totals[4];
    size_t mappings[4], count;
};

static sonde_err on_part(void *context, const struct sonde_process_part *part) {
    struct found *found = context;
    size_t at = found->count++;
    CHECK_INT(at, <, 4);
    strcpy(found->names[at], part->name);
    found->pids[at] = part->pid;
    found->totals[at] = sonde_profile_total(part->profile, 0);
    found->mappings[at] = sonde_profile_mapping_count(part->profile);
    for (size_t i = 0; i < sonde_profile_sample_count(part->profile); i++) {
        struct sonde_sample sample = sonde_profile_sample(part->profile, i);
        CHECK_INT(sample.label_count, ==, 1);
        CHECK(sonde_sample_label(part->profile, &sample, "thread")[0]);
        CHECK_INT(sample.location_count, ==, 2);
    }
    sonde_profile_destroy(part->profile);
    return at == 3 ? SONDE_CANCELLED : SONDE_OK;
}

TEST(a_profile_is_split_by_pid_and_outermost_frame) {
    const struct sonde_value_type type = {"samples", "count"};
    struct sonde_profile *profile = sonde_profile_create(&type, 1, 0);
    struct found found = {0};
    uint32_t leaf = place(profile, "leaf", "/lib/a.so"), main = place(profile, "main", "/bin/a");
    uint32_t other = place(profile, "other", "/bin/b");
    uint32_t shop = place(profile, "shop", NULL), cart = place(profile, "cart", NULL);
    add(profile, (uint32_t[]){leaf, main, shop}, 3, 8, "one");
    add(profile, (uint32_t[]){leaf, main, cart}, 3, 7, "one");
    add(profile, (uint32_t[]){leaf, main, shop}, 3, 8, "two");
    add(profile, (uint32_t[]){leaf, main, shop}, 3, 7, "two"); /* it has called exec */
    add(profile, (uint32_t[]){leaf, other}, 2, 9, "bare");     /* its outermost frame is code */
    CHECK_INT(sonde_profile_split_processes(profile, on_part, &found), ==, SONDE_CANCELLED);
    CHECK_INT(found.count, ==, 4);
    static const int64_t pids[] = {7, 7, 8, 9}, totals[] = {1, 1, 2, 1};
    for (size_t i = 0; i < 4; i++) {
        CHECK_INT(found.pids[i], ==, pids[i]);
        CHECK_INT(found.totals[i], ==, totals[i]);
        CHECK_INT(found.mappings[i], ==, 2); /* of three */
    }
    CHECK(strcmp(found.names[0], found.names[1]) != 0);
    CHECK_STR(found.names[2], "shop");
    CHECK_STR(found.names[3], "");
    sonde_profile_destroy(profile);
}
