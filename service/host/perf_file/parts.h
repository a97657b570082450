/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this folder share. Thread safety: one thread at a time. */
#ifndef SONDE_SERVICE_HOST_PERF_FILE_PARTS_H
#define SONDE_SERVICE_HOST_PERF_FILE_PARTS_H

#include "api/bytes.h"
#include "api/hash_index.h"
#include "service/host/perf_file/perf_file.h"

#include <linux/perf_event.h>
#include <string.h>

#define PERF_MAX_RECORD  65536u /* a record's size has 16 bits */
#define PERF_MAX_ENTRIES 4096u  /* events as the file has them */
#define PERF_MAX_IDS     (1u << 20)
#define PERF_MAX_SECTION ((size_t)64 << 20)

/* Records that perf itself writes, with types from 64 on. */
enum perf_own_record {
    PERF_HEADER_ATTR = 64,
    PERF_HEADER_TRACING_DATA = 66,
    PERF_HEADER_BUILD_ID = 67,
    PERF_FINISHED_ROUND = 68,
    PERF_AUXTRACE = 71,
    PERF_EVENT_UPDATE = 78,
    PERF_HEADER_FEATURE = 80,
    PERF_COMPRESSED = 81,
    PERF_COMPRESSED2 = 83
};

enum perf_feature {
    PERF_FEATURE_BUILD_ID = 2,
    PERF_FEATURE_OS_RELEASE = 4,
    PERF_FEATURE_ARCH = 6,
    PERF_FEATURE_EVENT_DESC = 12,
    PERF_FEATURES = 256
};

/* ---- bytes.c ---- */

struct perf_bytes {
    int fd;
    uint64_t left; /* bytes that are still to be read from fd; UINT64_MAX = to its end */
    uint8_t *window;
    size_t at, len;
};

SONDE_MUST_USE sonde_err perf_bytes_init(struct perf_bytes *bytes, int fd);
void perf_bytes_finish(struct perf_bytes *bytes);
/* The next len <= PERF_MAX_RECORD bytes, which stay next; NULL if the file ends before. */
const uint8_t *perf_bytes_peek(struct perf_bytes *bytes, size_t len);
/* False if the file ends before. */
bool perf_bytes_skip(struct perf_bytes *bytes, uint64_t len);
/* Whether no byte is left. */
bool perf_bytes_at_end(struct perf_bytes *bytes);

/* ---- A cursor over a record or a section, which never leaves it ---- */

struct perf_cursor {
    const uint8_t *at;
    size_t left;
    bool is_short;
};

static inline const uint8_t *perf_take(struct perf_cursor *cursor, uint64_t bytes) {
    if (cursor->is_short || bytes > cursor->left) {
        cursor->is_short = true;
        return NULL;
    }
    const uint8_t *taken = cursor->at;
    cursor->at += bytes;
    cursor->left -= bytes;
    return taken;
}

static inline uint64_t perf_take_u64(struct perf_cursor *cursor) {
    uint64_t value = 0;
    const uint8_t *from = perf_take(cursor, sizeof value);
    if (from)
        memcpy(&value, from, sizeof value);
    return value;
}

static inline uint32_t perf_take_u32(struct perf_cursor *cursor) {
    uint32_t value = 0;
    const uint8_t *from = perf_take(cursor, sizeof value);
    if (from)
        memcpy(&value, from, sizeof value);
    return value;
}

/* A NUL-terminated text at the end of a record; NULL if it has no end. */
static inline const char *perf_take_text(struct perf_cursor *cursor) {
    const char *text = (const char *)cursor->at;
    if (cursor->is_short || strnlen(text, cursor->left) == cursor->left) {
        cursor->is_short = true;
        return NULL;
    }
    perf_take(cursor, cursor->left);
    return text;
}

/* ---- events.c ---- */

/* An event as the file has it. */
struct perf_entry {
    uint64_t type, config;
    uint64_t sample_type, period, user_registers, read_format, branch_type;
    bool has_ids_on_all;
    uint32_t event; /* index in perf_events.items */
};

struct perf_id {
    uint64_t id;
    uint32_t entry;
};

