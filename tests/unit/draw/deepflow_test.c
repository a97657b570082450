/* SPDX-License-Identifier: Apache-2.0
 *
 * DeepFlow's tree: names, ids and values. The rows DF-2 to DF-8 are those of the documented API. */
#include "tests/unit/check.h"
#include "tests/unit/draw/fixture.h"

#include <stdio.h>
#include <stdlib.h>

struct build {
    struct sonde_profile *profile;
};

static struct build start(const char *type, const char *unit) {
    const struct sonde_value_type types[] = {{type, unit}};
    struct build build = {sonde_profile_create(types, 1, 0)};
    CHECK(build.profile != NULL);
    return build;
}

static uint32_t text(const struct build *build, const char *words) {
    uint32_t id;
    CHECK_INT(sonde_profile_string(build->profile, words, strlen(words), &id), ==, SONDE_OK);
    return id;
}

static uint32_t mapping(const struct build *build, const char *path, uint64_t begin) {
    struct sonde_mapping item = {
        .start = begin, .limit = begin + 0x10000, .filename = text(build, path)};
    uint32_t id;
    CHECK_INT(sonde_profile_add_mapping(build->profile, &item, &id), ==, SONDE_OK);
    return id;
}

/* A location; name NULL = no name is known. */
static uint32_t at(const struct build *build, enum sonde_frame_kind kind, uint32_t map,
                   uint64_t address, const char *name) {
    struct sonde_line line = {0};
    struct sonde_location item = {.mapping = map, .address = address, .kind = kind, .lines = &line};
    if (name) {
        struct sonde_function function = {.name = text(build, name)};
        CHECK_INT(sonde_profile_add_function(build->profile, &function, &line.function), ==,
                  SONDE_OK);
        item.line_count = 1;
    }
    uint32_t id;
    CHECK_INT(sonde_profile_add_location(build->profile, &item, &id), ==, SONDE_OK);
    return id;
}

/* A sample of the stack, leaf first and ended by 0. pid and tid are labels unless they are 0. */
static void sample(const struct build *build, const char *thread, int64_t pid, int64_t tid,
                   int64_t value, const uint32_t *locations) {
    struct sonde_label labels[3] = {{.key = text(build, "thread"), .str = text(build, thread)}};
    struct sonde_sample item = {
        .locations = locations, .label_count = thread[0] != 0, .values = &value, .labels = labels};
    if (pid)
        labels[item.label_count++] = (struct sonde_label){.key = text(build, "pid"), .num = pid};
    if (tid)
        labels[item.label_count++] = (struct sonde_label){.key = text(build, "tid"), .num = tid};
    while (locations[item.location_count])
        item.location_count++;
    CHECK_INT(sonde_profile_add_sample(build->profile, &item), ==, SONDE_OK);
}

/* Draws and destroys the profile. The caller frees the document. */
static char *drawn(struct build *build, enum sonde_format format,
                   const struct sonde_draw_options *options) {
    struct sonde_buf out = {0};
    size_t len;
    CHECK_INT(sonde_draw(build->profile, format, options, &out, NULL), ==, SONDE_OK);
    sonde_profile_destroy(build->profile);
    return sonde_buf_take(&out, &len);
}

static char *tree_of(struct build *build, const char *title) {
    const struct sonde_draw_options options = {.title = title};
    return drawn(build, SONDE_FORMAT_DEEPFLOW_TREE, &options);
}

/* Checks one node of a document. */
static void check_node(const char *document, const char *name, const char *id, const char *parent,
                       long long self, long long total) {
    char expected[512];
    snprintf(expected, sizeof expected,
             "{\"profile_location_str\":\"%s\",\"node_id\":\"%s\",\"parent_node_id\":\"%s\","
             "\"self_value\":%lld,\"total_value\":%lld}",
             name, id, parent, self, total);
    if (!strstr(document, expected))
        fprintf(stderr, "expected %s in %s\n", expected, document);
    CHECK(strstr(document, expected) != NULL);
}

