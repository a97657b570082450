/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/check.h"
#include "tests/unit/draw/fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define PERIOD 524288.0

static char *drawn(const struct sonde_profile *profile, enum sonde_format format,
                   const struct sonde_draw_options *options) {
    struct sonde_buf out = {0};
    size_t len;
    CHECK_INT(sonde_draw(profile, format, options, &out, NULL), ==, SONDE_OK);
    return sonde_buf_take(&out, &len);
}

/* A heap of `count` stacks; stack i has objects[i] objects with bytes[i] bytes in total. */
static struct sonde_profile *heap(size_t count, const double *objects, const double *bytes) {
    const struct sonde_value_type types[] = {{"inuse_objects", "count"}, {"inuse_space", "bytes"}};
    struct sonde_profile *profile = sonde_profile_create(types, 2, 0);
    const struct sonde_profile_info info = {.period_type = {"space", "bytes"},
                                            .period = (int64_t)PERIOD};
    sonde_profile_set_info(profile, &info);
    for (size_t i = 0; i < count; i++) {
        struct sonde_location location = {.address = 4096 + 16 * i};
        uint32_t id;
        CHECK_INT(sonde_profile_add_location(profile, &location, &id), ==, SONDE_OK);
        const int64_t values[] = {(int64_t)llround(objects[i]), (int64_t)llround(bytes[i])};
        struct sonde_sample sample = {.locations = &id, .location_count = 1, .values = values};
        CHECK_INT(sonde_profile_add_sample(profile, &sample), ==, SONDE_OK);
    }
    return profile;
}

/* The totals that jeprof and go tool pprof compute from the lines of a file. */
static void read_back(const char *text, double *objects, double *bytes) {
    *objects = *bytes = 0;
    for (const char *line = strchr(text, '\n'); line; line = strchr(line + 1, '\n')) {
        double n, b;
        if (sscanf(line + 1, "%lf: %lf [", &n, &b) != 2 || n == 0)
            continue;
        double scale = 1 / (1 - exp(-(b / n) / PERIOD));
        *objects += n * scale;
        *bytes += b * scale;
    }
}

static void check_back(size_t count, const double *objects, const double *bytes, double tolerance) {
    struct sonde_profile *profile = heap(count, objects, bytes);
    char *text = drawn(profile, SONDE_FORMAT_LEGACY_HEAP, NULL);
    double n, b;
    read_back(text, &n, &b);
    CHECK_NEAR(n, sonde_profile_total(profile, 0),
               1 + tolerance * (double)sonde_profile_total(profile, 0));
    CHECK_NEAR(b, sonde_profile_total(profile, 1),
               1 + tolerance * (double)sonde_profile_total(profile, 1));
    free(text);
    sonde_profile_destroy(profile);
}

TEST(legacy_heap_with_one_size_per_stack_is_read_back_exactly) {
    for (double size = 16; size < 1e9; size *= 3)
        for (double samples = 1; samples < 1e5; samples *= 10) {
            double objects = samples / (1 - exp(-size / PERIOD)), bytes = objects * size;
            if (size > 1e6)
                objects = round(objects), bytes = round(objects) * size;
            /* rounding matters for few objects: 4.5 become 5 */
            check_back(1, &objects, &bytes, objects < 1000 ? 0.6 / objects : 0.02);
        }
}

TEST(legacy_heap_preserves_the_bytes_of_large_objects) {
    double objects = 1 / (1 - exp(-131072 / PERIOD)), bytes = objects * 131072;
    struct sonde_profile *profile = heap(1, &objects, &bytes);
    char *text = drawn(profile, SONDE_FORMAT_LEGACY_HEAP, NULL);
    double n, b;
    read_back(text, &n, &b);
    CHECK_NEAR(b, bytes, 3);
    free(text);
    sonde_profile_destroy(profile);
}

