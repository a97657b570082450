/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/pprof/pprof.h"
#include "api/profile/pprof/wire.h"
#include "tests/unit/check.h"
#include "tests/unit/draw/fixture.h"

#include <stdlib.h>
#include <zlib.h>

#define LIMIT ((size_t)16 << 20)

static struct sonde_buf written(const struct sonde_profile *profile, int level) {
    struct sonde_buf out = {0};
    CHECK_INT(sonde_pprof_write(profile, level, &out, NULL), ==, SONDE_OK);
    return out;
}

static sonde_err read_bytes(const void *bytes, size_t len, struct sonde_profile **profile) {
    struct sonde_diag diag = {0};
    sonde_err err = sonde_pprof_read((struct sonde_slice){bytes, len}, LIMIT, profile, &diag);
    CHECK((err == SONDE_OK) == (*profile != NULL));
    CHECK(err == SONDE_OK || diag.text[0]);
    return err;
}

/* Appends a field of a hand-written message. */
static void put_number(struct sonde_buf *out, uint32_t field, uint64_t value) {
    uint8_t bytes[2 * WIRE_MAX_VARINT], *end = wire_put_varint(bytes, field << 3);
    end = wire_put_varint(end, value);
    sonde_buf_append(out, bytes, (size_t)(end - bytes));
}

static void put_bytes(struct sonde_buf *out, uint32_t field, const void *data, size_t len) {
    uint8_t bytes[2 * WIRE_MAX_VARINT], *end = wire_put_varint(bytes, field << 3 | WIRE_BYTES);
    end = wire_put_varint(end, len);
    sonde_buf_append(out, bytes, (size_t)(end - bytes));
    sonde_buf_append(out, data, len);
}

/* The smallest valid profile: one type and the strings "", "samples", "count". */
static struct sonde_buf least(void) {
    struct sonde_buf out = {0};
    put_bytes(&out, 1, "\x08\x01\x10\x02", 4);
    put_bytes(&out, 6, "", 0);
    put_bytes(&out, 6, "samples", 7);
    put_bytes(&out, 6, "count", 5);
    return out;
}

static void refused(struct sonde_buf *out, sonde_err expected) {
    struct sonde_profile *profile;
    CHECK_INT(read_bytes(out->data, out->len, &profile), ==, expected);
    sonde_buf_finish(out);
}

TEST(pprof_read_returns_what_was_written_raw_and_gzipped) {
    const char *names[] = FIXTURE_NAMES;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct sonde_profile *before = fixture(names[i]), *after;
        for (int level = 0; level <= 9; level += 3) {
            struct sonde_buf out = written(before, level);
            CHECK_INT(read_bytes(out.data, out.len, &after), ==, SONDE_OK);
            CHECK_INT(sonde_profile_sample_count(after), ==, sonde_profile_sample_count(before));
            CHECK_INT(sonde_profile_location_count(after), ==,
                      sonde_profile_location_count(before));
            CHECK_INT(sonde_profile_total(after, 1), ==, sonde_profile_total(before, 1));
            sonde_profile_destroy(after);
            sonde_buf_finish(&out);
        }
        sonde_profile_destroy(before);
    }
}

TEST(pprof_read_preserves_all_metadata) {
    struct sonde_profile *before = fixture("server"), *after;
    struct sonde_buf out = written(before, 0);
    CHECK_INT(read_bytes(out.data, out.len, &after), ==, SONDE_OK);
    const struct sonde_profile_info *info = sonde_profile_info(after);
    CHECK_STR(info->period_type.type, "cpu");
    CHECK_INT(info->period, ==, 10101010);
    CHECK_INT(info->time_unix_ns, ==, 1763700000000000000);
    CHECK_INT(info->duration_ns, ==, 10000000000);
    CHECK_INT(info->default_type, ==, 1);
    CHECK_INT(sonde_profile_comment_count(after), ==, 2);
    CHECK_STR(sonde_profile_comment(after, 0), "clock: perf cpu-clock, dithered");
    const struct sonde_mapping *mapping = sonde_profile_mapping(after, 2);
    CHECK_STR(sonde_profile_text(after, mapping->build_id), "0123456789abcdef");
    CHECK_INT(mapping->offset, ==, 0x1000);
    struct sonde_sample sample = sonde_profile_sample(after, 0);
    CHECK_STR(sonde_sample_label(after, &sample, "thread"), "server");
    CHECK_INT(sample.label_count, ==, 2);
    CHECK_INT(sonde_profile_location(after, sample.locations[3])->line_count, ==, 2);
    CHECK_INT(sonde_profile_location(after, sample.locations[3])->lines[1].line, ==, 11);
    sonde_profile_destroy(before);
    sonde_profile_destroy(after);
    sonde_buf_finish(&out);
}