static size_t nodes_in(const char *document) {
    size_t count = 0;
    for (const char *at = document; (at = strstr(at, "\"node_id\"")); at++)
        count++;
    return count;
}

TEST(df4_ids_are_those_of_the_documented_sample) {
    struct build build = start("cpu", "nanoseconds");
    uint32_t exporter = at(&build, SONDE_FRAME_NOTE, 0, 0, "process-exporter");
    uint32_t agent = at(&build, SONDE_FRAME_NOTE, 0, 0, "deepflow-agent");
    sample(&build, "", 0, 0, 2512000, (uint32_t[]){exporter, 0});
    sample(&build, "", 0, 0, 5000, (uint32_t[]){agent, 0});
    sample(&build, "stats-collector", 0, 0, 33000, (uint32_t[]){agent, 0});
    char *document = tree_of(&build, "Total");
    CHECK(strncmp(document, "[{\"profile_location_str\":\"Total\"", 32) == 0);
    check_node(document, "Total", "", "-1", 0, 2550);
    check_node(document, "[p] process-exporte", "9d3c5fd3-4cd2-5d04-be22-e0f27144f638", "", 2512,
               2512);
    check_node(document, "[p] deepflow-agent", "1762633e-a955-5c80-a5be-22529903b0bf", "", 5, 38);
    check_node(document, "[t] stats-collector", "99e8ce53-e3bf-5b33-a63d-aa47e00e2ff4",
               "1762633e-a955-5c80-a5be-22529903b0bf", 33, 33);
    CHECK_INT(nodes_in(document), ==, 4);
    free(document);
}

TEST(df4_ids_of_frames_continue_those_of_their_callers) {
    struct build build = start("cpu", "nanoseconds");
    uint32_t map = mapping(&build, "/usr/bin/program", 0x400000);
    uint32_t main_ = at(&build, SONDE_FRAME_APPLICATION, map, 0x401000, "main");
    uint32_t compute = at(&build, SONDE_FRAME_APPLICATION, map, 0x402000, "compute");
    sample(&build, "main", 7, 8, 3000000, (uint32_t[]){compute, main_, 0});
    char *document = tree_of(&build, "app");
    check_node(document, "app", "", "-1", 0, 3000);
    check_node(document, "[t] main", "78a8c9ca-f7d5-5412-9b66-e48047792c4f", "", 0, 3000);
    check_node(document, "main", "0bc5babf-b81c-57d7-a981-ee6f4ed6f8c9",
               "78a8c9ca-f7d5-5412-9b66-e48047792c4f", 0, 3000);
    check_node(document, "compute", "c6999653-f8d1-548c-b668-289a011a79b6",
               "0bc5babf-b81c-57d7-a981-ee6f4ed6f8c9", 3000, 3000);
    free(document);
}