/* Values that do not correspond to whole numbers of samples. */
TEST(legacy_heap_carries_rounding_errors_to_the_next_stack) {
    enum { STACKS = 1000 };
    static double objects[STACKS], bytes[STACKS];
    for (int i = 0; i < STACKS; i++) {
        double size = 24 + (i * 37) % 3000;
        bytes[i] = 30000 + 997.0 * ((i * 71) % 1500); /* 0.06 to 2.9 samples */
        objects[i] = bytes[i] / size;
    }
    struct sonde_profile *profile = heap(STACKS, objects, bytes);
    char *text = drawn(profile, SONDE_FORMAT_LEGACY_HEAP, NULL);
    double n, b;
    read_back(text, &n, &b);
    CHECK_NEAR(b, sonde_profile_total(profile, 1), PERIOD); /* less than a sample of 1,400 */
    free(text);
    sonde_profile_destroy(profile);
}

TEST(legacy_heap_of_a_counted_profile_is_not_scaled) {
    struct sonde_profile *profile = fixture("memory");
    char *text = drawn(profile, SONDE_FORMAT_LEGACY_HEAP, NULL);
    CHECK(strncmp(text, "heap profile: 15: 5244416 [0: 0] @ heapprofile\n", 47) == 0);
    CHECK(strstr(text, "\n12: 5242880 [0: 0] @ 0x402000 0x401001\n") != NULL);
    CHECK(strstr(text, "\n\nMAPPED_LIBRARIES:\n00400000-00500000 r-xp 00000000 00:00 0 /opt/") !=
          NULL);
    free(text);
    sonde_profile_destroy(profile);
}

TEST(defaults_for_memory_are_its_default_type_and_palette) {
    struct sonde_profile *profile = fixture("heap"), *server = fixture("server");
    struct sonde_draw_options options = sonde_draw_defaults(profile);
    CHECK_INT(options.palette, ==, SONDE_PALETTE_MEMORY);
    CHECK(options.title == NULL);
    char *text = drawn(profile, SONDE_FORMAT_SVG_FLAMEGRAPH, &options);
    CHECK(strstr(text, "<title>server, live heap, 2025") && strstr(text, "data-unit=\"bytes\""));
    CHECK(strstr(text, "estimated from 53 samples (± 13.0 %), one per 512.00 KiB") != NULL);
    CHECK_INT(sonde_draw_defaults(server).palette, ==, SONDE_PALETTE_CPU);
    CHECK(sonde_draw_defaults(server).title == NULL);
    free(text);
    sonde_profile_destroy(profile);
    sonde_profile_destroy(server);
}

TEST(sample_types_are_chosen_by_name_and_an_error_lists_them) {
    struct sonde_profile *profile = fixture("trimmed");
    struct sonde_draw_options options = {.type = "alloc_objects"};
    struct sonde_buf out = {0};
    struct sonde_diag diag = {0};
    char *text = drawn(profile, SONDE_FORMAT_COLLAPSED, &options);
    CHECK(strstr(text, "main;insert<Key>;new_node 1638") != NULL); /* 5 x 40 / p(64) */
    free(text);
    options.type = "cpu";
    CHECK_INT(sonde_draw(profile, SONDE_FORMAT_COLLAPSED, &options, &out, &diag), ==,
              SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "the profile has no sample type \"cpu\"; it has alloc_objects "
                         "alloc_space inuse_objects inuse_space");
    sonde_profile_destroy(profile);
}

TEST(heapsnapshot_with_too_many_objects_still_has_every_byte) {
    double objects[] = {5e6, 3}, bytes[] = {64e9 * 1000, 3e6};
    struct sonde_profile *profile = heap(2, objects, bytes);
    char *text = drawn(profile, SONDE_FORMAT_HEAPSNAPSHOT, NULL);
    long long count = 0, sum = 0;
    const char *at = strstr(text, "\"nodes\":[");
    for (at = strchr(at, '\n'); at && at[1] != '"'; at = strchr(at + 1, '\n')) {
        /* not sscanf, which would measure the 40 MB each time */
        char *next = (char *)at + 1;
        long long fields[4];
        for (int i = 0; i < 4; i++)
            fields[i] = strtoll(next, &next, 10), next++;
        count += fields[0] == 8;
        sum += fields[3];
    }
    CHECK_INT(count, <=, (1 << 20) + 2);
    CHECK_INT(count, >, 1 << 19);
    CHECK_INT(sum, ==, 64000000000000 + 3000000);
    free(text);
    sonde_profile_destroy(profile);
}

