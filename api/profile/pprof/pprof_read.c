/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads hostile profile.proto files. Fields can come in any order, but the profile needs strings,
 * mappings, functions, locations and samples in that order. So the message is scanned once per
 * kind, which is cheap, because scanning jumps from length to length. Ids in the file are arbitrary
 * numbers, which three tables map to the profile's ids. Nothing recurses, and the profile's limit
 * bounds the memory that a byte of input can cost. */
#include "api/base/array.h"
#include "api/gzip.h"
#include "api/profile/kind.h"
#include "api/profile/pprof/pprof.h"
#include "api/profile/pprof/pprof_reader.h"
#include "api/profile/profile_tables.h"

#include <stdlib.h>
#include <string.h>

#define MEMORY_PER_BYTE 16 /* profile memory allowed per byte of input */
#define MEMORY_AT_LEAST ((size_t)64 << 20)

typedef sonde_err read_field(struct pprof_reader *reader, const struct wire_field *field);

sonde_err pprof_reader_corrupt(struct pprof_reader *reader, const uint8_t *at, const char *what) {
    return sonde_fail(reader->diag, SONDE_CORRUPT, "not a profile: %s at byte %zu", what,
                      (size_t)(at - reader->whole.start));
}

sonde_err pprof_reader_fail(struct pprof_reader *reader, sonde_err err, const char *what) {
    if (err)
        return sonde_fail(reader->diag, err, "%s: %s", what, sonde_diag_text(NULL, err));
    return SONDE_OK;
}

/* Calls on_field for each field of the message, in order. */
static sonde_err each_field(struct pprof_reader *reader, struct wire_reader message,
                            read_field *on_field) {
    struct wire_field field;
    sonde_err err = SONDE_OK;
    while (!err && wire_next(&message, &field))
        err = on_field(reader, &field);
    if (!err && message.at != message.end)
        err = pprof_reader_corrupt(reader, message.at, "a broken field");
    return err;
}

/* Calls on_message for each message under one field number of the file. */
static sonde_err each_message(struct pprof_reader *reader, uint32_t number,
                              sonde_err (*on_message)(struct pprof_reader *, struct wire_reader)) {
    struct wire_reader whole = reader->whole;
    struct wire_field field;
    sonde_err err = SONDE_OK;
    while (!err && wire_next(&whole, &field)) {
        if (field.number != number)
            continue;
        err = field.type == WIRE_BYTES
                  ? on_message(reader, field.nested)
                  : pprof_reader_corrupt(reader, whole.at, "a field of the wrong type");
    }
    return err;
}

sonde_err pprof_reader_string(struct pprof_reader *reader, uint64_t index, uint32_t *id) {
    if (index >= reader->string_count)
        return sonde_fail(reader->diag, SONDE_CORRUPT, "not a profile: string %llu of %zu",
                          (unsigned long long)index, reader->string_count);
    *id = reader->string_ids[index];
    if (*id)
        return SONDE_OK;
    const struct wire_reader *text = &reader->strings[index];
    sonde_err err = sonde_profile_string(reader->profile, (const char *)text->at,
                                         (size_t)(text->end - text->at), id);
    reader->string_ids[index] = *id;
    return pprof_reader_fail(reader, err, "the profile's names");
}

/* First scan: counts strings, finds the sample types and checks the structure. */
static sonde_err on_first_scan(struct pprof_reader *reader, const struct wire_field *field) {
    if (field->number == 6 && field->type == WIRE_BYTES) {
        if (reader->strings)
            reader->strings[reader->string_count] = field->nested;
        reader->string_count++;
    }
    if (field->number == 1 && field->type == WIRE_BYTES && !reader->strings) {
        if (reader->type_count == SONDE_PROFILE_MAX_TYPES)
            return sonde_fail(reader->diag, SONDE_INVALID_ARGUMENT,
                              "it has more than %d sample types", SONDE_PROFILE_MAX_TYPES);
        reader->types[reader->type_count++] = field->nested;
    }
    return SONDE_OK;
}