TEST(the_main_thread_is_the_process) {
    static const struct {
        const char *thread;
        int64_t pid, tid;
        const char *layer;
    } rows[] = {
        {"", 0, 0, "[p] a-long-named-se"},                 /* no name */
        {"", 0, 12, "[p] a-long-named-se"},                /* only a number */
        {"a-long-named-se", 0, 12, "[p] a-long-named-se"}, /* named like the service */
        {"program", 0, 12, "[p] program"},                 /* named like the executable */
        {"program", 11, 12, "[t] program"},                /* the ids are known and differ */
        {"worker", 12, 12, "[p] worker"},                  /* the ids are known and equal */
        {"worker", 0, 12, "[t] worker"},
        {"wor;ker", 0, 0, "[t] wor:ker"},
        {"program-", 0, 0, "[t] program-"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct build build = start("cpu", "nanoseconds");
        uint32_t map = mapping(&build, "/usr/bin/program", 0x400000);
        uint32_t main_ = at(&build, SONDE_FRAME_APPLICATION, map, 0x401000, "main");
        sample(&build, rows[i].thread, rows[i].pid, rows[i].tid, 1000, (uint32_t[]){main_, 0});
        char *document = tree_of(&build, "a-long-named-service"), layer[64];
        snprintf(layer, sizeof layer, "\"%s\"", rows[i].layer);
        CHECK(strstr(document, layer) != NULL);
        CHECK_INT(nodes_in(document), ==, 3);
        free(document);
    }
}

TEST(frames_are_named_as_documented) {
    struct build build = start("cpu", "nanoseconds");
    uint32_t program = mapping(&build, "/usr/bin/program", 0x400000);
    uint32_t library = mapping(&build, "/lib/x86_64-linux-gnu/libc.so.6", 0x7f0000000000);
    uint32_t cuda = mapping(&build, "/usr/lib/libcuda.so.1", 0x7f1000000000);
    uint32_t curl = mapping(&build, "/usr/lib/libcurl.so.4", 0x7f2000000000);
    uint32_t jit = mapping(&build, "/tmp/perf-29887.map", 0x7f3000000000);
    uint32_t vdso = mapping(&build, "[vdso]", 0x7f4000000000);
    uint32_t stack[] = {at(&build, SONDE_FRAME_KERNEL, 0, 0xffffffff81000000, "do;syscall"),
                        at(&build, SONDE_FRAME_KERNEL, 0, 0xffffffff81000001, NULL),
                        at(&build, SONDE_FRAME_UNKNOWN, curl, 0x7f2000000001, "curl_easy_perform"),
                        at(&build, SONDE_FRAME_LIBRARY, cuda, 0x7f1000000001, "cuLaunchKernel"),
                        at(&build, SONDE_FRAME_LIBRARY, library, 0x7f0000000001, "read"),
                        at(&build, SONDE_FRAME_LIBRARY, library, 0x7f0000000002, NULL),
                        at(&build, SONDE_FRAME_JIT, jit, 0x7f3000000001, NULL),
                        at(&build, SONDE_FRAME_APPLICATION, program, 0x402000, "[program]+0x64da0"),
                        at(&build, SONDE_FRAME_UNKNOWN, 0, 0x5678, "[heap]+0x10"),
                        at(&build, SONDE_FRAME_LIBRARY, vdso, 0x7f4000000001, NULL),
                        at(&build, SONDE_FRAME_UNKNOWN, 0, 0x3932388, NULL),
                        at(&build, SONDE_FRAME_NOTE, 0, 0, "[truncated]"),
                        at(&build, SONDE_FRAME_APPLICATION, program, 0x401000, "ns::f(int, a;b)"),
                        at(&build, SONDE_FRAME_UNKNOWN, 0, 0x1234, NULL),
                        0};
    static const char *const names[] = {"[k] do:syscall",
                                        "[unknown] 0xffffffff81000001",
                                        "[l] curl_easy_perform",
                                        "[k] cuLaunchKernel",
                                        "[l] read",
                                        "[/lib/x86_64-linux-gnu/libc.so.6]",
                                        "[/tmp/perf-29887.map]",
                                        "[/usr/bin/program]",
                                        "[heap]+0x10",
                                        "[vdso]",
                                        "[unknown] 0x0000000003932388",
                                        "[truncated]",
                                        "ns::f(int, a:b)",
                                        "[unknown start_thread?]"};
    sample(&build, "worker", 0, 0, 1000, stack);
    char *document = tree_of(&build, "app");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char quoted[128];
        snprintf(quoted, sizeof quoted, "{\"profile_location_str\":\"%s\",", names[i]);
        CHECK(strstr(document, quoted) != NULL);
    }
    CHECK_INT(nodes_in(document), ==, 16);
    free(document);
}

