/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes profile.proto. Messages are collected in one piece of memory, which is passed to the
 * output or the gzip writer when it is full. sample_type comes first, so that the file begins with
 * 0x0a, by which tools recognise it. */
#include "api/gzip.h"
#include "api/profile/pprof/pprof.h"
#include "api/profile/pprof/wire.h"
#include "api/profile/profile_tables.h"

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

#define PIECE      ((size_t)32 << 10) /* fits in the L1 cache */
#define FIELD_SIZE (WIRE_MAX_VARINT + 2)
#define MAX_FIELDS 12
#define LABEL_SIZE (5 * FIELD_SIZE)
#define ID_SIZE    5

struct writer {
    const struct sonde_profile *profile;
    struct sonde_buf *out;
    struct sonde_gzip_writer *gzip; /* NULL: out gets uncompressed bytes */
    uint8_t *piece;
    size_t used, size;
    uint8_t *scratch; /* for one small message */
    size_t scratch_size;
};

/* ---- Pieces ---- */

static void flush_piece(struct writer *writer) {
    struct sonde_slice bytes = {(const char *)writer->piece, writer->used};
    if (writer->gzip)
        sonde_gzip_writer_add(writer->gzip, bytes);
    else
        sonde_buf_append(writer->out, bytes.data, bytes.len);
    writer->used = 0;
}

static bool grow(struct writer *writer, uint8_t **memory, size_t *size, size_t wanted) {
    if (wanted <= *size)
        return true;
    free(*memory);
    *memory = malloc(wanted);
    *size = *memory ? wanted : 0;
    writer->out->failed |= !*memory;
    return *memory != NULL;
}

/* Returns memory for at most `size` bytes, or NULL when out of memory. The caller then passes the
 * end of what it wrote to end_at. */
static uint8_t *begin(struct writer *writer, size_t size) {
    if (writer->used + size <= writer->size)
        return writer->piece + writer->used;
    flush_piece(writer);
    return grow(writer, &writer->piece, &writer->size, size < PIECE ? PIECE : size) ? writer->piece
                                                                                    : NULL;
}

static void end_at(struct writer *writer, const uint8_t *at) {
    writer->used = (size_t)(at - writer->piece);
}

static bool reserve(struct writer *writer, size_t size) {
    return grow(writer, &writer->scratch, &writer->scratch_size, size);
}

static void put_bytes(struct writer *writer, uint32_t field, const void *data, size_t len) {
    uint8_t *at = begin(writer, len + FIELD_SIZE);
    if (!at)
        return;
    at = wire_put_varint(at, field << 3 | WIRE_BYTES);
    at = wire_put_varint(at, len);
    if (len)
        memcpy(at, data, len);
    end_at(writer, at + len);
}

static void put_message(struct writer *writer, uint32_t field, const uint8_t *end) {
    put_bytes(writer, field, writer->scratch, (size_t)(end - writer->scratch));
}

static void put_number(struct writer *writer, uint32_t field, uint64_t value) {
    uint8_t *at = begin(writer, FIELD_SIZE);
    if (at)
        end_at(writer, wire_put_field(at, field, value));
}

static void put_type(struct writer *writer, uint32_t field, struct profile_type type) {
    uint8_t *at = wire_put_field(writer->scratch, 1, type.type);
    put_message(writer, field, wire_put_field(at, 2, type.unit));
}

/* ---- Samples: 90 % of the output ---- */

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

/* Writes the ids as one byte each, four per step; false if one needs more. The speed matters,
 * because most of the output is ids. */
static bool put_short_ids(uint8_t *at, const uint32_t *ids, uint32_t count) {
    uint32_t all = 0, i = 0;
    for (; i + 4 <= count; i += 4) {
        uint32_t a = ids[i], b = ids[i + 1], c = ids[i + 2], d = ids[i + 3];
        uint32_t four = a | b << 8 | c << 16 | d << 24;
        all |= a | b | c | d;
        memcpy(at + i, &four, sizeof four);
    }
    for (; i < count; i++) {
        all |= ids[i];
        at[i] = (uint8_t)ids[i];
    }
    return all < 0x80;
}

static uint8_t *put_ids(uint8_t *at, const uint32_t *ids, uint32_t count) {
    if (put_short_ids(at, ids, count))
        return at + count;
    for (const uint32_t *end = ids + count; ids < end; ids++)
        at = wire_put_id(at, *ids);
    return at;
}

/* Writes the head of a packed field of `len` bytes. */
static uint8_t *put_head(uint8_t *at, uint32_t field, size_t len) {
    return wire_put_varint(wire_put_varint(at, field << 3 | WIRE_BYTES), len);
}

static size_t packed_size(size_t len) {
    return 1 + wire_varint_size(len) + len;
}