TEST(pprof_write_sets_exactly_the_flags_that_hold) {
    struct sonde_profile *before = fixture("server"), *after;
    struct sonde_buf out = written(before, 0);
    CHECK_INT(read_bytes(out.data, out.len, &after), ==, SONDE_OK);
    const struct sonde_mapping *program = sonde_profile_mapping(after, 1);
    const struct sonde_mapping *library = sonde_profile_mapping(after, 2);
    CHECK(program->has_functions && program->has_filenames && program->has_line_numbers &&
          program->has_inline_frames);
    CHECK(!library->has_functions && !library->has_filenames && !library->has_line_numbers);
    sonde_profile_destroy(before);
    sonde_profile_destroy(after);
    sonde_buf_finish(&out);
}

TEST(pprof_read_guesses_the_kind_of_a_frame) {
    struct sonde_profile *before = fixture("server"), *after;
    struct sonde_buf out = written(before, 0);
    CHECK_INT(read_bytes(out.data, out.len, &after), ==, SONDE_OK);
    for (uint32_t id = 1; id <= sonde_profile_location_count(before); id++)
        CHECK_INT(sonde_profile_location(after, id)->kind, ==,
                  sonde_profile_location(before, id)->kind);
    sonde_profile_destroy(before);
    sonde_profile_destroy(after);
    sonde_buf_finish(&out);
}

TEST(pprof_numeric_labels_keep_number_and_unit) {
    struct sonde_value_type type = {"samples", "count"};
    struct sonde_profile *before = sonde_profile_create(&type, 1, 0), *after;
    struct sonde_label label = {.num = -7};
    int64_t value = 1;
    CHECK_INT(sonde_profile_string(before, "bytes", 5, &label.key), ==, SONDE_OK);
    CHECK_INT(sonde_profile_string(before, "kilobytes", 9, &label.num_unit), ==, SONDE_OK);
    struct sonde_sample sample = {.label_count = 1, .values = &value, .labels = &label};
    CHECK_INT(sonde_profile_add_sample(before, &sample), ==, SONDE_OK);
    struct sonde_buf out = written(before, 0);
    CHECK_INT(read_bytes(out.data, out.len, &after), ==, SONDE_OK);
    sample = sonde_profile_sample(after, 0);
    CHECK_INT(sample.labels[0].num, ==, -7);
    CHECK_INT(sample.labels[0].str, ==, 0);
    CHECK_STR(sonde_profile_text(after, sample.labels[0].num_unit), "kilobytes");
    sonde_profile_destroy(before);
    sonde_profile_destroy(after);
    sonde_buf_finish(&out);
}

TEST(pprof_write_starts_with_the_sample_types) {
    struct sonde_profile *profile = fixture("server");
    struct sonde_buf out = written(profile, 0);
    CHECK_INT(out.data[0], ==, 0x0a);
    sonde_buf_finish(&out);
    CHECK_INT(sonde_pprof_write(profile, 10, &out, NULL), ==, SONDE_INVALID_ARGUMENT);
    sonde_profile_destroy(profile);
}

