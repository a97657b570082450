/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing profile.proto. Each message is built in one scratch of known largest size and then
 * appended with its length, so the memory beside the output is one message. sample_type goes first:
 * the first byte of a raw profile is then 0x0a, by which tools know one. */
#include "api/profile/gzip.h"
#include "api/profile/internal.h"
#include "api/profile/pprof.h"
#include "api/profile/wire.h"

#include <stdlib.h>
#include <string.h>

/* Field numbers of profile.proto's Profile. */
enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE,
    PROFILE_MAPPING,
    PROFILE_LOCATION,
    PROFILE_FUNCTION,
    PROFILE_STRING,
    PROFILE_TIME = 9,
    PROFILE_DURATION,
    PROFILE_PERIOD_TYPE,
    PROFILE_PERIOD,
    PROFILE_COMMENT,
    PROFILE_DEFAULT_TYPE,
};

#define FIELD_SIZE (WIRE_MAX_VARINT + 2)
#define MAX_FIELDS 12

struct writer {
    const struct sonde_profile *profile;
    struct sonde_buf *out;
    uint8_t *scratch;
    size_t scratch_size;
};

static bool reserve(struct writer *writer, size_t size) {
    if (size <= writer->scratch_size)
        return true;
    uint8_t *scratch = realloc(writer->scratch, size * 2);
    if (!scratch) {
        writer->out->failed = true;
        return false;
    }
    writer->scratch = scratch;
    writer->scratch_size = size * 2;
    return true;
}

static void put_bytes(struct sonde_buf *out, uint32_t field, const void *data, size_t len) {
    uint8_t head[2 * WIRE_MAX_VARINT];
    uint8_t *at = wire_put_varint(head, field << 3 | WIRE_BYTES);
    at = wire_put_varint(at, len);
    sonde_buf_append(out, head, (size_t)(at - head));
    sonde_buf_append(out, data, len);
}

static void put_message(struct writer *writer, uint32_t field, const uint8_t *end) {
    put_bytes(writer->out, field, writer->scratch, (size_t)(end - writer->scratch));
}

static void put_number(struct writer *writer, uint32_t field, uint64_t value) {
    uint8_t *end = wire_put_field(writer->scratch, field, value);
    sonde_buf_append(writer->out, writer->scratch, (size_t)(end - writer->scratch));
}

static void put_type(struct writer *writer, uint32_t field, struct profile_type type) {
    uint8_t *at = wire_put_field(writer->scratch, 1, type.type);
    put_message(writer, field, wire_put_field(at, 2, type.unit));
}

static uint8_t *put_label(uint8_t *at, const struct sonde_label *label) {
    uint8_t body[4 * FIELD_SIZE];
    uint8_t *end = wire_put_field(body, 1, label->key);
    end = wire_put_field(end, 2, label->str);
    if (!label->str) {
        end = wire_put_field(end, 3, (uint64_t)label->num);
        end = wire_put_field(end, 4, label->num_unit);
    }
    size_t len = (size_t)(end - body);
    at = wire_put_varint(at, 3 << 3 | WIRE_BYTES);
    at = wire_put_varint(at, len);
    memcpy(at, body, len);
    return at + len;
}

/* The hot loop: nine tenths of a profile's bytes are samples. */
static void put_sample(struct writer *writer, const struct sonde_sample *sample, size_t types) {
    size_t ids_len = 0, values_len = 0;
    for (uint32_t i = 0; i < sample->location_count; i++)
        ids_len += wire_varint_size(sample->locations[i]);
    for (size_t i = 0; i < types; i++)
        values_len += wire_varint_size((uint64_t)sample->values[i]);
    if (!reserve(writer, ids_len + values_len + (4 + 5 * sample->label_count) * FIELD_SIZE))
        return;
    uint8_t *at = writer->scratch;
    if (sample->location_count) {
        at = wire_put_varint(wire_put_varint(at, 1 << 3 | WIRE_BYTES), ids_len);
        for (uint32_t i = 0; i < sample->location_count; i++)
            at = wire_put_varint(at, sample->locations[i]);
    }
    at = wire_put_varint(wire_put_varint(at, 2 << 3 | WIRE_BYTES), values_len);
    for (size_t i = 0; i < types; i++)
        at = wire_put_varint(at, (uint64_t)sample->values[i]);
    for (uint32_t i = 0; i < sample->label_count; i++)
        at = put_label(at, &sample->labels[i]);
    put_message(writer, PROFILE_SAMPLE, at);
}

