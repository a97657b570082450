/* SPDX-License-Identifier: Apache-2.0 */
#include "service/host/perf_file/parts.h"

#include "api/base/array.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>

#define BUILD_ID_BYTES   20u
#define BUILD_ID_FIELD   24u        /* in a record: the bytes, their number, and padding */
#define HAS_BUILD_ID_LEN (1u << 15) /* in `misc`: the number is there */

void perf_features_init(struct perf_features *features) {
    *features = (struct perf_features){0};
    hash_index_init(&features->index);
}

void perf_features_finish(struct perf_features *features) {
    for (uint32_t i = 0; i < features->build_id_count; i++)
        free(features->build_ids[i].path);
    free(features->build_ids);
    hash_index_finish(&features->index);
    *features = (struct perf_features){0};
}

/* ---- build-ids ---- */

void perf_build_id_text(const uint8_t *bytes, size_t len, char *text) {
    static const char digits[] = "0123456789abcdef";
    size_t at = 0;
    for (size_t i = 0; i < len && i < BUILD_ID_BYTES; i++) {
        text[at++] = digits[bytes[i] >> 4];
        text[at++] = digits[bytes[i] & 15];
    }
    text[at] = 0;
}

static const struct perf_build_id *find(const struct perf_features *features, const char *path) {
    uint32_t hash = hash_index_data(&features->index, path, strlen(path)), number;
    struct hash_probe probe = hash_probe(hash);
    while ((number = hash_index_next(&features->index, &probe)) != HASH_INDEX_NONE)
        if (strcmp(features->build_ids[number].path, path) == 0)
            return &features->build_ids[number];
    return NULL;
}

static bool add(struct perf_features *features, const char *path, const uint8_t *id, size_t len) {
    if (features->build_id_count >= PERF_FILE_MAX_BUILD_IDS || strlen(path) >= PATH_MAX ||
        find(features, path))
        return true;
    char *copy = strdup(path);
    uint32_t hash = hash_index_data(&features->index, path, strlen(path));
    if (!copy ||
        !array_room(&features->build_ids, &features->build_id_capacity, features->build_id_count,
                    1) ||
        !hash_index_add(&features->index, hash, features->build_id_count)) {
        free(copy);
        return false;
    }
    struct perf_build_id *made = &features->build_ids[features->build_id_count++];
    made->path = copy;
    perf_build_id_text(id, len, made->text);
    return true;
}

bool perf_features_add_build_id(struct perf_features *features, const uint8_t *bytes, size_t size) {
    struct perf_cursor cursor = {bytes, size, false};
    struct perf_event_header header = {0};
    const uint8_t *from = perf_take(&cursor, sizeof header);
    if (from)
        memcpy(&header, from, sizeof header);
    perf_take(&cursor, 4); /* pid of a virtual machine */
    const uint8_t *id = perf_take(&cursor, BUILD_ID_FIELD);
    const char *path = perf_take_text(&cursor);
    if (!id || !path)
        return true;
    size_t len = header.misc & HAS_BUILD_ID_LEN ? id[BUILD_ID_BYTES] : BUILD_ID_BYTES;
    return add(features, path, id, len);
}

const char *perf_file_build_id(const struct perf_file *file, const char *path) {
    const struct perf_build_id *found = find(&file->features, path);
    return found ? found->text : "";
}

const char *perf_file_os_release(const struct perf_file *file) {
    return file->features.os_release;
}

static sonde_err read_build_ids(struct perf_features *features, struct sonde_slice bytes) {
    struct perf_cursor cursor = {(const uint8_t *)bytes.data, bytes.len, false};
    struct perf_event_header header;
    while (cursor.left >= sizeof header) {
        memcpy(&header, cursor.at, sizeof header);
        const uint8_t *record =
            header.size < sizeof header ? NULL : perf_take(&cursor, header.size);
        if (!record)
            return SONDE_OK; /* the rest is unreadable; names are less certain without it */
        if (!perf_features_add_build_id(features, record, header.size))
            return SONDE_OUT_OF_MEMORY;
    }
    return SONDE_OK;
}

/* ---- the others ---- */

/* A length, and so many bytes with a NUL among them. */
static const char *take_string(struct perf_cursor *cursor, size_t *len) {
    uint32_t room = perf_take_u32(cursor);
    const char *text = (const char *)perf_take(cursor, room);
    *len = text ? strnlen(text, room) : 0;
    return text ? text : "";
}

static void read_string(struct sonde_slice bytes, char text[65]) {
    struct perf_cursor cursor = {(const uint8_t *)bytes.data, bytes.len, false};
    size_t len;
    const char *from = take_string(&cursor, &len);
    snprintf(text, 65, "%.*s", (int)(len < 64 ? len : 64), from);
}

static sonde_err check_machine(const struct perf_features *features, struct sonde_diag *diag) {
    struct utsname here;
    if (uname(&here) != 0 || !features->arch[0] || strcmp(here.machine, features->arch) == 0)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                      "it was recorded on another kind of machine (%.64s); read it on one of those",
                      features->arch);
}

/* Names in the order of the entries. In a pipe's file, the entries came before. */
static void read_names(struct perf_events *events, struct sonde_slice bytes) {
    struct perf_cursor cursor = {(const uint8_t *)bytes.data, bytes.len, false};
    uint32_t count = perf_take_u32(&cursor), attr_bytes = perf_take_u32(&cursor);
    for (uint32_t i = 0; i < count && i < PERF_MAX_ENTRIES && !cursor.is_short; i++) {
        perf_take(&cursor, attr_bytes);
        uint32_t ids = perf_take_u32(&cursor);
        size_t len;
        const char *name = take_string(&cursor, &len);
        perf_take(&cursor, (uint64_t)ids * sizeof(uint64_t));
        if (!cursor.is_short)
            perf_events_rename(events, i, name, len);
    }
}

sonde_err perf_features_read(struct perf_features *features, struct perf_events *events,
                             uint64_t feature, struct sonde_slice bytes, struct sonde_diag *diag) {
    switch (feature) {
    case PERF_FEATURE_BUILD_ID:
        return read_build_ids(features, bytes);
    case PERF_FEATURE_OS_RELEASE:
        read_string(bytes, features->os_release);
        return SONDE_OK;
    case PERF_FEATURE_ARCH:
        read_string(bytes, features->arch);
        return check_machine(features, diag);
    case PERF_FEATURE_EVENT_DESC:
        read_names(events, bytes);
        return SONDE_OK;
    default:
        return SONDE_OK;
    }
}
