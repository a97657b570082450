/* SPDX-License-Identifier: Apache-2.0
 *
 * Pyroscope's push: labels and a pprof file. Pyroscope builds a profile type of the label
 * "__name__" and the file's types: process_cpu:cpu:nanoseconds:cpu:nanoseconds. Each set of labels
 * is a series, so the pid and the process's uuid are not among them. Pyroscope also makes a series
 * of each label of samples that is a text, except span_id, which it stores beside the stack. */
#include "api/profile/pprof/pprof.h"
#include "proto/push/v1/push.pb-c.h"
#include "service/export/protocol.h"
#include "service/recording/labels.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define MAX_LABELS 30 /* Pyroscope's default limit of a series */
#define UUID_BYTES 37
#define MAX_ROWS   16000 /* Pyroscope's default limit of samples of a profile */

struct push {
    Push__V1__LabelPair labels[MAX_LABELS], *label_list[MAX_LABELS];
    size_t count;
    struct sonde_arena arena;
};

static void add_label(struct push *push, const char *name, const char *value) {
    if (!*value || push->count == MAX_LABELS)
        return;
    for (size_t i = 0; i < push->count; i++)
        if (strcmp(push->labels[i].name, name) == 0)
            return;
    Push__V1__LabelPair *label = &push->labels[push->count];
    push__v1__label_pair__init(label);
    label->name = (char *)name;
    label->value = (char *)value;
    push->label_list[push->count++] = label;
}

/* Prometheus' names consist of letters, digits and "_"; ours also have . - and / */
static const char *clean_name(struct push *push, const char *name) {
    char *copy = sonde_arena_dup(&push->arena, name, strlen(name));
    for (char *at = copy; at && *at; at++)
        if (!isalnum((unsigned char)*at))
            *at = '_';
    return copy;
}

static int by_name(const void *a, const void *b) {
    const Push__V1__LabelPair *const *left = a, *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

static sonde_err fill_labels(struct push *push, const struct record *record, const char *host) {
    const struct engine_target *target = record->target;
    struct labels *labels = sonde_arena_alloc(&push->arena, sizeof *labels);
    if (!labels)
        return SONDE_OUT_OF_MEMORY;
    labels_of_record(record, &push->arena, labels);
    add_label(push, "__name__", sonde_events[record->event].pyroscope_name);
    add_label(push, "service_name", target->name);
    add_label(push, "host", host);
    for (uint32_t i = 0; i < labels->count; i++) {
        const char *name = clean_name(push, labels->items[i].key);
        if (!name)
            return SONDE_OUT_OF_MEMORY;
        add_label(push, name, labels->items[i].value);
    }
    qsort(push->label_list, push->count, sizeof push->label_list[0], by_name);
    return SONDE_OK;
}

static void make_uuid(char uuid[UUID_BYTES]) {
    uint8_t bytes[16] = {0};
    (void)!getrandom(bytes, sizeof bytes, 0);
    bytes[6] = (bytes[6] & 0x0f) | 0x40; /* version 4 */
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    size_t at = 0;
    for (size_t i = 0; i < sizeof bytes; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            uuid[at++] = '-';
        at += (size_t)sprintf(uuid + at, "%02x", bytes[i]);
    }
}

/* Threads are merged: their names would be series. */
static sonde_err write_file(const struct sonde_profile *profile, struct sonde_buf *file) {
    static const char *const without[] = {"thread", "tid", "pid", "request", "trace_id", NULL};
    struct sonde_profile_part part = sonde_profile_everything(profile);
    struct sonde_profile *merged;
    part.without_labels = without;
    sonde_err err = sonde_profile_copy_part(profile, &part, &merged);
    if (!err)
        err = sonde_pprof_write(merged, 1, file, NULL);
    sonde_profile_destroy(merged);
    return err;
}

static sonde_err encode(const struct record *record, const char *host, struct sonde_buf *out) {
    struct push push = {0};
    struct sonde_buf file = {0};
    char uuid[UUID_BYTES];
    Push__V1__PushRequest request = PUSH__V1__PUSH_REQUEST__INIT;
    Push__V1__RawProfileSeries series = PUSH__V1__RAW_PROFILE_SERIES__INIT, *all = &series;
    Push__V1__RawSample sample = PUSH__V1__RAW_SAMPLE__INIT, *samples = &sample;
    sonde_err err = fill_labels(&push, record, host);
    if (!err)
        err = write_file(record->profile, &file);
    if (!err) {
        make_uuid(uuid);
        sample.id = uuid;
        sample.raw_profile = (ProtobufCBinaryData){file.len, (uint8_t *)file.data};
        series.labels = push.label_list;
        series.n_labels = push.count;
        series.samples = &samples;
        series.n_samples = 1;
        request.series = &all;
        request.n_series = 1;
        char *bytes = sonde_buf_extend(out, protobuf_c_message_get_packed_size(&request.base));
        if (bytes)
            protobuf_c_message_pack(&request.base, (uint8_t *)bytes);
        err = bytes ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    }
    sonde_buf_finish(&file);
    sonde_arena_finish(&push.arena);
    return err;
}

const struct export_protocol pyroscope_protocol = {
    .name = "pyroscope",
    .content_type = "application/proto",
    .max_bytes = PROTOCOL_MAX_BYTES,
    .max_samples = MAX_ROWS,
    .encode = encode,
};
