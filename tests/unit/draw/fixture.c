/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/draw/fixture.h"

#include "api/profile/diff/diff.h"
#include "api/profile/heap/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum module { NONE, PROGRAM, LIBRARY, KERNEL };

static const enum sonde_frame_kind kinds[] = {SONDE_FRAME_NOTE, SONDE_FRAME_APPLICATION,
                                              SONDE_FRAME_LIBRARY, SONDE_FRAME_KERNEL};

struct build {
    struct sonde_profile *profile;
    uint32_t mappings[4];
};

static void must(sonde_err err) {
    if (err) {
        fprintf(stderr, "the fixture cannot be built: %s\n", sonde_error_info(err)->reason);
        abort();
    }
}

static uint32_t text(const struct build *build, const char *words) {
    uint32_t id;
    must(sonde_profile_string(build->profile, words, strlen(words), &id));
    return id;
}

static void start(struct build *build, const struct sonde_value_type *types, size_t count) {
    build->profile = sonde_profile_create(types, count, 0);
    if (!build->profile)
        abort();
    build->mappings[NONE] = 0;
    const struct sonde_mapping mappings[] = {
        {.start = 0x400000,
         .limit = 0x500000,
         .filename = text(build, "/opt/fixture/bin/server"),
         .build_id = text(build, "abcdef0123456789")},
        {.start = 0x7f0000000000,
         .limit = 0x7f0000200000,
         .offset = 0x1000,
         .filename = text(build, "/opt/fixture/lib/libfixture.so.1"),
         .build_id = text(build, "0123456789abcdef")},
        {.start = 0xffffffff80000000,
         .limit = 0xffffffffc0000000,
         .filename = text(build, "[kernel.kallsyms]")},
    };
    for (size_t i = 0; i < 3; i++)
        must(sonde_profile_add_mapping(build->profile, &mappings[i], &build->mappings[i + 1]));
}

/* Adds a location with up to two functions, innermost first; with none its name is unknown. */
static uint32_t at(const struct build *build, enum module module, uint64_t address,
                   const char *inner, const char *outer) {
    struct sonde_line lines[2];
    const char *names[] = {inner, outer};
    struct sonde_location location = {.mapping = build->mappings[module],
                                      .address = address,
                                      .lines = lines,
                                      .kind = kinds[module]};
    for (size_t i = 0; i < 2 && names[i]; i++) {
        struct sonde_function function = {.name = text(build, names[i]),
                                          .system_name = text(build, names[i]),
                                          .filename = text(build, "src/server.c"),
                                          .start_line = 3};
        must(sonde_profile_add_function(build->profile, &function, &lines[i].function));
        lines[i].line = 10 + (int64_t)i;
        location.line_count++;
    }
    uint32_t id;
    must(sonde_profile_add_location(build->profile, &location, &id));
    return id;
}

static void sample(const struct build *build, const char *thread, int64_t tid, int64_t first,
                   int64_t second, const uint32_t *locations) {
    const struct sonde_label labels[] = {{.key = text(build, "thread"), .str = text(build, thread)},
                                         {.key = text(build, "tid"), .num = tid}};
    const int64_t values[] = {first, second};
    struct sonde_sample added = {
        .locations = locations, .label_count = 2, .values = values, .labels = labels};
    while (locations[added.location_count])
        added.location_count++;
    must(sonde_profile_add_sample(build->profile, &added));
}

static void facts(const struct build *build) {
    const struct sonde_profile_info info = {.period_type = {"cpu", "nanoseconds"},
                                            .period = 10101010,
                                            .time_unix_ns = 1763700000000000000,
                                            .duration_ns = 10000000000,
                                            .default_type = 1};
    sonde_profile_set_info(build->profile, &info);
    must(sonde_profile_add_comment(build->profile, "clock: perf cpu-clock, dithered"));
    must(sonde_profile_add_comment(build->profile, "dropped: 0"));
}

static const struct sonde_value_type cpu[] = {{"samples", "count"}, {"cpu", "nanoseconds"}};

static void ticks(const struct build *build, const char *thread, int64_t tid, int64_t count,
                  const uint32_t *locations) {
    sample(build, thread, tid, count, count * 10101010, locations);
}

