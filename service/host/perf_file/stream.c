/* SPDX-License-Identifier: Apache-2.0
 *
 * perf compresses the records of a recording as one stream of zstd, which it cuts into pieces at
 * any byte. What a piece decompresses to is read like the file itself, piece by piece, so a small
 * piece that becomes a large one takes time but no memory. */
#include "service/host/perf_file/parts.h"

#include <zstd.h>

#define PLAIN_STEP  ((size_t)256 << 10)
#define UPDATE_NAME 2u

static void take_record(struct perf_file *file, const uint8_t *bytes, size_t size, bool is_plain);

/* ---- delivering ---- */

static void note_time(struct perf_file_notes *notes, uint64_t time_ns) {
    if (time_ns == 0)
        return;
    if (notes->first_ns == 0 || time_ns < notes->first_ns)
        notes->first_ns = time_ns;
    if (time_ns > notes->last_ns)
        notes->last_ns = time_ns;
}

static void deliver(void *context, const uint8_t *bytes, size_t size) {
    struct perf_file *file = context;
    struct perf_file_record record;
    bool is_needed;
    if (!perf_record_parse(file, bytes, size, &record, &is_needed)) {
        file->notes.invalid++;
        return;
    }
    if (record.kind == PERF_FILE_SAMPLE)
        note_time(&file->notes, record.time_ns);
    if (is_needed)
        file->on_record(file->context, &record);
}

static void fail(struct perf_file *file, sonde_err err, const char *text) {
    if (!file->err)
        file->err = sonde_fail(file->diag, err, "%s", text);
}

/* A record of the kernel. One without a time happened before the recording. */
static void keep(struct perf_file *file, const uint8_t *bytes, size_t size) {
    struct perf_event_header header;
    memcpy(&header, bytes, sizeof header);
    if (header.type == PERF_RECORD_SAMPLE)
        perf_events_name_rest(&file->events);
    if (header.type == PERF_RECORD_SAMPLE && !perf_events_of_sample(&file->events, bytes, size)) {
        file->notes.unknown++;
        return;
    }
    if (file->events.is_full)
        fail(file, SONDE_TOO_LARGE, "it has more than 31 events; record fewer at a time");
    uint64_t time_ns = perf_events_time(&file->events, bytes, size);
    file->notes.late += time_ns && time_ns < file->order.delivered_ns;
    if (time_ns == UINT64_MAX)
        time_ns = 0;
    if (!perf_order_add(&file->order, time_ns, bytes, size))
        fail(file, SONDE_OUT_OF_MEMORY, "out of memory");
    perf_order_relieve(&file->order, deliver, file);
}

/* ---- records of perf itself ---- */

static void add_event(struct perf_file *file, struct perf_cursor record) {
    uint32_t attr_bytes = 0;
    if (record.left >= 8)
        memcpy(&attr_bytes, record.at + 4, sizeof attr_bytes); /* perf_event_attr.size */
    const uint8_t *attr = perf_take(&record, attr_bytes);
    struct sonde_slice ids = {(const char *)record.at, record.left};
    sonde_err err = attr
                        ? perf_events_add(&file->events,
                                          (struct sonde_slice){(const char *)attr, attr_bytes}, ids)
                        : SONDE_CORRUPT;
    if (err)
        fail(file, err, "its list of events cannot be read");
}

static void rename_event(struct perf_file *file, struct perf_cursor record) {
    uint64_t kind = perf_take_u64(&record), id = perf_take_u64(&record);
    const char *name = perf_take_text(&record);
    const struct perf_entry *entry = perf_events_find(&file->events, id);
    if (name && entry && kind == UPDATE_NAME)
        perf_events_rename(&file->events, (uint32_t)(entry - file->events.entries), name,
                           strlen(name));
}

static void add_feature(struct perf_file *file, struct perf_cursor record) {
    uint64_t feature = perf_take_u64(&record);
    struct sonde_slice bytes = {(const char *)record.at, record.left};
    sonde_err err = record.is_short ? SONDE_OK
                                    : perf_features_read(&file->features, &file->events, feature,
                                                         bytes, file->diag);
    if (err && !file->err)
        file->err = err;
}

/* Takes the whole records out of what is decompressed, and keeps the beginning of the next one. */
static void take_plain(struct perf_file *file) {
    struct sonde_buf *plain = &file->plain;
    size_t at = 0;
    struct perf_event_header header;
    while (!file->err && plain->len - at >= sizeof header) {
        memcpy(&header, plain->data + at, sizeof header);
        if (header.size < sizeof header) {
            file->notes.is_broken = true;
            break;
        }
        if (header.size > plain->len - at)
            break;
        take_record(file, (const uint8_t *)plain->data + at, header.size, true);
        at += header.size;
    }
    memmove(plain->data, plain->data + at, plain->len - at);
    plain->len -= at;
}

