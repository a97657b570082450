/* SPDX-License-Identifier: Apache-2.0
 *
 * A sample does not say which fields it has: its event does. Where a file has several events, each
 * sample has an id, at a place that is the same for all events:
 *
 *     with PERF_SAMPLE_IDENTIFIER    first in a sample, last in every other record
 *     with PERF_SAMPLE_ID            behind ip, pid and tid, time, address, as far as they exist */
#include "service/host/perf_file/parts.h"

#include "api/base/array.h"

#include <stdio.h>
#include <stdlib.h>

#define TAIL                                                                       \
    (PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID | \
     PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER)

void perf_events_init(struct perf_events *events) {
    *events = (struct perf_events){0};
    hash_index_init(&events->index);
}

void perf_events_finish(struct perf_events *events) {
    free(events->entries);
    free(events->ids);
    hash_index_finish(&events->index);
    *events = (struct perf_events){0};
}

static const char *default_name(uint64_t type, uint64_t config) {
    static const char *const hardware[] = {"cycles",
                                           "instructions",
                                           "cache-references",
                                           "cache-misses",
                                           "branches",
                                           "branch-misses",
                                           "bus-cycles",
                                           "stalled-cycles-frontend",
                                           "stalled-cycles-backend",
                                           "ref-cycles"};
    static const char *const software[] = {
        "cpu-clock",        "task-clock",   "page-faults",  "context-switches",
        "cpu-migrations",   "minor-faults", "major-faults", "alignment-faults",
        "emulation-faults", "dummy",        "bpf-output",   "cgroup-switches"};
    if (type == PERF_TYPE_HARDWARE && config < sizeof hardware / sizeof *hardware)
        return hardware[config];
    if (type == PERF_TYPE_SOFTWARE && config < sizeof software / sizeof *software)
        return software[config];
    return "event";
}

/* Without ":ppp" and the like, which says how exact pcs are, not what is counted. */
static size_t without_precision(const char *name, size_t len) {
    size_t end = len;
    while (end > 0 && (name[end - 1] == 'p' || name[end - 1] == 'P' || name[end - 1] == 'H'))
        end--;
    return end > 1 && end < len && name[end - 1] == ':' ? end - 1 : len;
}

/* The event of that name, which is added if it is new. */
static uint32_t intern(struct perf_events *events, const char *name, size_t len, bool is_time) {
    struct perf_file_event wanted = {.is_time = is_time};
    snprintf(wanted.name, sizeof wanted.name, "%.*s", (int)(len < 63 ? len : 63), name);
    for (uint32_t i = 0; i < events->count; i++)
        if (strcmp(events->items[i].name, wanted.name) == 0)
            return i;
    if (events->count == PERF_FILE_MAX_EVENTS) {
        events->is_full = true;
        return 0;
    }
    events->items[events->count] = wanted;
    return events->count++;
}

static bool counts_time(const struct perf_entry *entry) {
    return entry->type == PERF_TYPE_SOFTWARE &&
           (entry->config == PERF_COUNT_SW_CPU_CLOCK || entry->config == PERF_COUNT_SW_TASK_CLOCK);
}

static bool add_id(struct perf_events *events, uint64_t id, uint32_t entry) {
    if (events->id_count >= PERF_MAX_IDS || perf_events_find(events, id))
        return true;
    if (!array_room(&events->ids, &events->id_capacity, events->id_count, 1) ||
        !hash_index_add(&events->index, hash_index_words(&events->index, id, 0), events->id_count))
        return false;
    events->ids[events->id_count++] = (struct perf_id){id, entry};
    return true;
}

static void read_attr(const struct perf_event_attr *attr, struct perf_entry *entry) {
    *entry = (struct perf_entry){
        .type = attr->type,
        .config = attr->config,
        .sample_type = attr->sample_type,
        .period = attr->sample_period,
        .has_ids_on_all = attr->sample_id_all,
        .user_registers = attr->sample_regs_user,
        .read_format = attr->read_format,
        .branch_type = attr->branch_sample_type,
    };
}