static void add_main_thread(const struct build *b) {
    uint32_t main_ = at(b, PROGRAM, 0x401000, "main", NULL);
    uint32_t loop = at(b, PROGRAM, 0x402000, "event_loop", NULL);
    uint32_t events = at(b, PROGRAM, 0x403010, "process_events", NULL);
    uint32_t read = at(b, PROGRAM, 0x404000, "parse_header", "read_query");
    uint32_t command = at(b, PROGRAM, 0x405000, "run_command", NULL);
    uint32_t get = at(b, PROGRAM, 0x406000, "get_key", NULL);
    uint32_t copy = at(b, LIBRARY, 0x7f0000001000, "copy_bytes", NULL);
    uint32_t unnamed = at(b, LIBRARY, 0x7f0000002222, NULL, NULL);
    uint32_t call = at(b, KERNEL, 0xffffffff81000000, "do_syscall_64", NULL);
    uint32_t send = at(b, KERNEL, 0xffffffff81000100, "tcp_sendmsg", NULL);
    ticks(b, "server", 100, 400, (uint32_t[]){copy, get, command, read, events, loop, main_, 0});
    ticks(b, "server", 100, 120, (uint32_t[]){get, command, read, events, loop, main_, 0});
    ticks(b, "server", 100, 60, (uint32_t[]){command, read, events, loop, main_, 0});
    ticks(b, "server", 100, 220, (uint32_t[]){send, call, unnamed, events, loop, main_, 0});
    ticks(b, "server", 100, 30, (uint32_t[]){call, unnamed, events, loop, main_, 0});
    ticks(b, "server", 100, 3,
          (uint32_t[]){get, command, get, command, read, events, loop, main_, 0});
}

static void add_other_threads(const struct build *b) {
    uint32_t entry = at(b, LIBRARY, 0x7f0000004444, "thread_start", NULL);
    uint32_t jobs = at(b, PROGRAM, 0x407000, "background_jobs", NULL);
    uint32_t copy = at(b, LIBRARY, 0x7f0000001000, "copy_bytes", NULL);
    uint32_t cut = at(b, NONE, 0, "[truncated]", NULL);
    ticks(b, "jobs", 101, 90, (uint32_t[]){jobs, entry, 0});
    ticks(b, "jobs", 101, 40, (uint32_t[]){copy, jobs, entry, 0});
    ticks(b, "io;1", 102, 9, (uint32_t[]){copy, cut, 0});
}

static struct sonde_profile *build_server(void) {
    struct build build;
    start(&build, cpu, 2);
    add_main_thread(&build);
    add_other_threads(&build);
    facts(&build);
    return build.profile;
}

enum { FAULTS_PERIOD = 64 };

static void faults(const struct build *build, int64_t count, const uint32_t *locations) {
    sample(build, "loader", 100, count, count * FAULTS_PERIOD, locations);
}

static struct sonde_profile *build_faults(void) {
    static const struct sonde_value_type types[] = {{"samples", "count"}, {"page_faults", "count"}};
    const struct sonde_profile_info info = {.period_type = types[1],
                                            .period = FAULTS_PERIOD,
                                            .time_unix_ns = 1763700000000000000,
                                            .duration_ns = 10000000000,
                                            .default_type = 1};
    struct build build;
    start(&build, types, 2);
    uint32_t main_ = at(&build, PROGRAM, 0x401000, "main", NULL);
    uint32_t load = at(&build, PROGRAM, 0x402000, "load_index", NULL);
    uint32_t copy = at(&build, LIBRARY, 0x7f0000001000, "copy_bytes", NULL);
    uint32_t fault = at(&build, KERNEL, 0xffffffff81000000, "exc_page_fault", NULL);
    faults(&build, 300, (uint32_t[]){fault, copy, load, main_, 0});
    faults(&build, 100, (uint32_t[]){load, main_, 0});
    sonde_profile_set_info(build.profile, &info);
    must(sonde_profile_add_comment(build.profile, "target: loader, pid 100"));
    return build.profile;
}

static struct sonde_profile *build_empty(void) {
    struct build build;
    start(&build, cpu, 2);
    facts(&build);
    return build.profile;
}