static sonde_err read_strings(struct pprof_reader *reader) {
    sonde_err err = each_field(reader, reader->whole, on_first_scan);
    if (err)
        return err;
    if (reader->string_count == 0 || reader->type_count == 0)
        return pprof_reader_corrupt(reader, reader->whole.at, "no strings or no sample types");
    reader->strings = calloc(reader->string_count, sizeof *reader->strings);
    reader->string_ids = calloc(reader->string_count, sizeof *reader->string_ids);
    if (!reader->strings || !reader->string_ids)
        return pprof_reader_fail(reader, SONDE_OUT_OF_MEMORY, "the profile's names");
    reader->string_count = 0;
    return each_field(reader, reader->whole, on_first_scan);
}

/* Reads a message of varints; values[n] is the field with the number n, which is below `count`. */
sonde_err pprof_reader_varints(struct pprof_reader *reader, struct wire_reader message,
                               uint64_t *values, uint32_t count) {
    struct wire_field field;
    memset(values, 0, count * sizeof *values);
    while (wire_next(&message, &field))
        if (field.number < count && field.type == WIRE_VARINT)
            values[field.number] = field.value;
    if (message.at != message.end)
        return pprof_reader_corrupt(reader, message.at, "a broken field");
    return SONDE_OK;
}

static sonde_err text_of(struct pprof_reader *reader, uint64_t index, struct sonde_buf *out) {
    if (index >= reader->string_count)
        return pprof_reader_corrupt(reader, reader->whole.at, "a string index out of range");
    const struct wire_reader *text = &reader->strings[index];
    sonde_buf_append(out, text->at, (size_t)(text->end - text->at));
    return out->failed ? pprof_reader_fail(reader, SONDE_OUT_OF_MEMORY, "a sample type") : SONDE_OK;
}

/* Creates the profile, which needs the sample types first. */
static sonde_err create_profile(struct pprof_reader *reader, size_t limit_bytes) {
    struct sonde_buf texts[2 * SONDE_PROFILE_MAX_TYPES] = {0};
    struct sonde_value_type types[SONDE_PROFILE_MAX_TYPES];
    uint64_t values[3];
    sonde_err err = SONDE_OK;
    for (size_t i = 0; i < reader->type_count && !err; i++) {
        err = pprof_reader_varints(reader, reader->types[i], values, 3);
        for (size_t part = 0; part < 2 && !err; part++)
            err = text_of(reader, values[1 + part], &texts[2 * i + part]);
        types[i] = (struct sonde_value_type){sonde_buf_slice(&texts[2 * i]).data,
                                             sonde_buf_slice(&texts[2 * i + 1]).data};
    }
    size_t memory = limit_bytes > SIZE_MAX / MEMORY_PER_BYTE ? 0 : limit_bytes * MEMORY_PER_BYTE;
    if (memory && memory < MEMORY_AT_LEAST)
        memory = MEMORY_AT_LEAST;
    if (!err) {
        reader->profile = sonde_profile_create(types, reader->type_count, memory);
        err = pprof_reader_fail(reader, reader->profile ? SONDE_OK : SONDE_OUT_OF_MEMORY,
                                "the profile");
    }
    if (!err) /* pprof's rule for files that do not name one */
        reader->profile->info.default_type = (uint32_t)reader->type_count - 1;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        sonde_buf_finish(&texts[i]);
    return err;
}

static sonde_err remember(struct pprof_reader *reader, struct pprof_ids *ids, uint64_t from,
                          uint32_t to, const char *what) {
    if (from == 0)
        return pprof_reader_fail(reader, SONDE_CORRUPT, what);
    return pprof_reader_fail(reader, pprof_ids_add(ids, from, to), what);
}

static sonde_err on_mapping(struct pprof_reader *reader, struct wire_reader message) {
    uint64_t v[11];
    struct sonde_mapping mapping = {0};
    uint32_t id = 0;
    sonde_err err = pprof_reader_varints(reader, message, v, 11);
    if (!err)
        err = pprof_reader_string(reader, v[5], &mapping.filename);
    if (!err)
        err = pprof_reader_string(reader, v[6], &mapping.build_id);
    if (err)
        return err;
    mapping.start = v[2];
    mapping.limit = v[3];
    mapping.offset = v[4];
    mapping.has_functions = v[7];
    mapping.has_filenames = v[8];
    mapping.has_line_numbers = v[9];
    mapping.has_inline_frames = v[10];
    err = pprof_reader_fail(reader, sonde_profile_add_mapping(reader->profile, &mapping, &id),
                            "a mapping");
    return err ? err : remember(reader, &reader->mappings, v[1], id, "a mapping's id");
}

