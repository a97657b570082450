/* SPDX-License-Identifier: Apache-2.0
 *
 * MAPPED_LIBRARIES at the end of the dump is read first, because locations refer to mappings, and
 * then the stacks.
 *
 *     heap_v2/524288                      R
 *       t*: 996: 323085 [0: 0]            totals, not used
 *     @ 0x7f03f48a2630 0x5570b0aa2095     a stack, leaf first
 *       t*: 197: 12608 [0: 0]             live objects: bytes [all objects: bytes]
 *       t0: 197: 12608 [0: 0]             the same per thread, not used
 *
 *     MAPPED_LIBRARIES:
 *     5570b0aa2000-5570b0aa3000 r-xp 00001000 fe:00 10954152   /usr/bin/x */
#include "api/profile/heap/jemalloc.h"

#include "api/text/maps_line.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 512
#define MAX_LINE  16384
#define MAX_PATH  1023u

enum value { ALLOC_OBJECTS, ALLOC_SPACE, INUSE_OBJECTS, INUSE_SPACE, VALUES };

struct reader {
    const char *at, *end;
    const char *maps; /* the line after MAPPED_LIBRARIES:, or end */
    size_t line;
    double interval;
    bool has_allocs;
    struct sonde_profile *profile;
    struct sonde_diag *diag;
    uint64_t pcs[MAX_DEPTH];
    uint32_t locations[MAX_DEPTH];
};

bool sonde_jemalloc_is_dump(struct sonde_slice bytes) {
    return bytes.len > 8 && memcmp(bytes.data, "heap_v2/", 8) == 0;
}

/* Copies the next line without its LF; false at `until`. A line that is too long is cut. */
static bool next_line(struct reader *reader, const char *until, char *buffer) {
    if (reader->at >= until)
        return false;
    const char *feed = memchr(reader->at, '\n', (size_t)(until - reader->at));
    const char *stop = feed ? feed : until;
    size_t len = (size_t)(stop - reader->at);
    size_t copied = len < MAX_LINE ? len : MAX_LINE - 1;
    memcpy(buffer, reader->at, copied);
    buffer[copied] = 0;
    reader->at = feed ? feed + 1 : until;
    reader->line++;
    return true;
}

static sonde_err corrupt(struct reader *reader, const char *what) {
    return sonde_fail(reader->diag, SONDE_CORRUPT, "heap dump, line %zu: %s", reader->line, what);
}

static sonde_err read_header(struct reader *reader) {
    char line[MAX_LINE];
    char *rest;
    if (!next_line(reader, reader->end, line) || strncmp(line, "heap_v2/", 8) != 0)
        return corrupt(reader, "does not start with heap_v2/");
    reader->interval = strtod(line + 8, &rest);
    if (rest == line + 8 || !(reader->interval >= 1) || reader->interval > 1e15)
        return corrupt(reader, "no sampling interval after heap_v2/");
    return SONDE_OK;
}

/* "  t*: 197: 12608 [0: 0]" */
static bool read_counts(const char *line, double counts[VALUES]) {
    if (sscanf(line, " t*: %lf: %lf [%lf: %lf]", &counts[INUSE_OBJECTS], &counts[INUSE_SPACE],
               &counts[ALLOC_OBJECTS], &counts[ALLOC_SPACE]) != VALUES)
        return false;
    for (int i = 0; i < VALUES; i++)
        if (!(counts[i] >= 0 && counts[i] < 1e19)) /* sscanf accepts nan and inf */
            return false;
    return true;
}

static double unbias(double interval, double objects, double bytes) {
    if (objects <= 0 || bytes <= 0)
        return 0;
    return 1 / -expm1(-(bytes / objects) / interval);
}

static int64_t whole(double value) {
    return value >= 9e18 ? INT64_MAX : (int64_t)(value + 0.5);
}

static void estimate(const struct reader *reader, const double counts[VALUES],
                     int64_t values[VALUES]) {
    for (int objects = 0; objects < VALUES; objects += 2) {
        double scale = unbias(reader->interval, counts[objects], counts[objects + 1]);
        values[objects] = whole(counts[objects] * scale);
        values[objects + 1] = whole(counts[objects + 1] * scale);
    }
}

static uint32_t mapping_of(const struct sonde_profile *profile, uint64_t address) {
    uint32_t low = 1, high = (uint32_t)sonde_profile_mapping_count(profile);
    while (low <= high) {
        uint32_t middle = low + (high - low) / 2;
        const struct sonde_mapping *mapping = sonde_profile_mapping(profile, middle);
        if (address < mapping->start)
            high = middle - 1;
        else if (address >= mapping->limit)
            low = middle + 1;
        else
            return middle;
    }
    return 0;
}

/* Reads "@ 0x1 0x2": at most MAX_DEPTH pcs. */
static sonde_err read_stack(struct reader *reader, const char *line, uint32_t *depth) {
    char *at = (char *)line + 1, *next;
    *depth = 0;
    for (;; at = next) {
        uint64_t pc = strtoull(at, &next, 16);
        if (next == at)
            break;
        if (*depth == MAX_DEPTH)
            return corrupt(reader, "a stack of more than 512 addresses");
        reader->pcs[(*depth)++] = pc;
    }
    return *next ? corrupt(reader, "an address that is not hexadecimal") : SONDE_OK;
}