static struct sonde_profile *build_hostile(void) {
    static const char *const names[] = {
        "</title><script>window.broken = 1</script>",
        "]]></script><img src=x onerror=\"window.broken = 1\">",
        "a\"b'c<d>&amp;e",
        "broken \xff\xc0\x80 bytes",
        "tab\there\nand \x1b[31m",
        "\xe2\x80\xaetxet\xe2\x81\xa6",
        "\xef\xbf\xbe\xef\xbf\xbf and \xf0\x9f\x94\xa5",
        "semi;colon (50.00%)",
    };
    struct build build;
    start(&build, cpu, 2);
    uint32_t root = at(&build, PROGRAM, 0x401000, "main<&>", NULL);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ticks(&build, i % 2 ? "<b>\"thread\"" : "]]>&\xff", 100 + (int64_t)i % 2, 10 + (int64_t)i,
              (uint32_t[]){at(&build, PROGRAM, 0x402000 + 16 * i, names[i], NULL), root, 0});
    facts(&build);
    must(sonde_profile_add_comment(build.profile, "<script>window.broken = 1</script>"));
    return build.profile;
}

static struct sonde_profile *build_diff(void) {
    static const struct sonde_value_type types[] = {{"samples", "count"}, {"before", "count"}};
    struct build build;
    start(&build, types, 2);
    uint32_t root = at(&build, PROGRAM, 0x401000, "main", NULL);
    uint32_t grew = at(&build, PROGRAM, 0x402000, "grew", NULL);
    uint32_t shrank = at(&build, PROGRAM, 0x403000, "shrank", NULL);
    uint32_t same = at(&build, PROGRAM, 0x404000, "same", NULL);
    /* A capture twice as long, to check that shares are compared, not counts. */
    sample(&build, "server", 100, 100, 20, (uint32_t[]){grew, root, 0});
    sample(&build, "server", 100, 20, 40, (uint32_t[]){shrank, root, 0});
    sample(&build, "server", 100, 80, 40, (uint32_t[]){same, root, 0});
    return build.profile;
}

static struct sonde_profile *build_memory(void) {
    static const struct sonde_value_type types[] = {{"inuse_space", "bytes"},
                                                    {"inuse_objects", "count"}};
    struct build build;
    start(&build, types, 2);
    uint32_t root = at(&build, PROGRAM, 0x401000, "main", NULL);
    uint32_t table = at(&build, PROGRAM, 0x402000, "grow_table", NULL);
    uint32_t copy = at(&build, LIBRARY, 0x7f0000001000, "duplicate", NULL);
    sample(&build, "server", 100, 5 << 20, 12, (uint32_t[]){table, root, 0});
    sample(&build, "server", 100, 1536, 3, (uint32_t[]){copy, root, 0});
    return build.profile;
}

enum { HEAP_PERIOD = 524288 };

static struct build start_heap(void) {
    static const struct sonde_value_type types[] = {{"alloc_objects", "count"},
                                                    {"alloc_space", "bytes"},
                                                    {"inuse_objects", "count"},
                                                    {"inuse_space", "bytes"}};
    struct build build;
    start(&build, types, 4);
    const struct sonde_mapping allocator = {.start = 0x7f1000000000,
                                            .limit = 0x7f1000200000,
                                            .filename = text(&build, "/opt/lib/libjemalloc.so.2")};
    must(sonde_profile_add_mapping(build.profile, &allocator, &build.mappings[NONE]));
    const struct sonde_profile_info info = {.period_type = {"space", "bytes"},
                                            .period = HEAP_PERIOD,
                                            .time_unix_ns = 1763700000000000000,
                                            .default_type = 3,
                                            .is_unbiased = true};
    sonde_profile_set_info(build.profile, &info);
    return build;
}

/* `samples` objects of `size` bytes are live; `times` as many were allocated. */
static void allocations(const struct build *build, double samples, double size, int64_t times,
                        const uint32_t *locations) {
    double objects = samples / -expm1(-size / HEAP_PERIOD);
    const int64_t values[] = {(int64_t)(objects * (double)times),
                              (int64_t)(objects * size * (double)times), (int64_t)objects,
                              (int64_t)(objects * size)};
    struct sonde_sample added = {
        .locations = locations, .values = values, .sampled = (uint64_t)samples};
    while (locations[added.location_count])
        added.location_count++;
    must(sonde_profile_add_sample(build->profile, &added));
}