TEST(frames_of_one_name_are_one_node) {
    struct build build = start("cpu", "nanoseconds");
    uint32_t program = mapping(&build, "/usr/bin/program", 0x400000);
    uint32_t main_ = at(&build, SONDE_FRAME_APPLICATION, program, 0x401000, "main");
    uint32_t one = at(&build, SONDE_FRAME_KERNEL, 0, 0xffffffff81000000, "read");
    uint32_t two = at(&build, SONDE_FRAME_APPLICATION, program, 0x402000, "[k] read");
    sample(&build, "", 0, 0, 1000, (uint32_t[]){one, main_, 0});
    sample(&build, "", 0, 0, 2000, (uint32_t[]){two, main_, 0});
    char *document = tree_of(&build, "app");
    CHECK_INT(nodes_in(document), ==, 4);
    CHECK(strstr(document, "\"self_value\":3,\"total_value\":3}") != NULL);
    free(document);
}

TEST(df5_sums_are_exact_after_rounding) {
    struct build build = start("cpu", "nanoseconds");
    uint32_t program = mapping(&build, "/usr/bin/program", 0x400000);
    uint32_t main_ = at(&build, SONDE_FRAME_APPLICATION, program, 0x401000, "main");
    for (int i = 0; i < 1000; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%d", i);
        uint32_t leaf = at(&build, SONDE_FRAME_APPLICATION, program, 0x402000 + (unsigned)i, name);
        sample(&build, "", 0, 0, 1499, (uint32_t[]){leaf, main_, 0});
    }
    char *document = tree_of(&build, "app");
    check_node(document, "app", "", "-1", 0, 1499);
    long long sum = 0, self, total;
    for (const char *line = document; (line = strstr(line, "\"self_value\":")); line++) {
        CHECK_INT(sscanf(line, "\"self_value\":%lld,\"total_value\":%lld", &self, &total), ==, 2);
        CHECK(self >= 0 && self <= 2);
        sum += self;
    }
    CHECK_INT(sum, ==, 1499);
    free(document);
}

TEST(df5_holds_for_values_that_overflow_together) {
    struct build build = start("delay", "seconds");
    uint32_t program = mapping(&build, "/usr/bin/program", 0x400000);
    uint32_t one = at(&build, SONDE_FRAME_APPLICATION, program, 0x401000, "one");
    uint32_t two = at(&build, SONDE_FRAME_APPLICATION, program, 0x402000, "two");
    sample(&build, "", 0, 0, INT64_MAX, (uint32_t[]){one, 0});
    sample(&build, "", 0, 0, INT64_MAX - 5, (uint32_t[]){two, 0});
    char *document = tree_of(&build, "app");
    check_node(document, "app", "", "-1", 0, INT64_MAX);
    CHECK(strstr(document, "\"self_value\":0,\"total_value\":0}") != NULL);
    free(document);
}

TEST(df7_times_are_microseconds_and_memory_is_bytes) {
    static const struct {
        const char *unit;
        int64_t value;
        long long expected;
    } rows[] = {{"nanoseconds", 7499, 7},  {"nanoseconds", 7500, 8}, {"microseconds", 7, 7},
                {"milliseconds", 7, 7000}, {"seconds", 7, 7000000},  {"bytes", 7, 7}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct build build = start("value", rows[i].unit);
        uint32_t main_ = at(&build, SONDE_FRAME_APPLICATION, 0, 0x401000, "main");
        sample(&build, "", 0, 0, rows[i].value, (uint32_t[]){main_, 0});
        char *document = tree_of(&build, "app");
        check_node(document, "app", "", "-1", 0, rows[i].expected);
        free(document);
    }
}

TEST(df8_no_samples_are_no_nodes) {
    struct build build = start("cpu", "nanoseconds");
    char *document = tree_of(&build, "app");
    CHECK_STR(document, "[]");
    free(document);
    build = start("cpu", "nanoseconds");
    document = drawn(&build, SONDE_FORMAT_DEEPFLOW_COLUMNAR, NULL);
    CHECK(strstr(document, "{\"functions\":[],") == document);
    CHECK(strstr(document, "\"values\":[]}}") != NULL);
    free(document);
}