static sonde_err add_stack(struct reader *reader, uint32_t depth, const double counts[VALUES]) {
    int64_t values[VALUES];
    estimate(reader, counts, values);
    for (uint32_t i = 0; i < depth; i++) {
        struct sonde_location location = {.address =
                                              reader->pcs[i] - (i > 0 && reader->pcs[i] > 0)};
        location.mapping = mapping_of(reader->profile, location.address);
        sonde_err err =
            sonde_profile_add_location(reader->profile, &location, &reader->locations[i]);
        if (err)
            return sonde_fail(reader->diag, err, "heap dump: too many different addresses");
    }
    struct sonde_sample sample = {.locations = reader->locations,
                                  .location_count = depth,
                                  .sampled = (uint64_t)whole(counts[INUSE_OBJECTS]),
                                  .values = reader->has_allocs ? values : values + INUSE_OBJECTS};
    sonde_err err = sonde_profile_add_sample(reader->profile, &sample);
    return err ? sonde_fail(reader->diag, err, "heap dump: too many different stacks") : SONDE_OK;
}

static sonde_err read_stacks(struct reader *reader) {
    char line[MAX_LINE];
    double counts[VALUES];
    uint32_t depth = 0;
    bool pending = false; /* the last stack has no counts yet */
    while (next_line(reader, reader->maps, line)) {
        sonde_err err = SONDE_OK;
        if (line[0] == '@') {
            err = read_stack(reader, line, &depth);
            pending = true;
        } else if (pending && strncmp(line, "  t*:", 5) == 0) {
            err = read_counts(line, counts) ? add_stack(reader, depth, counts)
                                            : corrupt(reader, "counts that are not numbers");
            pending = false;
        }
        if (err)
            return err;
    }
    return pending ? corrupt(reader, "ends in a stack without counts") : SONDE_OK;
}

/* Adds an executable mapping. Skips lines that are not mappings, like jeprof. */
static sonde_err add_mapping(struct reader *reader, const char *line) {
    struct sonde_maps_line parsed;
    if (!sonde_maps_line_parse(line, strlen(line), &parsed) || !parsed.is_executable)
        return SONDE_OK;
    struct sonde_mapping mapping = {
        .start = parsed.start, .limit = parsed.end, .offset = parsed.offset};
    size_t path_len = sonde_maps_path_len(parsed.path, parsed.path_len);
    path_len = path_len < MAX_PATH ? path_len : MAX_PATH;
    size_t count = sonde_profile_mapping_count(reader->profile);
    if (count > 0 && sonde_profile_mapping(reader->profile, (uint32_t)count)->limit > mapping.start)
        return corrupt(reader, "mappings that overlap or are not in order");
    uint32_t id;
    sonde_err err = sonde_profile_string(reader->profile, parsed.path, path_len, &mapping.filename);
    return err ? err : sonde_profile_add_mapping(reader->profile, &mapping, &id);
}

static sonde_err read_maps(struct reader *reader) {
    char line[MAX_LINE];
    while (next_line(reader, reader->end, line)) {
        sonde_err err = add_mapping(reader, line);
        if (err)
            return err;
    }
    return SONDE_OK;
}

static sonde_err create_profile(struct reader *reader, size_t limit_bytes) {
    static const struct sonde_value_type types[VALUES] = {
        {"alloc_objects", "count"},
        {"alloc_space", "bytes"},
        {"inuse_objects", "count"},
        {"inuse_space", "bytes"},
    };
    int first = reader->has_allocs ? ALLOC_OBJECTS : INUSE_OBJECTS;
    reader->profile = sonde_profile_create(types + first, (size_t)(VALUES - first), limit_bytes);
    if (!reader->profile)
        return sonde_fail(reader->diag, SONDE_OUT_OF_MEMORY, "out of memory");
    struct sonde_profile_info info = {
        .period_type = {"space", "bytes"},
        .period = (int64_t)reader->interval,
        .default_type = (uint32_t)(INUSE_SPACE - first),
        .is_unbiased = true,
    };
    sonde_profile_set_info(reader->profile, &info);
    return SONDE_OK;
}

/* Whether the dump counts all allocations; without prof_accum the header's totals of them are 0. */
static bool counts_allocs(const struct reader *reader) {
    struct reader ahead = *reader;
    char line[MAX_LINE];
    double counts[VALUES];
    return next_line(&ahead, ahead.maps, line) && read_counts(line, counts) &&
           counts[ALLOC_OBJECTS] > 0;
}

static sonde_err read_dump(struct reader *reader, size_t limit_bytes) {
    static const char marker[] = "\nMAPPED_LIBRARIES:\n";
    const char *start = reader->at;
    const char *found = memmem(start, (size_t)(reader->end - start), marker, sizeof marker - 1);
    reader->maps = found ? found + 1 : reader->end;
    sonde_err err = read_header(reader);
    if (err)
        return err;
    reader->has_allocs = counts_allocs(reader);
    struct reader stacks = *reader;
    err = create_profile(reader, limit_bytes);
    reader->at = found ? found + sizeof marker - 1 : reader->end;
    if (!err)
        err = read_maps(reader);
    reader->at = stacks.at;
    reader->line = stacks.line;
    return err ? err : read_stacks(reader);
}

sonde_err sonde_jemalloc_read(struct sonde_slice bytes, size_t limit_bytes,
                              struct sonde_profile **profile, struct sonde_diag *diag) {
    *profile = NULL;
    struct reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    reader->at = bytes.data;
    reader->end = bytes.data + bytes.len;
    reader->diag = diag;
    sonde_err err = read_dump(reader, limit_bytes);
    if (err)
        sonde_profile_destroy(reader->profile);
    else
        *profile = reader->profile;
    free(reader);
    return err;
}