static struct sonde_profile *build_heap_of(double growth) {
    struct build b = start_heap();
    uint32_t inner = at(&b, NONE, 0x7f1000001000, "prof_backtrace", NULL);
    uint32_t malloc_ = at(&b, NONE, 0x7f1000002000, "malloc", NULL);
    uint32_t main_ = at(&b, PROGRAM, 0x401000, "main", NULL);
    uint32_t grow = at(&b, PROGRAM, 0x402000, "grow_table", NULL);
    uint32_t small = at(&b, PROGRAM, 0x403000, "new_node", "insert<Key>");
    uint32_t copy = at(&b, LIBRARY, 0x7f0000001000, NULL, NULL);
    allocations(&b, 7 * growth, 4 << 20, 2, (uint32_t[]){inner, malloc_, grow, main_, 0});
    allocations(&b, 3, 100000, 1, (uint32_t[]){malloc_, grow, main_, 0});
    allocations(&b, 40, 64, 5, (uint32_t[]){inner, malloc_, small, main_, 0});
    if (growth == 1) /* freed later */
        allocations(&b, 2, 700, 1, (uint32_t[]){inner, malloc_, copy, small, main_, 0});
    allocations(&b, 1, 4096, 1, (uint32_t[]){inner, malloc_, 0});
    return b.profile;
}

static struct sonde_profile *build_heap(void) {
    return build_heap_of(1);
}

static struct sonde_profile *build_trimmed(void) {
    struct sonde_profile *heap = build_heap(), *trimmed;
    must(sonde_memory_trim(heap, sonde_memory_of_library, NULL, &trimmed, NULL));
    sonde_profile_destroy(heap);
    return trimmed;
}

static struct sonde_profile *build_grown(void) {
    struct sonde_profile *heap = build_heap_of(3), *trimmed;
    must(sonde_memory_trim(heap, sonde_memory_of_library, NULL, &trimmed, NULL));
    sonde_profile_destroy(heap);
    return trimmed;
}

static struct sonde_profile *build_heap_diff(void) {
    struct sonde_profile *before = build_heap(), *now = build_heap_of(3), *both;
    must(sonde_profile_compare(before, now, NULL, &both, NULL));
    sonde_profile_destroy(before);
    sonde_profile_destroy(now);
    return both;
}

static struct sonde_profile *build_empty_heap(void) {
    return start_heap().profile;
}

/* Two builds of a server and of its library, at other addresses and with other file names. In the
 * second one parse_header takes twice the time, verify is new, log_line is gone, and the compiler
 * made no variant of checksum and inlined handle. */
static struct sonde_profile *build_version(int version) {
    const char *const files[][4] = {
        {"/srv/server-1.0/server-1.0", "aaaa", "/srv/server-1.0/libpack.so.1.2.3", "bbbb"},
        {"/srv/server-2.0/server-2.0", "cccc", "/srv/server-2.0/libpack.so.2", "dddd"}};
    const char *const *file = files[version - 1];
    uint64_t base = version == 1 ? 0x555500000000 : 0x560000000000, library = base + 0x10000000;
    struct build build = {.profile = sonde_profile_create(cpu, 2, 0)};
    const struct sonde_mapping mappings[] = {{.start = base,
                                              .limit = base + 0x100000,
                                              .filename = text(&build, file[0]),
                                              .build_id = text(&build, file[1])},
                                             {.start = library,
                                              .limit = library + 0x100000,
                                              .filename = text(&build, file[2]),
                                              .build_id = text(&build, file[3])}};
    for (size_t i = 0; i < 2; i++)
        must(sonde_profile_add_mapping(build.profile, &mappings[i], &build.mappings[i + 1]));
    bool is_first = version == 1;
    uint64_t code = base + (is_first ? 0x1000 : 0x2000);
    uint32_t main_ =
        at(&build, PROGRAM, code, is_first ? "main" : "handle", is_first ? NULL : "main");
    uint32_t handle = at(&build, PROGRAM, code + 0x100, "handle", NULL);
    uint32_t parse = at(&build, PROGRAM, code + 0x200, "parse_header", NULL);
    uint32_t check =
        at(&build, PROGRAM, code + 0x300, is_first ? "checksum.isra.0" : "checksum", NULL);
    uint32_t other = at(&build, PROGRAM, code + 0x400, is_first ? "log_line" : "verify", NULL);
    uint32_t pack = at(&build, LIBRARY, library + 0x500 * (unsigned)version, "pack", NULL);
    uint32_t start_ = at(&build, LIBRARY, library + 0x700 * (unsigned)version,
                         is_first ? "[libpack.so.1.2.3]+0x700" : "[libpack.so.2]+0xe00", NULL);
    uint32_t unnamed = at(&build, LIBRARY, library + 0x600 * (unsigned)version, NULL, NULL);
    const uint32_t leaves[] = {parse, check, other, pack, is_first ? unnamed : start_};
    const int64_t counts[] = {is_first ? 300 : 600, 100, is_first ? 200 : 100, 300, 100};
    for (size_t i = 0; i < 5; i++)
        ticks(&build, "server", is_first ? 100 : 200, counts[i],
              is_first ? (uint32_t[]){leaves[i], handle, main_, 0}
                       : (uint32_t[]){leaves[i], main_, 0});
    facts(&build);
    must(sonde_profile_add_comment(build.profile, "target: server, pid 4711"));
    return build.profile;
}