static sonde_err on_function(struct pprof_reader *reader, struct wire_reader message) {
    uint64_t v[6];
    struct sonde_function function = {0};
    uint32_t id = 0;
    sonde_err err = pprof_reader_varints(reader, message, v, 6);
    if (!err)
        err = pprof_reader_string(reader, v[2], &function.name);
    if (!err)
        err = pprof_reader_string(reader, v[3], &function.system_name);
    if (!err)
        err = pprof_reader_string(reader, v[4], &function.filename);
    if (err)
        return err;
    function.start_line = (int64_t)v[5];
    err = pprof_reader_fail(reader, sonde_profile_add_function(reader->profile, &function, &id),
                            "a function");
    return err ? err : remember(reader, &reader->functions, v[1], id, "a function's id");
}

static sonde_err add_line(struct pprof_reader *reader, struct wire_reader message,
                          struct sonde_location *location) {
    uint64_t v[3];
    sonde_err err = pprof_reader_varints(reader, message, v, 3);
    if (err)
        return err;
    uint32_t function = pprof_ids_find(&reader->functions, v[1]);
    if (!function)
        return pprof_reader_corrupt(reader, message.start, "a line with an unknown function");
    if (!array_room(&reader->lines, &reader->line_capacity, location->line_count, 1))
        return pprof_reader_fail(reader, SONDE_OUT_OF_MEMORY, "a location");
    reader->lines[location->line_count++] = (struct sonde_line){function, (int64_t)v[2]};
    return SONDE_OK;
}

static sonde_err on_location(struct pprof_reader *reader, struct wire_reader message) {
    uint64_t v[6];
    struct sonde_location location = {0};
    struct wire_reader again = message;
    struct wire_field field;
    uint32_t id = 0;
    sonde_err err = pprof_reader_varints(reader, message, v, 6);
    while (!err && wire_next(&again, &field))
        if (field.number == 4 && field.type == WIRE_BYTES)
            err = add_line(reader, field.nested, &location);
    if (err)
        return err;
    if (v[2] && !(location.mapping = pprof_ids_find(&reader->mappings, v[2])))
        return pprof_reader_corrupt(reader, message.at, "a location with an unknown mapping");
    location.address = v[3];
    location.is_folded = v[5];
    location.lines = reader->lines;
    location.kind = sonde_profile_guess_kind(reader->profile, location.mapping, location.address);
    err = pprof_reader_fail(reader, sonde_profile_add_location(reader->profile, &location, &id),
                            "a location");
    return err ? err : remember(reader, &reader->locations, v[1], id, "a location's id");
}

static sonde_err read_period_type(struct pprof_reader *reader, struct wire_reader message) {
    uint64_t v[3];
    uint32_t type, unit;
    sonde_err err = pprof_reader_varints(reader, message, v, 3);
    if (!err)
        err = pprof_reader_string(reader, v[1], &type);
    if (!err)
        err = pprof_reader_string(reader, v[2], &unit);
    if (err)
        return err;
    struct sonde_profile_info info = *sonde_profile_info(reader->profile);
    info.period_type.type = sonde_profile_text(reader->profile, type);
    info.period_type.unit = sonde_profile_text(reader->profile, unit);
    sonde_profile_set_info(reader->profile, &info);
    return SONDE_OK;
}

static sonde_err read_default_type(struct pprof_reader *reader, uint64_t index,
                                   struct sonde_profile_info *info) {
    uint32_t id;
    sonde_err err = pprof_reader_string(reader, index, &id);
    for (uint32_t i = 0; i < reader->type_count && !err; i++)
        if (reader->profile->types[i].type == id)
            info->default_type = i;
    return err;
}