/* What the locations of each mapping show: a flag holds when every one of them bears it out. */
struct shown {
    bool any, unnamed, no_file, no_line, inlines;
};

static void look(struct shown *shown, const struct sonde_profile *profile,
                 const struct sonde_location *location) {
    shown->any = true;
    shown->unnamed |= location->line_count == 0;
    shown->inlines |= location->line_count > 1;
    for (uint32_t i = 0; i < location->line_count; i++) {
        const struct sonde_line *line = &location->lines[i];
        shown->no_line |= line->line == 0;
        shown->no_file |= sonde_profile_function(profile, line->function)->filename == 0;
    }
}

/* The flags tell viewers what they need not look up again. What the builder said holds; what it did
 * not say is concluded from the locations, since names often come long after the mapping. */
static void put_mapping(struct writer *writer, uint32_t id, const struct shown *shown) {
    const struct sonde_mapping *mapping = sonde_profile_mapping(writer->profile, id);
    bool named = shown->any && !shown->unnamed;
    uint8_t *at = wire_put_field(writer->scratch, 1, id);
    at = wire_put_field(at, 2, mapping->start);
    at = wire_put_field(at, 3, mapping->limit);
    at = wire_put_field(at, 4, mapping->offset);
    at = wire_put_field(at, 5, mapping->filename);
    at = wire_put_field(at, 6, mapping->build_id);
    at = wire_put_field(at, 7, mapping->has_functions || named);
    at = wire_put_field(at, 8, mapping->has_filenames || (named && !shown->no_file));
    at = wire_put_field(at, 9, mapping->has_line_numbers || (named && !shown->no_line));
    at = wire_put_field(at, 10, mapping->has_inline_frames || shown->inlines);
    put_message(writer, PROFILE_MAPPING, at);
}

static void put_mappings(struct writer *writer) {
    const struct sonde_profile *profile = writer->profile;
    size_t count = sonde_profile_mapping_count(profile);
    struct shown *shown = calloc(count + 1, sizeof *shown);
    if (!shown) {
        writer->out->failed = true;
        return;
    }
    for (uint32_t id = 1; id <= sonde_profile_location_count(profile); id++) {
        const struct sonde_location *location = sonde_profile_location(profile, id);
        look(&shown[location->mapping], profile, location);
    }
    for (uint32_t id = 1; id <= count; id++)
        put_mapping(writer, id, &shown[id]);
    free(shown);
}

static void put_location(struct writer *writer, uint32_t id) {
    const struct sonde_location *location = sonde_profile_location(writer->profile, id);
    if (!reserve(writer, (4 + 3 * (size_t)location->line_count) * FIELD_SIZE))
        return;
    uint8_t *at = wire_put_field(writer->scratch, 1, id);
    at = wire_put_field(at, 2, location->mapping);
    at = wire_put_field(at, 3, location->address);
    for (uint32_t i = 0; i < location->line_count; i++) {
        uint8_t body[2 * FIELD_SIZE];
        uint8_t *end = wire_put_field(body, 1, location->lines[i].function);
        end = wire_put_field(end, 2, (uint64_t)location->lines[i].line);
        *at++ = 4 << 3 | WIRE_BYTES;
        at = wire_put_varint(at, (uint64_t)(end - body));
        memcpy(at, body, (size_t)(end - body));
        at += end - body;
    }
    put_message(writer, PROFILE_LOCATION, wire_put_field(at, 5, location->is_folded));
}