static struct sonde_profile *build_version_1(void) {
    return build_version(1);
}

static struct sonde_profile *build_version_2(void) {
    return build_version(2);
}

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static struct sonde_profile *build_large(void) {
    enum { FUNCTIONS = 3000, SAMPLES = 8000, DEPTH = 34 };
    static uint32_t functions[FUNCTIONS];
    struct build build;
    uint32_t random = 1;
    start(&build, cpu, 2);
    for (int i = 0; i < FUNCTIONS; i++) {
        char name[64];
        snprintf(name, sizeof name, "ns::Class%d::method%d(int)", i % 97, i);
        functions[i] =
            at(&build, i % 7 ? PROGRAM : LIBRARY, 0x410000 + 16u * (unsigned)i, name, NULL);
    }
    for (int i = 0; i < SAMPLES; i++) {
        uint32_t locations[DEPTH + 1] = {0};
        int depth = 10 + (int)(next_random(&random) % (DEPTH - 10));
        for (int k = 0; k < depth; k++)
            locations[depth - 1 - k] =
                functions[(k * 97 + (int)(next_random(&random) % (1u + (unsigned)k / 3)) + i % 5) %
                          FUNCTIONS];
        ticks(&build, i % 3 ? "worker" : "net", 100 + i % 3, 1 + next_random(&random) % 3,
              locations);
    }
    facts(&build);
    return build.profile;
}

struct sonde_profile *fixture(const char *name) {
    static const struct {
        const char *name;
        struct sonde_profile *(*build)(void);
    } rows[] = {{"server", build_server},       {"empty", build_empty},
                {"hostile", build_hostile},     {"diff", build_diff},
                {"memory", build_memory},       {"heap", build_heap},
                {"trimmed", build_trimmed},     {"grown", build_grown},
                {"heap_diff", build_heap_diff}, {"empty_heap", build_empty_heap},
                {"large", build_large},         {"version_1", build_version_1},
                {"version_2", build_version_2}, {"faults", build_faults}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].build();
    return NULL;
}

struct sonde_draw_options fixture_options(const char *name) {
    struct sonde_draw_options options = {0};
    if (strcmp(name, "heap") == 0 || strcmp(name, "trimmed") == 0)
        options.type = "inuse_space";
    if (strcmp(name, "diff") == 0 || strcmp(name, "heap_diff") == 0) {
        options.palette = SONDE_PALETTE_DIFF;
        options.base_index = 1;
    }
    if (strcmp(name, "memory") == 0 || options.type)
        options.palette = SONDE_PALETTE_MEMORY;
    if (strcmp(name, "faults") == 0)
        options.type_index = 1;
    if (strcmp(name, "hostile") == 0) {
        options.title = "<b>title</b> & \"more\"";
        options.subtitle = "]]> </style><script>window.broken = 1</script> \xff pid 1";
    }
    return options;
}