TEST(subject_follows_from_the_sample_types) {
    static const struct sonde_value_type types[] = {{"alloc_objects", "count"},
                                                    {"alloc_space", "bytes"}};
    struct sonde_profile *allocations = sonde_profile_create(types, 2, 0);
    struct sonde_profile *heaps = fixture("heap"), *server = fixture("server");
    CHECK_INT(sonde_draw_subject(allocations), ==, SONDE_OF_ALLOCATIONS);
    CHECK_INT(sonde_draw_subject(heaps), ==, SONDE_OF_HEAP);
    CHECK_INT(sonde_draw_subject(server), ==, SONDE_OF_CPU);
    sonde_profile_destroy(allocations);
    sonde_profile_destroy(heaps);
    sonde_profile_destroy(server);
}

/* A heap with a million objects of one site. */
static struct sonde_profile *million(void) {
    static const struct sonde_value_type types[] = {{"inuse_objects", "count"},
                                                    {"inuse_space", "bytes"}};
    struct sonde_profile *profile = sonde_profile_create(types, 2, 0);
    struct sonde_function function = {0};
    struct sonde_line line = {0};
    struct sonde_location location = {.address = 0x1000, .line_count = 1, .lines = &line};
    uint32_t id;
    CHECK_INT(sonde_profile_string(profile, "hold", 4, &function.name), ==, SONDE_OK);
    CHECK_INT(sonde_profile_add_function(profile, &function, &line.function), ==, SONDE_OK);
    CHECK_INT(sonde_profile_add_location(profile, &location, &id), ==, SONDE_OK);
    const int64_t values[] = {1000000, 64000000};
    struct sonde_sample sample = {
        .locations = &id, .location_count = 1, .values = values, .sampled = 1000000};
    CHECK_INT(sonde_profile_add_sample(profile, &sample), ==, SONDE_OK);
    sonde_profile_set_info(profile, &(struct sonde_profile_info){.period_type = {"space", "bytes"},
                                                                 .period = 1,
                                                                 .default_type = 1});
    return profile;
}

struct parts {
    size_t bytes, count, refuse_after;
    uint64_t hash;
};

static uint64_t hash_bytes(uint64_t hash, const char *bytes, size_t len) {
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3ull;
    return hash;
}

static bool take_part(void *context, const char *bytes, size_t len) {
    struct parts *parts = context;
    parts->hash = hash_bytes(parts->hash, bytes, len);
    parts->bytes += len;
    return ++parts->count != parts->refuse_after;
}

TEST(a_snapshot_of_a_million_objects_is_streamed) {
    struct sonde_profile *profile = million();
    struct sonde_draw_options options = sonde_draw_defaults(profile);
    struct parts parts = {.hash = 1};
    const struct sonde_draw_sink sink = {take_part, &parts};
    struct sonde_buf whole = {0}, rest = {0};
    CHECK_INT(sonde_draw(profile, SONDE_FORMAT_HEAPSNAPSHOT, &options, &whole, NULL), ==, SONDE_OK);
    options.sink = &sink;
    CHECK_INT(sonde_draw(profile, SONDE_FORMAT_HEAPSNAPSHOT, &options, &rest, NULL), ==, SONDE_OK);
    CHECK(rest.capacity <= 1 << 20);
    CHECK(whole.len > 30000000);
    CHECK_INT(parts.bytes + rest.len, ==, whole.len);
    CHECK(hash_bytes(parts.hash, rest.data, rest.len) == hash_bytes(1, whole.data, whole.len));
    parts = (struct parts){.refuse_after = 3};
    CHECK(sonde_draw(profile, SONDE_FORMAT_HEAPSNAPSHOT, &options, &rest, NULL) != SONDE_OK);
    CHECK_INT(parts.count, ==, 3); /* the sink's refusal ends it */
    sonde_buf_finish(&whole);
    sonde_buf_finish(&rest);
    sonde_profile_destroy(profile);
}