TEST(max_kernel_frames_keeps_those_next_to_the_program) {
    static const struct {
        bool limits;
        int32_t most;
        size_t nodes;
        const char *last;
    } rows[] = {{false, 1, 6, "[k] third"},
                {true, -1, 6, "[k] third"},
                {true, 0, 3, "main"},
                {true, 1, 4, "[k] first"},
                {true, 9, 6, "[k] third"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct build build = start("cpu", "nanoseconds");
        uint32_t main_ = at(&build, SONDE_FRAME_APPLICATION, 0, 0x401000, "main");
        uint32_t first = at(&build, SONDE_FRAME_KERNEL, 0, 0xffffffff81000000, "first");
        uint32_t second = at(&build, SONDE_FRAME_KERNEL, 0, 0xffffffff81000001, "second");
        uint32_t third = at(&build, SONDE_FRAME_KERNEL, 0, 0xffffffff81000002, "third");
        sample(&build, "", 0, 0, 5000, (uint32_t[]){third, second, first, main_, 0});
        const struct sonde_draw_options options = {.limit_kernel_frames = rows[i].limits,
                                                   .max_kernel_frames = rows[i].most};
        char *document = drawn(&build, SONDE_FORMAT_DEEPFLOW_TREE, &options), last[64];
        CHECK_INT(nodes_in(document), ==, rows[i].nodes);
        snprintf(last, sizeof last, "\"%s\",", rows[i].last);
        const char *node = strstr(document, last);
        CHECK(node && strstr(node, "\"self_value\":5,\"total_value\":5}]") != NULL);
        free(document);
    }
}

TEST(the_service_of_a_memory_profile_is_the_program) {
    struct sonde_profile *profile = fixture("trimmed");
    struct sonde_draw_options options = sonde_draw_defaults(profile);
    struct sonde_buf out = {0};
    CHECK_INT(sonde_draw(profile, SONDE_FORMAT_DEEPFLOW_TREE, &options, &out, NULL), ==, SONDE_OK);
    CHECK(strstr(out.data, "[{\"profile_location_str\":\"server\",") == out.data);
    sonde_buf_finish(&out);
    sonde_profile_destroy(profile);
}

TEST(columnar_types_tell_objects_from_code) {
    struct build build = start("inuse_space", "bytes");
    uint32_t program = mapping(&build, "/usr/bin/program", 0x400000);
    uint32_t main_ = at(&build, SONDE_FRAME_APPLICATION, program, 0x401000, "main");
    uint32_t leaf = at(&build, SONDE_FRAME_APPLICATION, program, 0x402000, "Node");
    uint32_t note = at(&build, SONDE_FRAME_NOTE, 0, 0, "[truncated]");
    sample(&build, "worker", 0, 0, 4096, (uint32_t[]){leaf, main_, note, 0});
    const struct sonde_draw_options options = {.title = "Total"};
    char *document = drawn(&build, SONDE_FORMAT_DEEPFLOW_COLUMNAR, &options);
    CHECK(strstr(document, "\"function_types\":[\"H\",\"T\",\"?\",\"A\",\"O\"]") != NULL);
    CHECK(strstr(document, "\"values\":[[0,4096],[0,4096],[0,4096],[0,4096],[4096,4096]]}") !=
          NULL);
    CHECK(strstr(document, "\"values\":[[0,-1,0,4096],\n[1,0,0,4096],\n[2,1,0,4096],\n"
                           "[3,2,0,4096],\n[4,3,4096,4096]]}}") != NULL);
    free(document);
}

TEST(a_function_named_like_the_service_is_not_the_root) {
    struct build build = start("cpu", "nanoseconds");
    uint32_t main_ = at(&build, SONDE_FRAME_APPLICATION, 0, 0x401000, "app");
    sample(&build, "", 0, 0, 2000, (uint32_t[]){main_, 0});
    const struct sonde_draw_options options = {.title = "app"};
    char *document = drawn(&build, SONDE_FORMAT_DEEPFLOW_COLUMNAR, &options);
    CHECK(strstr(document, "\"function_types\":[\"P\",\"P\",\"A\"]") != NULL);
    free(document);
}