sonde_err perf_events_add(struct perf_events *events, struct sonde_slice attr,
                          struct sonde_slice ids) {
    struct perf_event_attr known = {0};
    if (attr.len < PERF_ATTR_SIZE_VER0)
        return SONDE_CORRUPT;
    if (events->entry_count >= PERF_MAX_ENTRIES)
        return SONDE_TOO_LARGE;
    memcpy(&known, attr.data, attr.len < sizeof known ? attr.len : sizeof known);
    if (!array_room(&events->entries, &events->entry_capacity, events->entry_count, 1))
        return SONDE_OUT_OF_MEMORY;
    uint32_t number = events->entry_count++;
    struct perf_entry *entry = &events->entries[number];
    read_attr(&known, entry);
    entry->event = UINT32_MAX; /* until it has a name */
    struct perf_cursor cursor = {(const uint8_t *)ids.data, ids.len, false};
    while (cursor.left >= sizeof(uint64_t))
        if (!add_id(events, perf_take_u64(&cursor), number))
            return SONDE_OUT_OF_MEMORY;
    return SONDE_OK;
}

void perf_events_rename(struct perf_events *events, uint32_t number, const char *name, size_t len) {
    if (number >= events->entry_count || events->entries[number].event != UINT32_MAX || len == 0)
        return;
    struct perf_entry *entry = &events->entries[number];
    entry->event = intern(events, name, without_precision(name, len), counts_time(entry));
}

const struct perf_entry *perf_events_find(const struct perf_events *events, uint64_t id) {
    struct hash_probe probe = hash_probe(hash_index_words(&events->index, id, 0));
    uint32_t number;
    while ((number = hash_index_next(&events->index, &probe)) != HASH_INDEX_NONE)
        if (events->ids[number].id == id)
            return &events->entries[events->ids[number].entry];
    return NULL;
}

void perf_events_name_rest(struct perf_events *events) {
    for (; events->named_count < events->entry_count; events->named_count++) {
        const struct perf_entry *entry = &events->entries[events->named_count];
        const char *name = default_name(entry->type, entry->config);
        perf_events_rename(events, events->named_count, name, strlen(name));
    }
}

static uint64_t word_at(const uint8_t *bytes, size_t at) {
    uint64_t value;
    memcpy(&value, bytes + at, sizeof value);
    return value;
}

/* Where a field is, if all fields of `before` that exist are in front of it. */
static size_t offset_behind(uint64_t sample_type, uint64_t before) {
    return 8 * (size_t)__builtin_popcountll(sample_type & before);
}

const struct perf_entry *perf_events_of_sample(const struct perf_events *events,
                                               const uint8_t *bytes, size_t size) {
    if (events->entry_count == 0)
        return NULL;
    const struct perf_entry *first = &events->entries[0];
    size_t at = sizeof(struct perf_event_header);
    if (events->entry_count == 1)
        return first;
    if (!(first->sample_type & PERF_SAMPLE_IDENTIFIER))
        at += offset_behind(first->sample_type,
                            PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR);
    if (!(first->sample_type & (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_ID)))
        return first;
    return at + 8 <= size ? perf_events_find(events, word_at(bytes, at)) : NULL;
}

/* Of records that are not samples: time is behind pid and tid in the tail. */
static uint64_t tail_time(const struct perf_entry *entry, const uint8_t *bytes, size_t size) {
    size_t tail = offset_behind(entry->sample_type, TAIL);
    if (!entry->has_ids_on_all || !(entry->sample_type & PERF_SAMPLE_TIME) ||
        size < sizeof(struct perf_event_header) + tail)
        return 0;
    return word_at(bytes, size - tail + offset_behind(entry->sample_type, PERF_SAMPLE_TID));
}

uint64_t perf_events_time(const struct perf_events *events, const uint8_t *bytes, size_t size) {
    struct perf_event_header header;
    memcpy(&header, bytes, sizeof header);
    if (events->entry_count == 0)
        return 0;
    const struct perf_entry *entry = &events->entries[0];
    if (header.type != PERF_RECORD_SAMPLE) {
        if (entry->sample_type & PERF_SAMPLE_IDENTIFIER && size >= 16) {
            const struct perf_entry *own = perf_events_find(events, word_at(bytes, size - 8));
            entry = own ? own : entry;
        }
        return tail_time(entry, bytes, size);
    }
    entry = perf_events_of_sample(events, bytes, size);
    if (!entry || !(entry->sample_type & PERF_SAMPLE_TIME))
        return 0;
    size_t at =
        sizeof header + offset_behind(entry->sample_type,
                                      PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID);
    return at + 8 <= size ? word_at(bytes, at) : 0;
}