struct perf_events {
    struct perf_entry *entries;
    uint32_t entry_count, entry_capacity;
    uint32_t named_count; /* of the first entries: they keep their names */
    struct perf_id *ids;
    uint32_t id_count, id_capacity;
    struct hash_index index; /* of ids */
    struct perf_file_event items[PERF_FILE_MAX_EVENTS];
    uint32_t count;
    bool is_full; /* there are more */
};

void perf_events_init(struct perf_events *events);
void perf_events_finish(struct perf_events *events);
/* Adds an event from its perf_event_attr, with its ids. SONDE_CORRUPT, SONDE_TOO_LARGE,
 * SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err perf_events_add(struct perf_events *events, struct sonde_slice attr,
                                         struct sonde_slice ids);
/* Gives an entry its name. */
void perf_events_rename(struct perf_events *events, uint32_t entry, const char *name, size_t len);
/* Gives each entry without a name that of its kind. Call it before the next sample. */
void perf_events_name_rest(struct perf_events *events);
/* The entry with that id; NULL if there is none. */
const struct perf_entry *perf_events_find(const struct perf_events *events, uint64_t id);
/* The entry of a sample; NULL if it is unknown. */
const struct perf_entry *perf_events_of_sample(const struct perf_events *events,
                                               const uint8_t *bytes, size_t size);
/* The time of a record of the kernel; 0 = unknown. */
uint64_t perf_events_time(const struct perf_events *events, const uint8_t *bytes, size_t size);

/* ---- features.c ---- */

struct perf_build_id {
    char *path;
    char text[PERF_FILE_BUILD_ID];
};

struct perf_features {
    struct perf_build_id *build_ids;
    uint32_t build_id_count, build_id_capacity;
    struct hash_index index; /* of paths */
    char os_release[65], arch[65];
};

void perf_features_init(struct perf_features *features);
void perf_features_finish(struct perf_features *features);
/* Reads one feature; those that nobody needs are ignored. SONDE_INVALID_ARGUMENT: of another
 * machine. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err perf_features_read(struct perf_features *features,
                                            struct perf_events *events, uint64_t feature,
                                            struct sonde_slice bytes, struct sonde_diag *diag);
/* Adds the build-id of one record. False: no memory for it. */
bool perf_features_add_build_id(struct perf_features *features, const uint8_t *bytes, size_t size);
/* Writes `len` bytes in hex; text has PERF_FILE_BUILD_ID bytes. */
void perf_build_id_text(const uint8_t *bytes, size_t len, char *text);

/* ---- order.c ---- */

struct perf_waiting {
    uint64_t time_ns, number;
    uint8_t *bytes;
};

struct perf_order {
    struct perf_waiting *items;
    uint32_t count, capacity;
    size_t bytes, limit;
    uint64_t numbers, newest_ns, round_ns, delivered_ns;
};

typedef void perf_deliver(void *context, const uint8_t *bytes, size_t size);
/* Keeps a record. False: out of memory. */
bool perf_order_add(struct perf_order *order, uint64_t time_ns, const uint8_t *bytes, size_t size);
/* A round has ended: no record older than the newest of the round before is to come. */
void perf_order_round(struct perf_order *order, perf_deliver *deliver, void *context);
/* Delivers the older half if more than the limit waits. */
void perf_order_relieve(struct perf_order *order, perf_deliver *deliver, void *context);
void perf_order_flush(struct perf_order *order, perf_deliver *deliver, void *context);
void perf_order_finish(struct perf_order *order);

/* ---- header.c, stream.c, record.c ---- */

struct perf_file {
    int fd;
    bool is_pipe;
    struct perf_bytes bytes;
    uint64_t id_bytes; /* of the events, as the header has them */
    struct perf_events events;
    struct perf_features features;
    struct perf_order order;
    struct perf_file_notes notes;
    struct ZSTD_DCtx_s *zstd;
    struct sonde_buf plain; /* decompressed records */
    uint64_t plain_bytes;   /* in all */
    uint64_t plain_limit;
    perf_file_on_record *on_record;
    void *context;
    struct sonde_diag *diag;
    sonde_err err;
};

/* Parses a record of the kernel. False if it breaks a rule; *is_needed is false for kinds that
 * nobody needs. `bytes` is aligned to 8. */
bool perf_record_parse(const struct perf_file *file, const uint8_t *bytes, size_t size,
                       struct perf_file_record *record, bool *is_needed);

#endif
