/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/sqlite/format/tally.h"

#include "api/base/array.h"
#include "service/store/sqlite/format/varint.h"

#include <stdlib.h>

#define LAST_TIME    7258118400 /* the year 2200, in seconds */
#define TALLY_FORMAT 1          /* without weights, which are 1 */
#define TALLY_DRAWN  2          /* each entry has its weight */
#define TALLY_CLOCK  3          /* and its CPU clock */
#define MILLI        1000
#define MANY_SPANS   65536 /* sorted and joined when there are so many */
#define NS_PER_S     1000000000

void tally_clear(struct tally *tally) {
    tally->count = tally->span_count = tally->sorted_spans = 0;
    tally->period_ns = 0;
    tally->period_time = 0;
    hash_index_clear(&tally->index);
}

void tally_finish(struct tally *tally) {
    free(tally->entries);
    free(tally->spans);
    hash_index_finish(&tally->index);
    *tally = (struct tally){0};
}

static struct tally_entry *entry_of(struct tally *tally, uint32_t stream, uint32_t labels) {
    if (!tally->entries)
        hash_index_init(&tally->index);
    uint32_t hash = hash_index_words(&tally->index, stream, labels), number;
    struct hash_probe probe = hash_probe(hash);
    while ((number = hash_index_next(&tally->index, &probe)) != HASH_INDEX_NONE)
        if (tally->entries[number].labels == labels && tally->entries[number].stream == stream)
            return &tally->entries[number];
    number = (uint32_t)tally->count;
    if (!array_room(&tally->entries, &tally->capacity, tally->count, 1) ||
        !hash_index_add(&tally->index, hash, number)) {
        tally->failed = true;
        return NULL;
    }
    tally->entries[tally->count++] = (struct tally_entry){
        .stream = stream, .labels = labels, .first_unix_s = INT64_MAX, .last_unix_s = INT64_MIN};
    return &tally->entries[number];
}

static void entry_add(struct tally_entry *entry, const struct tally_entry *from) {
    entry->windows += from->windows;
    entry->samples += from->samples;
    entry->dropped += from->dropped;
    entry->covered_s += from->covered_s;
    entry->sum = chunk_add(entry->sum, from->sum);
    entry->clocked_sum = chunk_add(entry->clocked_sum, from->clocked_sum);
    bool is_first =
        from->cpu_until_ns && (!entry->cpu_until_ns || from->cpu_from_ns < entry->cpu_from_ns);
    entry->cpu_from_ns = is_first ? from->cpu_from_ns : entry->cpu_from_ns;
    if (from->cpu_until_ns > entry->cpu_until_ns)
        entry->cpu_until_ns = from->cpu_until_ns;
    if (from->weight_milli > entry->weight_milli)
        entry->weight_milli = from->weight_milli;
    if (from->first_unix_s < entry->first_unix_s)
        entry->first_unix_s = from->first_unix_s;
    if (from->last_unix_s > entry->last_unix_s)
        entry->last_unix_s = from->last_unix_s;
}