static void put_sample(struct writer *writer, const struct sonde_sample *sample, size_t types) {
    uint8_t labels[SONDE_PROFILE_MAX_LABELS * LABEL_SIZE], *labels_end = labels;
    uint8_t ids[SONDE_PROFILE_MAX_DEPTH * ID_SIZE + 1];
    size_t ids_len = (size_t)(put_ids(ids, sample->locations, sample->location_count) - ids);
    size_t values_len = 0;
    for (size_t i = 0; i < types; i++)
        values_len += wire_varint_size((uint64_t)sample->values[i]);
    for (uint32_t i = 0; i < sample->label_count; i++)
        labels_end = put_label(labels_end, &sample->labels[i]);
    size_t labels_len = (size_t)(labels_end - labels);
    size_t len = (ids_len ? packed_size(ids_len) : 0) + packed_size(values_len) + labels_len;
    uint8_t *at = begin(writer, len + FIELD_SIZE);
    if (!at)
        return;
    at = put_head(at, PROFILE_SAMPLE, len);
    if (ids_len) {
        at = put_head(at, 1, ids_len);
        memcpy(at, ids, ids_len);
        at += ids_len;
    }
    at = put_head(at, 2, values_len);
    for (size_t i = 0; i < types; i++)
        at = wire_put_varint(at, (uint64_t)sample->values[i]);
    if (labels_len)
        memcpy(at, labels, labels_len);
    end_at(writer, at + labels_len);
}

/* ---- Tables ---- */

/* What is known about the locations of a mapping. */
struct coverage {
    bool any, unnamed, no_file, no_line, inlines;
};

static void add_coverage(struct coverage *coverage, const struct sonde_profile *profile,
                         const struct sonde_location *location) {
    coverage->any = true;
    coverage->unnamed |= location->line_count == 0;
    coverage->inlines |= location->line_count > 1;
    for (uint32_t i = 0; i < location->line_count; i++) {
        const struct sonde_line *line = &location->lines[i];
        coverage->no_line |= line->line == 0;
        coverage->no_file |= sonde_profile_function(profile, line->function)->filename == 0;
    }
}

/* The flags tell viewers what they need not symbolize. A flag is set if the mapping has it or if
 * all of its locations have the information, because names are often found after the mapping is
 * added. */
static void put_mapping(struct writer *writer, uint32_t id, const struct coverage *coverage) {
    const struct sonde_mapping *mapping = sonde_profile_mapping(writer->profile, id);
    bool named = coverage->any && !coverage->unnamed;
    uint8_t *at = wire_put_field(writer->scratch, 1, id);
    at = wire_put_field(at, 2, mapping->start);
    at = wire_put_field(at, 3, mapping->limit);
    at = wire_put_field(at, 4, mapping->offset);
    at = wire_put_field(at, 5, mapping->filename);
    at = wire_put_field(at, 6, mapping->build_id);
    at = wire_put_field(at, 7, mapping->has_functions || named);
    at = wire_put_field(at, 8, mapping->has_filenames || (named && !coverage->no_file));
    at = wire_put_field(at, 9, mapping->has_line_numbers || (named && !coverage->no_line));
    at = wire_put_field(at, 10, mapping->has_inline_frames || coverage->inlines);
    put_message(writer, PROFILE_MAPPING, at);
}

static void put_mappings(struct writer *writer) {
    const struct sonde_profile *profile = writer->profile;
    size_t count = sonde_profile_mapping_count(profile);
    struct coverage *coverage = calloc(count + 1, sizeof *coverage);
    if (!coverage) {
        writer->out->failed = true;
        return;
    }
    for (uint32_t id = 1; id <= sonde_profile_location_count(profile); id++) {
        const struct sonde_location *location = sonde_profile_location(profile, id);
        add_coverage(&coverage[location->mapping], profile, location);
    }
    for (uint32_t id = 1; id <= count; id++)
        put_mapping(writer, id, &coverage[id]);
    free(coverage);
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
        put_bytes(writer, PROFILE_STRING, text, strlen(text));
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
        uint8_t *at = begin(writer, FIELD_SIZE);
        if (!at)
            return;
        at = wire_put_varint(at, PROFILE_COMMENT << 3 | WIRE_VARINT);
        end_at(writer, wire_put_varint(at, *id)); /* even if it is empty */
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

static sonde_err write_all(struct writer *writer) {
    put_profile(writer);
    flush_piece(writer);
    free(writer->piece);
    free(writer->scratch);
    if (writer->out->failed)
        return writer->out->limit ? SONDE_TOO_LARGE : SONDE_OUT_OF_MEMORY;
    return writer->gzip ? sonde_gzip_writer_end(writer->gzip) : SONDE_OK;
}

sonde_err sonde_pprof_write(const struct sonde_profile *profile, int gzip_level,
                            struct sonde_buf *out, struct sonde_diag *diag) {
    if (gzip_level < 0 || gzip_level > 9)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "gzip level %d is not between 0 and 9",
                          gzip_level);
    struct writer writer = {.profile = profile, .out = out};
    if (gzip_level > 0)
        writer.gzip = sonde_gzip_writer_create(gzip_level, out);
    sonde_err err = gzip_level > 0 && !writer.gzip ? SONDE_OUT_OF_MEMORY : write_all(&writer);
    sonde_gzip_writer_destroy(writer.gzip);
    if (err)
        return sonde_fail(diag, err, "cannot write the profile: %s", sonde_diag_text(NULL, err));
    return SONDE_OK;
}