TEST(pprof_read_takes_fields_in_any_order_packed_or_not) {
    struct sonde_buf out = {0};
    struct sonde_profile *profile;
    /* the sample precedes what it refers to, and its numbers are not packed */
    put_bytes(&out, 2, "\x08\x2a\x08\x2b\x10\x05", 6);
    put_bytes(&out, 4, "\x08\x2a\x18\x64", 4);
    put_bytes(&out, 4, "\x08\x2b\x18\x65\x22\x02\x08\x63", 8);
    put_bytes(&out, 5, "\x08\x63\x10\x01", 4);
    struct sonde_buf head = least();
    sonde_buf_append(&out, head.data, head.len);
    CHECK_INT(read_bytes(out.data, out.len, &profile), ==, SONDE_OK);
    CHECK_INT(sonde_profile_total(profile, 0), ==, 5);
    CHECK_INT(sonde_profile_sample(profile, 0).location_count, ==, 2);
    CHECK_INT(sonde_profile_location(profile, 1)->address, ==, 0x64);
    CHECK_INT(sonde_profile_location(profile, 2)->line_count, ==, 1);
    sonde_profile_destroy(profile);
    sonde_buf_finish(&head);
    sonde_buf_finish(&out);
}

TEST(pprof_read_ignores_fields_it_does_not_know) {
    struct sonde_buf out = least();
    struct sonde_profile *profile;
    put_number(&out, 7, 1);
    put_number(&out, 999, 12345);
    put_bytes(&out, 1000, "whatever", 8);
    CHECK_INT(read_bytes(out.data, out.len, &profile), ==, SONDE_OK);
    sonde_profile_destroy(profile);
    sonde_buf_finish(&out);
}

TEST(pprof_read_refuses_malformed_files) {
    struct sonde_profile *profile;
    CHECK_INT(read_bytes("", 0, &profile), ==, SONDE_CORRUPT);
    CHECK_INT(read_bytes("<?xml version=", 14, &profile), ==, SONDE_CORRUPT);
    CHECK_INT(read_bytes("\x1f\x8b\x08\0\0\0\0\0", 8, &profile), ==, SONDE_CORRUPT);
    CHECK_INT(read_bytes("\x0a\x00", 2, &profile), ==, SONDE_CORRUPT); /* no strings */
}

TEST(pprof_read_refuses_unknown_ids) {
    static const struct {
        uint32_t field;
        const char *bytes;
        size_t len;
    } broken[] = {
        {1, "\x08\x09", 2},                     /* type: string 9 */
        {2, "\x0a\x01\x07\x12\x01\x01", 6},     /* sample: location 7 */
        {2, "\x12\x02\x01\x01", 4},             /* sample: two values, one type */
        {2, "", 0},                             /* sample: no values */
        {2, "\x12\x01\x01\x1a\x02\x08\x09", 7}, /* label: string 9 */
        {3, "\x08\x01\x28\x09", 4},             /* mapping: string 9 */
        {3, "", 0},                             /* mapping: id 0 */
        {4, "\x08\x01\x10\x05", 4},             /* location: mapping 5 */
        {4, "\x08\x01\x22\x02\x08\x05", 6},     /* line: function 5 */
        {5, "\x08\x01\x10\x09", 4},             /* function: string 9 */
        {4, "\x08", 1},                         /* cut */
        {11, "\x08\x09", 2},                    /* period type: string 9 */
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        struct sonde_buf out = least();
        put_bytes(&out, broken[i].field, broken[i].bytes, broken[i].len);
        struct sonde_profile *profile;
        sonde_err err = read_bytes(out.data, out.len, &profile);
        if (err != SONDE_CORRUPT && err != SONDE_TOO_LARGE)
            check_fail(__FILE__, __LINE__, "row %zu was taken: %d", i, (int)err);
        sonde_buf_finish(&out);
    }
}

TEST(pprof_read_refuses_duplicate_ids) {
    struct sonde_buf out = least();
    put_bytes(&out, 5, "\x08\x01\x10\x01", 4);
    put_bytes(&out, 5, "\x08\x01\x10\x02", 4);
    refused(&out, SONDE_CORRUPT);
}

TEST(pprof_read_refuses_too_many_types) {
    struct sonde_buf out = least();
    for (int i = 0; i < SONDE_PROFILE_MAX_TYPES; i++)
        put_bytes(&out, 1, "\x08\x01", 2);
    refused(&out, SONDE_INVALID_ARGUMENT);
}

