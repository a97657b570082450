/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the samples of a profile.proto file. A sample that exceeds a limit is shortened, because
 * the rest of the file is worth showing: a deep stack keeps both ends, and labels keep the first
 * ones. gateway/ui/pprof.js has the same limits and the same rule. */
#include "api/profile/pprof/pprof_reader.h"

#include <stdio.h>
#include <string.h>

#define HALF      (SONDE_PROFILE_MAX_DEPTH / 2)
#define TRUNCATED "[truncated]"

struct raw_sample {
    uint32_t locations[SONDE_PROFILE_MAX_DEPTH]; /* see push_location */
    int64_t values[SONDE_PROFILE_MAX_TYPES];
    struct sonde_label labels[SONDE_PROFILE_MAX_LABELS];
    size_t location_count, value_count, label_count; /* in the file */
    const uint8_t *at;
};

/* Calls on_number for each value of a repeated number, packed or not. */
static sonde_err
each_number(struct pprof_reader *reader, const struct wire_field *field, struct raw_sample *raw,
            sonde_err (*on_number)(struct pprof_reader *, struct raw_sample *, uint64_t)) {
    struct wire_reader packed = field->nested;
    uint64_t number;
    sonde_err err = SONDE_OK;
    if (field->type == WIRE_VARINT)
        return on_number(reader, raw, field->value);
    if (field->type != WIRE_BYTES)
        return pprof_reader_corrupt(reader, raw->at, "a sample's numbers have the wrong type");
    while (!err && packed.at != packed.end)
        err = wire_get_varint(&packed, &number)
                  ? on_number(reader, raw, number)
                  : pprof_reader_corrupt(reader, packed.at, "a broken number in a sample");
    return err;
}

static sonde_err read_label(struct pprof_reader *reader, struct wire_reader message,
                            struct sonde_label *label) {
    uint64_t v[5];
    sonde_err err = pprof_reader_varints(reader, message, v, 5);
    if (!err)
        err = pprof_reader_string(reader, v[1], &label->key);
    if (!err)
        err = pprof_reader_string(reader, v[2], &label->str);
    if (!err)
        err = pprof_reader_string(reader, v[4], &label->num_unit);
    label->num = (int64_t)v[3];
    return err;
}

/* Keeps the first half of a stack, and of the rest the last half of the room, in a ring. */
static sonde_err push_location(struct pprof_reader *reader, struct raw_sample *raw, uint64_t from) {
    size_t n = raw->location_count++;
    uint32_t id = pprof_ids_find(&reader->locations, from);
    raw->locations[n < HALF ? n : HALF + n % HALF] = id;
    return id ? SONDE_OK
              : pprof_reader_corrupt(reader, raw->at, "a sample with an unknown location");
}

static sonde_err push_value(struct pprof_reader *reader, struct raw_sample *raw, uint64_t value) {
    if (raw->value_count == reader->type_count)
        return pprof_reader_corrupt(reader, raw->at, "a sample with too many values");
    raw->values[raw->value_count++] = (int64_t)value;
    return SONDE_OK;
}

/* Labels past the limit are checked, counted and dropped. */
static sonde_err push_label(struct pprof_reader *reader, struct raw_sample *raw,
                            struct wire_reader message) {
    struct sonde_label label = {0};
    sonde_err err = read_label(reader, message, &label);
    if (!err && raw->label_count < SONDE_PROFILE_MAX_LABELS)
        raw->labels[raw->label_count] = label;
    raw->label_count++;
    return err;
}

static sonde_err read_sample_field(struct pprof_reader *reader, const struct wire_field *field,
                                   struct raw_sample *raw) {
    if (field->number == 1)
        return each_number(reader, field, raw, push_location);
    if (field->number == 2)
        return each_number(reader, field, raw, push_value);
    if (field->number == 3 && field->type == WIRE_BYTES)
        return push_label(reader, raw, field->nested);
    return SONDE_OK;
}

/* The location that stands for the frames that were dropped from deep stacks. */
static sonde_err add_truncated(struct pprof_reader *reader, uint32_t *id) {
    struct sonde_function function = {0};
    struct sonde_line line = {0};
    const struct sonde_location location = {
        .line_count = 1, .kind = SONDE_FRAME_NOTE, .lines = &line};
    sonde_err err =
        sonde_profile_string(reader->profile, TRUNCATED, strlen(TRUNCATED), &function.name);
    if (!err)
        err = sonde_profile_add_function(reader->profile, &function, &line.function);
    if (!err)
        err = sonde_profile_add_location(reader->profile, &location, id);
    return pprof_reader_fail(reader, err, "a deep stack");
}

/* Puts the ring in order. The note takes the place of its oldest location. */
static sonde_err cut_stack(struct pprof_reader *reader, struct raw_sample *raw) {
    uint32_t ring[HALF];
    memcpy(ring, raw->locations + HALF, sizeof ring);
    for (size_t i = 1; i < HALF; i++)
        raw->locations[HALF + i] = ring[(raw->location_count + i) % HALF];
    raw->location_count = SONDE_PROFILE_MAX_DEPTH;
    reader->cut_stacks++;
    return add_truncated(reader, &raw->locations[HALF]);
}

static sonde_err add_sample(struct pprof_reader *reader, struct raw_sample *raw) {
    sonde_err err = SONDE_OK;
    if (raw->value_count != reader->type_count)
        return pprof_reader_corrupt(reader, raw->at, "a sample with too few values");
    if (raw->location_count > SONDE_PROFILE_MAX_DEPTH)
        err = cut_stack(reader, raw);
    if (raw->label_count > SONDE_PROFILE_MAX_LABELS) {
        raw->label_count = SONDE_PROFILE_MAX_LABELS;
        reader->cut_labels++;
    }
    struct sonde_sample sample = {.locations = raw->locations,
                                  .location_count = (uint32_t)raw->location_count,
                                  .label_count = (uint32_t)raw->label_count,
                                  .values = raw->values,
                                  .labels = raw->labels};
    if (!err)
        err = pprof_reader_fail(reader, sonde_profile_add_sample(reader->profile, &sample),
                                "a sample");
    return err;
}

sonde_err pprof_reader_sample(struct pprof_reader *reader, struct wire_reader message) {
    struct raw_sample raw;
    raw.location_count = raw.value_count = raw.label_count = 0;
    raw.at = message.at;
    struct wire_field field;
    sonde_err err = SONDE_OK;
    while (!err && wire_next(&message, &field))
        err = read_sample_field(reader, &field, &raw);
    if (!err && message.at != message.end)
        err = pprof_reader_corrupt(reader, message.at, "a broken sample");
    return err ? err : add_sample(reader, &raw);
}

static sonde_err note(struct pprof_reader *reader, size_t count, int limit, const char *what) {
    char text[128];
    if (count == 0)
        return SONDE_OK;
    snprintf(text, sizeof text, "%zu samples of the file have more than %d %s", count, limit, what);
    return pprof_reader_fail(reader, sonde_profile_add_comment(reader->profile, text), "a comment");
}

sonde_err pprof_reader_note_cuts(struct pprof_reader *reader) {
    sonde_err err = note(reader, reader->cut_stacks, SONDE_PROFILE_MAX_DEPTH,
                         "locations: the middle is " TRUNCATED);
    return err ? err
               : note(reader, reader->cut_labels, SONDE_PROFILE_MAX_LABELS,
                      "labels: the rest was dropped");
}