static int compare_spans(const void *left, const void *right) {
    const struct tally_span *a = left, *b = right;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

void tally_join_spans(struct tally *tally) {
    struct tally_span *spans = tally->spans;
    if (tally->span_count < 2)
        return;
    qsort(spans, tally->span_count, sizeof *spans, compare_spans);
    size_t last = 0;
    for (size_t i = 1; i < tally->span_count; i++) {
        if (spans[i].begin > spans[last].end)
            spans[++last] = spans[i];
        else if (spans[i].end > spans[last].end)
            spans[last].end = spans[i].end;
    }
    tally->span_count = last + 1;
}

/* Windows come almost in order, so most of them extend the last span. */
static void add_span(struct tally *tally, int64_t begin, int64_t end) {
    struct tally_span *last = tally->span_count ? &tally->spans[tally->span_count - 1] : NULL;
    if (last && begin >= last->begin && begin <= last->end) {
        last->end = end > last->end ? end : last->end;
        return;
    }
    if (tally->span_count >= 2 * tally->sorted_spans + MANY_SPANS) {
        tally_join_spans(tally);
        tally->sorted_spans = tally->span_count;
    }
    if (!array_room(&tally->spans, &tally->span_capacity, tally->span_count, 1)) {
        tally->failed = true;
        return;
    }
    tally->spans[tally->span_count++] = (struct tally_span){begin, end};
}

static void set_period(struct tally *tally, int64_t time, uint64_t period_ns) {
    if (time < tally->period_time)
        return;
    tally->period_time = time;
    tally->period_ns = period_ns;
}

static uint64_t weight_milli(double weight) {
    return weight < 1e12 ? (uint64_t)(weight * MILLI + 0.5) : (uint64_t)1e15;
}

static uint64_t format_of(const struct tally *tally) {
    uint64_t format = TALLY_FORMAT;
    for (size_t i = 0; i < tally->count; i++) {
        if (tally->entries[i].cpu_until_ns)
            return TALLY_CLOCK;
        if (tally->entries[i].weight_milli > MILLI)
            format = TALLY_DRAWN;
    }
    return format;
}

void tally_add(struct tally *tally, uint32_t stream, const struct chunk_window *window) {
    struct tally_entry *entry = entry_of(tally, stream, window->labels);
    if (!entry)
        return;
    int64_t end = window->begin_unix_s + window->length_s;
    int64_t sum = chunk_weigh(window->sum, window->weight);
    entry_add(entry, &(struct tally_entry){.windows = 1,
                                           .samples = window->samples,
                                           .dropped = window->dropped,
                                           .covered_s = window->length_s,
                                           .first_unix_s = window->begin_unix_s,
                                           .last_unix_s = end,
                                           .sum = sum,
                                           .weight_milli = weight_milli(window->weight),
                                           .cpu_from_ns = window->cpu_from_ns,
                                           .cpu_until_ns = window->cpu_until_ns,
                                           .clocked_sum = window->cpu_until_ns ? sum : 0});
    add_span(tally, window->begin_unix_s, end);
    set_period(tally, window->begin_unix_s, window->period_ns);
}

void tally_add_entry(struct tally *tally, uint32_t stream, const struct tally_entry *from) {
    struct tally_entry *entry = entry_of(tally, stream, from->labels);
    if (entry)
        entry_add(entry, from);
}

void tally_append(struct tally *tally, uint32_t stream, const struct tally *from) {
    for (size_t i = 0; i < from->count; i++)
        tally_add_entry(tally, stream, &from->entries[i]);
    for (size_t i = 0; i < from->span_count; i++)
        add_span(tally, from->spans[i].begin, from->spans[i].end);
    set_period(tally, from->period_time, from->period_ns);
}

void tally_encode(struct tally *tally, struct sonde_buf *buf) {
    tally_join_spans(tally);
    uint64_t format = format_of(tally);
    varint_put(buf, format);
    varint_put(buf, tally->period_ns);
    varint_put(buf, (uint64_t)tally->period_time);
    varint_put(buf, tally->span_count);
    for (size_t i = 0; i < tally->span_count; i++) {
        varint_put(buf, (uint64_t)tally->spans[i].begin);
        varint_put(buf, (uint64_t)(tally->spans[i].end - tally->spans[i].begin));
    }
    varint_put(buf, tally->count);
    for (size_t i = 0; i < tally->count; i++) {
        const struct tally_entry *entry = &tally->entries[i];
        varint_put(buf, entry->labels);
        varint_put(buf, entry->windows);
        varint_put(buf, entry->samples);
        varint_put(buf, entry->dropped);
        varint_put(buf, entry->covered_s);
        varint_put(buf, (uint64_t)entry->first_unix_s);
        varint_put(buf, (uint64_t)(entry->last_unix_s - entry->first_unix_s));
        varint_put_signed(buf, entry->sum);
        if (format >= TALLY_DRAWN)
            varint_put(buf, entry->weight_milli);
        if (format < TALLY_CLOCK)
            continue;
        varint_put(buf, entry->cpu_from_ns);
        varint_put(buf, entry->cpu_until_ns - entry->cpu_from_ns);
        varint_put_signed(buf, entry->clocked_sum);
    }
}

static int64_t read_time(struct varint_reader *reader) {
    return (int64_t)varint_get_max(reader, LAST_TIME);
}

/* The end of what begins at `begin`. */
static int64_t read_end(struct varint_reader *reader, int64_t begin) {
    return begin + (int64_t)varint_get_max(reader, (uint64_t)(LAST_TIME - begin));
}

static void read_entry(struct tally *tally, struct varint_reader *reader, uint64_t format) {
    struct tally_entry read = {.labels = (uint32_t)varint_get_max(reader, UINT32_MAX)};
    read.windows = varint_get(reader);
    read.samples = varint_get(reader);
    read.dropped = varint_get(reader);
    read.covered_s = varint_get(reader);
    read.first_unix_s = read_time(reader);
    read.last_unix_s = read_end(reader, read.first_unix_s);
    read.sum = varint_get_signed(reader);
    read.weight_milli = format >= TALLY_DRAWN ? varint_get(reader) : MILLI;
    if (format == TALLY_CLOCK) {
        read.cpu_from_ns = varint_get_max(reader, INT64_MAX);
        read.cpu_until_ns = read.cpu_from_ns + varint_get_max(reader, INT64_MAX - read.cpu_from_ns);
        read.clocked_sum = varint_get_signed(reader);
    }
    struct tally_entry *entry = reader->failed ? NULL : entry_of(tally, 0, read.labels);
    if (entry)
        entry_add(entry, &read);
}

bool tally_decode(struct tally *tally, struct sonde_slice bytes) {
    tally_clear(tally);
    struct varint_reader reader = varint_reader(bytes.data, bytes.len);
    uint64_t format = varint_get(&reader);
    if (format < TALLY_FORMAT || format > TALLY_CLOCK)
        return false;
    tally->period_ns = varint_get(&reader);
    tally->period_time = read_time(&reader);
    size_t spans = varint_get_count(&reader, 2);
    for (size_t i = 0; i < spans && !reader.failed; i++) {
        int64_t begin = read_time(&reader);
        add_span(tally, begin, read_end(&reader, begin));
    }
    size_t count = varint_get_count(&reader, 8);
    for (size_t i = 0; i < count && !reader.failed; i++)
        read_entry(tally, &reader, format);
    return !reader.failed && !tally->failed && reader.at == reader.end;
}

/* The windows that fit between the first and the last one of this process. */
static uint64_t expected_of(const struct tally_entry *entry) {
    double mean_s = entry->windows ? (double)entry->covered_s / (double)entry->windows : 0;
    double span_s = (double)entry->last_unix_s - (double)entry->first_unix_s;
    double exact = mean_s > 0 ? span_s / mean_s + 0.5 : 0;
    uint64_t expected = exact < 1e15 ? (uint64_t)exact : 0; /* a damaged tally */
    return expected > entry->windows ? expected : entry->windows;
}

static void report_clock(const struct tally_entry *entry, struct store_merge *merge) {
    if (entry->cpu_until_ns == 0)
        return;
    int64_t counted_ns = (int64_t)(entry->cpu_until_ns - entry->cpu_from_ns);
    double weight = (double)entry->weight_milli / MILLI;
    merge->counted_ns = chunk_add(merge->counted_ns, chunk_weigh(counted_ns, weight));
    merge->sampled_ns = chunk_add(merge->sampled_ns, entry->clocked_sum);
}

void tally_report(struct tally *tally, bool is_state, struct store_merge *merge) {
    tally_join_spans(tally);
    for (size_t i = 0; i < tally->count; i++) {
        const struct tally_entry *entry = &tally->entries[i];
        merge->windows += entry->windows;
        merge->windows_expected += is_state ? entry->windows : expected_of(entry);
        merge->samples += entry->samples;
        merge->dropped += entry->dropped;
        if (entry->weight_milli > MILLI)
            store_merge_add_drawn(merge, (double)entry->weight_milli / MILLI, (double)entry->sum);
        report_clock(entry, merge);
        bool fits = entry->covered_s < INT64_MAX / NS_PER_S;
        merge->covered_ns =
            chunk_add(merge->covered_ns, fits ? (int64_t)entry->covered_s * NS_PER_S : INT64_MAX);
    }
    for (size_t i = 0; i < tally->span_count; i++)
        merge->wall_ns =
            chunk_add(merge->wall_ns, (tally->spans[i].end - tally->spans[i].begin) * NS_PER_S);
    if (tally->span_count) {
        merge->first_unix_s = tally->spans[0].begin;
        merge->last_unix_s = tally->spans[tally->span_count - 1].end;
    }
    merge->period_ns = tally->period_ns;
}