TEST(pprof_read_shortens_samples_with_too_many_labels_or_locations) {
    struct sonde_buf out = least(), sample = {0};
    struct sonde_profile *profile;
    put_number(&sample, 2, 5);
    for (int i = 0; i <= SONDE_PROFILE_MAX_LABELS; i++)
        put_bytes(&sample, 3, "\x08\x01", 2);
    for (int i = 0; i < SONDE_PROFILE_MAX_DEPTH + 7; i++) {
        char location[] = {8, 0, 0, 24, 0};
        location[1] = (char)(0x80 | (i + 1) % 128);
        location[2] = (char)((i + 1) / 128);
        location[4] = 1;
        put_bytes(&out, 4, location, sizeof location);
        put_number(&sample, 1, (uint64_t)i + 1);
    }
    put_bytes(&out, 2, sample.data, sample.len);
    sonde_buf_finish(&sample);
    CHECK_INT(read_bytes(out.data, out.len, &profile), ==, SONDE_OK);
    struct sonde_sample kept = sonde_profile_sample(profile, 0);
    CHECK_INT(kept.location_count, ==, SONDE_PROFILE_MAX_DEPTH);
    CHECK_INT(kept.label_count, ==, SONDE_PROFILE_MAX_LABELS);
    CHECK_INT(sonde_profile_comment_count(profile), ==, 2);
    sonde_profile_destroy(profile);
    sonde_buf_finish(&out);
}

TEST(pprof_read_stops_at_its_limit) {
    struct sonde_profile *profile = fixture("large"), *read;
    struct sonde_buf raw = written(profile, 0), packed = written(profile, 1);
    struct sonde_diag diag = {0};
    CHECK_INT(sonde_pprof_read(sonde_buf_slice(&raw), raw.len - 1, &read, &diag), ==,
              SONDE_TOO_LARGE);
    CHECK_INT(sonde_pprof_read(sonde_buf_slice(&packed), raw.len - 1, &read, &diag), ==,
              SONDE_TOO_LARGE);
    CHECK(strstr(diag.text, "inflates to more than") != NULL);
    CHECK_INT(sonde_pprof_read(sonde_buf_slice(&packed), raw.len, &read, &diag), ==, SONDE_OK);
    sonde_profile_destroy(read);
    sonde_profile_destroy(profile);
    sonde_buf_finish(&raw);
    sonde_buf_finish(&packed);
}

TEST(pprof_read_stops_a_gzip_bomb) {
    enum { STEP = 1 << 20, TOTAL = 256 };
    z_stream stream = {0};
    struct sonde_buf bomb = {0};
    char *zeros = calloc(1, STEP);
    CHECK_INT(deflateInit2(&stream, 9, Z_DEFLATED, 31, 9, Z_DEFAULT_STRATEGY), ==, Z_OK);
    stream.next_out = (Bytef *)sonde_buf_extend(&bomb, STEP);
    stream.avail_out = STEP;
    for (int i = 0; i < TOTAL; i++) {
        stream.next_in = (Bytef *)zeros;
        stream.avail_in = STEP;
        CHECK_INT(deflate(&stream, i + 1 < TOTAL ? Z_NO_FLUSH : Z_FINISH), >=, 0);
    }
    bomb.len -= stream.avail_out;
    deflateEnd(&stream);
    free(zeros);
    refused(&bomb, SONDE_TOO_LARGE);
}

TEST(pprof_read_reports_every_truncation) {
    struct sonde_profile *profile = fixture("server"), *read;
    struct sonde_buf out = written(profile, 0);
    size_t taken = 0;
    for (size_t len = 0; len < out.len; len++) {
        char *exact = malloc(len ? len : 1);
        memcpy(exact, out.data, len);
        taken += read_bytes(exact, len, &read) == SONDE_OK;
        sonde_profile_destroy(read);
        free(exact);
    }
    CHECK_INT(taken, <, out.len / 10); /* only cuts between the last fields are valid */
    sonde_buf_finish(&out);
    sonde_profile_destroy(profile);
}

/* --- kinds -------------------------------------------------------------------------------------
 */