static sonde_err read_comments(struct pprof_reader *reader, const struct wire_field *field) {
    struct wire_reader packed = field->nested;
    uint64_t index = field->value;
    sonde_err err = SONDE_OK;
    while (!err && (field->type == WIRE_VARINT || packed.at != packed.end)) {
        uint32_t id;
        if (field->type == WIRE_BYTES && !wire_get_varint(&packed, &index))
            return pprof_reader_corrupt(reader, packed.at, "a malformed comment");
        err = pprof_reader_string(reader, index, &id);
        if (!err)
            err = pprof_reader_fail(
                reader,
                sonde_profile_add_comment(reader->profile, sonde_profile_text(reader->profile, id)),
                "a malformed comment");
        if (field->type == WIRE_VARINT)
            break;
    }
    return err;
}

static sonde_err on_fact(struct pprof_reader *reader, const struct wire_field *field) {
    struct sonde_profile_info *info = &reader->profile->info;
    switch (field->number) {
    case 9:
        info->time_unix_ns = (int64_t)field->value;
        return SONDE_OK;
    case 10:
        info->duration_ns = (int64_t)field->value;
        return SONDE_OK;
    case 11:
        return field->type == WIRE_BYTES ? read_period_type(reader, field->nested) : SONDE_OK;
    case 12:
        info->period = (int64_t)field->value;
        return SONDE_OK;
    case 13:
        return read_comments(reader, field);
    case 14:
        return read_default_type(reader, field->value, info);
    default:
        return SONDE_OK;
    }
}

static sonde_err read_profile(struct pprof_reader *reader, size_t limit_bytes) {
    sonde_err err = read_strings(reader);
    if (!err)
        err = create_profile(reader, limit_bytes);
    if (!err)
        err = each_message(reader, 3, on_mapping);
    if (!err)
        err = each_message(reader, 5, on_function);
    if (!err)
        err = each_message(reader, 4, on_location);
    if (!err)
        err = each_message(reader, 2, pprof_reader_sample);
    if (!err)
        err = each_field(reader, reader->whole, on_fact);
    if (!err)
        err = pprof_reader_note_cuts(reader);
    if (err)
        return err;
    /* pprof's convention if the file does not have one */
    struct sonde_profile_info *info = &reader->profile->info;
    info->is_unbiased = strcmp(info->period_type.unit, "bytes") == 0;
    return SONDE_OK;
}

static sonde_err read_raw(struct sonde_slice raw, size_t limit_bytes,
                          struct sonde_profile **profile, struct sonde_diag *diag) {
    const uint8_t *start = (const uint8_t *)raw.data;
    struct pprof_reader reader = {.whole = {start, start + raw.len, start}, .diag = diag};
    pprof_ids_init(&reader.mappings);
    pprof_ids_init(&reader.functions);
    pprof_ids_init(&reader.locations);
    sonde_err err = read_profile(&reader, limit_bytes);
    free(reader.strings);
    free(reader.string_ids);
    free(reader.lines);
    pprof_ids_finish(&reader.mappings);
    pprof_ids_finish(&reader.functions);
    pprof_ids_finish(&reader.locations);
    if (err)
        sonde_profile_destroy(reader.profile);
    else
        *profile = reader.profile;
    return err;
}

sonde_err sonde_pprof_read(struct sonde_slice bytes, size_t limit_bytes,
                           struct sonde_profile **profile, struct sonde_diag *diag) {
    struct sonde_buf raw = {0};
    sonde_err err = SONDE_OK;
    *profile = NULL;
    if (bytes.len == 0)
        return sonde_fail(diag, SONDE_CORRUPT, "not a profile: empty");
    if (sonde_gzip_is(bytes)) {
        err = sonde_gzip_read(bytes, limit_bytes, &raw, diag);
        bytes = sonde_buf_slice(&raw);
    }
    if (!err && bytes.len > limit_bytes)
        err =
            sonde_fail(diag, SONDE_TOO_LARGE, "the profile is larger than %zu bytes", limit_bytes);
    if (!err)
        err = read_raw(bytes, limit_bytes, profile, diag);
    sonde_buf_finish(&raw);
    return err;
}
