/* SPDX-License-Identifier: Apache-2.0 */
#include "api/gzip.h"
#include "api/profile/pprof/wire.h"
#include "api/profile/timeline.h"

#include <stdlib.h>

#define FIELD       1000u
#define VERSION     1u
#define DROPPED     1u  /* flags */
#define ENTRY_BYTES 15u /* at most: three varints of 32 bits */
/* Tag, length, version and flags, and all entries. */
#define MAX_BYTES (32u + SONDE_TIMELINE_MAX * (size_t)ENTRY_BYTES)

/* ---- Writing ---- */

static void put(struct sonde_buf *out, uint64_t value) {
    uint8_t bytes[WIRE_MAX_VARINT];
    sonde_buf_append(out, bytes, (size_t)(wire_put_varint(bytes, value) - bytes));
}

static void put_entries(const struct sonde_timeline *timeline, struct sonde_buf *out) {
    struct sonde_timeline_entry last = {0};
    put(out, VERSION);
    put(out, timeline->is_dropped ? DROPPED : 0);
    for (size_t i = 0; i < timeline->count; i++) {
        const struct sonde_timeline_entry *entry = &timeline->entries[i];
        bool is_same = i > 0 && entry->sample == last.sample;
        put(out, entry->sample - last.sample);
        put(out, is_same ? entry->bin - last.bin : entry->bin);
        put(out, entry->count);
        last = *entry;
    }
}

sonde_err sonde_timeline_write(const struct sonde_timeline *timeline, struct sonde_buf *out) {
    struct sonde_buf head = {0}, body = {0};
    struct sonde_gzip_writer *writer = sonde_gzip_writer_create(1, out);
    put_entries(timeline, &body);
    put(&head, FIELD << 3 | WIRE_BYTES);
    put(&head, body.len);
    sonde_err err = writer && !head.failed && !body.failed ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    if (!err) {
        sonde_gzip_writer_add(writer, sonde_buf_slice(&head));
        sonde_gzip_writer_add(writer, sonde_buf_slice(&body));
        err = sonde_gzip_writer_end(writer);
    }
    sonde_gzip_writer_destroy(writer);
    sonde_buf_finish(&head);
    sonde_buf_finish(&body);
    return err;
}

/* ---- Reading ---- */

static bool get(struct wire_reader *reader, uint32_t *value) {
    uint64_t wide;
    if (!wire_get_varint(reader, &wide) || wide > UINT32_MAX)
        return false;
    *value = (uint32_t)wide;
    return true;
}

static bool get_entry(struct wire_reader *reader, bool is_first,
                      struct sonde_timeline_entry *entry) {
    uint32_t sample_step, bin, count;
    if (!get(reader, &sample_step) || !get(reader, &bin) || !get(reader, &count) || count == 0)
        return false;
    bool is_same = !is_first && sample_step == 0;
    if ((is_same && bin == 0) || __builtin_add_overflow(entry->sample, sample_step, &entry->sample))
        return false;
    entry->count = count;
    entry->bin = is_same ? entry->bin : 0;
    return !__builtin_add_overflow(entry->bin, bin, &entry->bin);
}

static bool get_head(struct wire_reader *reader, struct sonde_timeline *timeline) {
    uint32_t tag, len, version, flags;
    if (!get(reader, &tag) || tag != (FIELD << 3 | WIRE_BYTES) || !get(reader, &len) ||
        len != (size_t)(reader->end - reader->at) || !get(reader, &version) || version != VERSION ||
        !get(reader, &flags))
        return false;
    timeline->is_dropped = flags & DROPPED;
    return true;
}

static sonde_err get_entries(struct wire_reader *reader, struct sonde_timeline *timeline) {
    struct sonde_timeline_entry entry = {0};
    size_t capacity = (size_t)(reader->end - reader->at) / 3; /* an entry has at least 3 bytes */
    if (capacity > SONDE_TIMELINE_MAX)
        capacity = SONDE_TIMELINE_MAX;
    timeline->entries = malloc(capacity * sizeof *timeline->entries + 1);
    if (!timeline->entries)
        return SONDE_OUT_OF_MEMORY;
    while (reader->at < reader->end) {
        if (timeline->count == capacity || !get_entry(reader, timeline->count == 0, &entry))
            return SONDE_CORRUPT;
        timeline->entries[timeline->count++] = entry;
    }
    return SONDE_OK;
}

/* Whether each sample's entries have as many counts as the profile. */
static bool fits(const struct sonde_timeline *timeline, const struct sonde_profile *profile) {
    size_t samples = sonde_profile_sample_count(profile), at = 0;
    if (timeline->is_dropped)
        return timeline->count == 0;
    for (size_t i = 0; i < samples; i++) {
        int64_t sum = 0;
        for (; at < timeline->count && timeline->entries[at].sample == i; at++)
            sum += timeline->entries[at].count;
        if (sum != sonde_profile_sample(profile, i).values[0])
            return false;
    }
    return at == timeline->count;
}

sonde_err sonde_timeline_read(struct sonde_slice file, const struct sonde_profile *profile,
                              struct sonde_timeline **timeline, struct sonde_diag *diag) {
    struct sonde_buf bytes = {0};
    struct sonde_timeline *result = calloc(1, sizeof *result);
    *timeline = NULL;
    sonde_err err = result ? sonde_gzip_read(file, MAX_BYTES, &bytes, NULL) : SONDE_OUT_OF_MEMORY;
    const uint8_t *start = (const uint8_t *)bytes.data;
    struct wire_reader reader = {start, start + bytes.len, start};
    if (!err)
        err = get_head(&reader, result) ? get_entries(&reader, result) : SONDE_CORRUPT;
    if (!err && !fits(result, profile))
        err = SONDE_CORRUPT;
    sonde_buf_finish(&bytes);
    if (!err) {
        *timeline = result;
        return SONDE_OK;
    }
    sonde_timeline_destroy(result);
    return err == SONDE_OUT_OF_MEMORY
               ? err
               : sonde_fail(diag, SONDE_CORRUPT, "the time bins of the capture are damaged");
}