static void decompress(struct perf_file *file, const uint8_t *bytes, size_t size) {
    ZSTD_inBuffer in = {bytes, size, 0};
    if (!file->zstd && !(file->zstd = ZSTD_createDCtx()))
        fail(file, SONDE_OUT_OF_MEMORY, "out of memory");
    bool is_full = true; /* the decoder may have more for us than the room it had */
    while (!file->err && !file->notes.is_broken && (in.pos < in.size || is_full)) {
        char *to = sonde_buf_extend(&file->plain, PLAIN_STEP);
        if (!to) {
            fail(file, SONDE_OUT_OF_MEMORY, "out of memory");
            return;
        }
        ZSTD_outBuffer out = {to, PLAIN_STEP, 0};
        size_t state = ZSTD_decompressStream(file->zstd, &out, &in);
        file->plain.len -= PLAIN_STEP - out.pos;
        file->plain_bytes += out.pos;
        is_full = out.pos == out.size;
        if (ZSTD_isError(state) || file->plain_bytes > file->plain_limit)
            file->notes.is_broken = true;
        else
            take_plain(file);
    }
}

static void take_compressed(struct perf_file *file, uint32_t type, struct perf_cursor record) {
    uint64_t size = type == PERF_COMPRESSED2 ? perf_take_u64(&record) : record.left;
    const uint8_t *bytes = perf_take(&record, size);
    if (bytes)
        decompress(file, bytes, (size_t)size);
    else
        file->notes.is_broken = true;
}

/* is_plain: it was compressed, and so may not contain compressed ones. */
static void take_record(struct perf_file *file, const uint8_t *bytes, size_t size, bool is_plain) {
    struct perf_event_header header;
    memcpy(&header, bytes, sizeof header);
    struct perf_cursor record = {bytes + sizeof header, size - sizeof header, false};
    if (header.type < PERF_HEADER_ATTR)
        keep(file, bytes, size);
    else if (header.type == PERF_FINISHED_ROUND)
        perf_order_round(&file->order, deliver, file);
    else if (header.type == PERF_HEADER_BUILD_ID)
        (void)perf_features_add_build_id(&file->features, bytes, size);
    else if (header.type == PERF_HEADER_ATTR && file->is_pipe)
        add_event(file, record);
    else if (header.type == PERF_EVENT_UPDATE)
        rename_event(file, record);
    else if (header.type == PERF_HEADER_FEATURE)
        add_feature(file, record);
    else if ((header.type == PERF_COMPRESSED || header.type == PERF_COMPRESSED2) && !is_plain)
        take_compressed(file, header.type, record);
}

/* ---- the file ---- */

/* Bytes behind a record that are not part of its size. */
static uint64_t bytes_behind(const uint8_t *record, size_t size) {
    struct perf_event_header header;
    uint64_t aux = 0;
    uint32_t tracing = 0;
    memcpy(&header, record, sizeof header);
    if (header.type == PERF_AUXTRACE && size >= sizeof header + sizeof aux)
        memcpy(&aux, record + sizeof header, sizeof aux);
    if (header.type == PERF_HEADER_TRACING_DATA && size >= sizeof header + sizeof tracing)
        memcpy(&tracing, record + sizeof header, sizeof tracing);
    return aux + ((uint64_t)tracing + 7) / 8 * 8;
}

/* False at the end, or where the file is broken. */
static bool take_next(struct perf_file *file) {
    struct perf_event_header header;
    const uint8_t *bytes = perf_bytes_peek(&file->bytes, sizeof header);
    if (!bytes) {
        file->notes.is_truncated |= !perf_bytes_at_end(&file->bytes);
        return false;
    }
    memcpy(&header, bytes, sizeof header);
    if (header.size < sizeof header) {
        file->notes.is_broken = true;
        return false;
    }
    bytes = perf_bytes_peek(&file->bytes, header.size);
    if (bytes)
        take_record(file, bytes, header.size, false);
    uint64_t behind = bytes ? bytes_behind(bytes, header.size) : 0;
    if (!bytes || !perf_bytes_skip(&file->bytes, header.size) ||
        !perf_bytes_skip(&file->bytes, behind)) {
        file->notes.is_truncated = true;
        return false;
    }
    return !file->err && !file->notes.is_broken;
}

sonde_err perf_file_read(struct perf_file *file, perf_file_on_record *on_record, void *context,
                         struct sonde_diag *diag) {
    file->on_record = on_record;
    file->context = context;
    file->diag = diag;
    while (take_next(file))
        ;
    file->notes.is_truncated |= file->plain.len > 0;
    if (!file->err && file->events.entry_count == 0)
        fail(file, SONDE_CORRUPT, "it has no events");
    if (!file->err)
        perf_order_flush(&file->order, deliver, file);
    return file->err;
}

uint32_t perf_file_event_count(const struct perf_file *file) {
    return file->events.count;
}

const struct perf_file_event *perf_file_event(const struct perf_file *file, uint32_t index) {
    return index < file->events.count ? &file->events.items[index] : NULL;
}

const struct perf_file_notes *perf_file_notes(const struct perf_file *file) {
    return &file->notes;
}