static void put_function(struct writer *writer, uint32_t id) {
    const struct sonde_function *function = sonde_profile_function(writer->profile, id);
    uint8_t *at = wire_put_field(writer->scratch, 1, id);
    at = wire_put_field(at, 2, function->name);
    at = wire_put_field(at, 3, function->system_name);
    at = wire_put_field(at, 4, function->filename);
    put_message(writer, PROFILE_FUNCTION, wire_put_field(at, 5, (uint64_t)function->start_line));
}

static void put_tables(struct writer *writer) {
    const struct sonde_profile *profile = writer->profile;
    for (size_t i = 0; i < sonde_profile_sample_count(profile); i++) {
        struct sonde_sample sample = sonde_profile_sample(profile, i);
        put_sample(writer, &sample, sonde_profile_type_count(profile));
    }
    put_mappings(writer);
    for (uint32_t id = 1; id <= sonde_profile_location_count(profile); id++)
        put_location(writer, id);
    for (uint32_t id = 1; id <= sonde_profile_function_count(profile); id++)
        put_function(writer, id);
    for (uint32_t id = 0; id < sonde_profile_string_count(profile); id++) {
        const char *text = sonde_profile_text(profile, id);
        put_bytes(writer->out, PROFILE_STRING, text, strlen(text));
    }
}

static void put_facts(struct writer *writer) {
    const struct sonde_profile *profile = writer->profile;
    const struct sonde_profile_info *info = sonde_profile_info(profile);
    put_number(writer, PROFILE_TIME, (uint64_t)info->time_unix_ns);
    put_number(writer, PROFILE_DURATION, (uint64_t)info->duration_ns);
    if (profile->period_type.type)
        put_type(writer, PROFILE_PERIOD_TYPE, profile->period_type);
    put_number(writer, PROFILE_PERIOD, (uint64_t)info->period);
    for (uint32_t i = 0; i < profile->comments.count; i++) {
        const uint32_t *id = profile_table_item(&profile->comments, i);
        uint8_t *at = wire_put_varint(writer->scratch, PROFILE_COMMENT << 3 | WIRE_VARINT);
        at = wire_put_varint(at, *id); /* an empty comment is one, too */
        sonde_buf_append(writer->out, writer->scratch, (size_t)(at - writer->scratch));
    }
    put_number(writer, PROFILE_DEFAULT_TYPE, profile->types[info->default_type].type);
}

static void put_profile(struct writer *writer) {
    if (!reserve(writer, MAX_FIELDS * FIELD_SIZE))
        return;
    for (size_t i = 0; i < writer->profile->type_count; i++)
        put_type(writer, PROFILE_SAMPLE_TYPE, writer->profile->types[i]);
    put_tables(writer);
    put_facts(writer);
}

static sonde_err write_raw(const struct sonde_profile *profile, struct sonde_buf *out) {
    struct writer writer = {.profile = profile, .out = out};
    put_profile(&writer);
    free(writer.scratch);
    if (out->failed)
        return out->limit ? SONDE_TOO_LARGE : SONDE_OUT_OF_MEMORY;
    return SONDE_OK;
}

sonde_err sonde_pprof_write(const struct sonde_profile *profile, int gzip_level,
                            struct sonde_buf *out, struct sonde_diag *diag) {
    sonde_err err;
    if (gzip_level < 0 || gzip_level > 9)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "gzip level %d is not from 0 to 9",
                          gzip_level);
    if (gzip_level == 0) {
        err = write_raw(profile, out);
    } else {
        struct sonde_buf raw = {0};
        err = write_raw(profile, &raw);
        if (!err)
            err = gzip_pack(sonde_buf_slice(&raw), gzip_level, out);
        sonde_buf_finish(&raw);
    }
    if (err)
        return sonde_fail(diag, err, "the profile could not be written: %s",
                          sonde_diag_text(NULL, err));
    return SONDE_OK;
}