static const struct placed {
    const char *path, *build_id;
    enum sonde_frame_kind kind;
} placed[] = {
    {"/usr/bin/server", "aa", SONDE_FRAME_APPLICATION},
    {"/opt/2/server", "a2", SONDE_FRAME_APPLICATION},
    {"/usr/lib/libc.so.6", "bb", SONDE_FRAME_LIBRARY},
    {"/usr/lib/plugin", "", SONDE_FRAME_LIBRARY},
    {"/memfd:lib (deleted)", "cc", SONDE_FRAME_LIBRARY},
    {"[vdso]", "dd", SONDE_FRAME_LIBRARY},
    {"[vsyscall]", "", SONDE_FRAME_LIBRARY},
    {"[kernel]", "ee", SONDE_FRAME_KERNEL},
    {"[anon]", "", SONDE_FRAME_JIT},
    {"[anon:v8]", "", SONDE_FRAME_JIT},
    {"//anon", "", SONDE_FRAME_JIT},
    {"/memfd:doublemapper (deleted)", "", SONDE_FRAME_JIT},
    {"/dev/zero (deleted)", "", SONDE_FRAME_JIT},
};

static uint32_t intern(struct sonde_profile *profile, const char *text) {
    uint32_t id;
    CHECK_INT(sonde_profile_string(profile, text, strlen(text), &id), ==, SONDE_OK);
    return id;
}

/* Adds a sample with the rows [first, end), a location in no mapping, and a note. */
static struct sonde_profile *place_all(size_t first, size_t end) {
    static const struct sonde_value_type type = {"samples", "count"};
    struct sonde_profile *profile = sonde_profile_create(&type, 1, LIMIT);
    uint32_t locations[32], count = 0;
    CHECK(profile);
    for (size_t i = first; i < end; i++) {
        struct sonde_mapping mapping = {.start = 0x1000 * (i + 1),
                                        .limit = 0x1000 * (i + 2),
                                        .filename = intern(profile, placed[i].path),
                                        .build_id = intern(profile, placed[i].build_id)};
        struct sonde_location location = {.address = mapping.start + 1, .kind = placed[i].kind};
        CHECK_INT(sonde_profile_add_mapping(profile, &mapping, &location.mapping), ==, SONDE_OK);
        CHECK_INT(sonde_profile_add_location(profile, &location, &locations[count++]), ==,
                  SONDE_OK);
    }
    struct sonde_location nowhere = {.address = 0x10, .kind = SONDE_FRAME_UNKNOWN};
    CHECK_INT(sonde_profile_add_location(profile, &nowhere, &locations[count++]), ==, SONDE_OK);
    struct sonde_function function = {.name = intern(profile, "[truncated]")};
    struct sonde_line line = {0};
    CHECK_INT(sonde_profile_add_function(profile, &function, &line.function), ==, SONDE_OK);
    struct sonde_location note = {.line_count = 1, .lines = &line, .kind = SONDE_FRAME_NOTE};
    CHECK_INT(sonde_profile_add_location(profile, &note, &locations[count++]), ==, SONDE_OK);
    int64_t value = 1;
    struct sonde_sample sample = {
        .locations = locations, .location_count = count, .values = &value};
    CHECK_INT(sonde_profile_add_sample(profile, &sample), ==, SONDE_OK);
    return profile;
}

static void check_kinds(size_t first, size_t end) {
    struct sonde_profile *before = place_all(first, end), *after;
    struct sonde_buf out = written(before, 0);
    CHECK_INT(read_bytes(out.data, out.len, &after), ==, SONDE_OK);
    struct sonde_sample old = sonde_profile_sample(before, 0), new = sonde_profile_sample(after, 0);
    CHECK_INT(new.location_count, ==, old.location_count);
    for (uint32_t i = 0; i < old.location_count; i++)
        CHECK_INT(sonde_profile_location(after, new.locations[i])->kind, ==,
                  sonde_profile_location(before, old.locations[i])->kind);
    sonde_profile_destroy(before);
    sonde_profile_destroy(after);
    sonde_buf_finish(&out);
}

TEST(frame_kinds_survive_a_pprof_file) {
    size_t count = sizeof placed / sizeof *placed;
    check_kinds(0, count);
    check_kinds(2, count); /* no sample is in the program, so a library comes first */
    check_kinds(7, count);
}
