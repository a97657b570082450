/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a batch as one transaction. Its windows become one mixed chunk, of all streams, so that a
 * put changes few pages; split.c sorts them out later. The totals of an interval are a window, too:
 * of the host's stream, with the numbers of (process, thread) in place of stacks. */
#include "service/store/sqlite/delivery.h"
#include "service/store/sqlite/engine.h"
#include "service/store/sqlite/format/chunk.h"
#include "service/store/sqlite/read/labelset.h"

#include <stdlib.h>
#include <string.h>

#define PUT_LEVEL   1 /* zstd's; maintain compresses better */
#define CHUNK_BYTES (24u << 20)

struct place {
    uint32_t stream, service;
    int64_t hour;
    size_t index;
};

/* The windows of an hour that are being collected for a chunk. */
struct group {
    struct chunk chunk;
    struct sonde_buf labels;
    int64_t hour;
    bool is_totals;
};

void engine_add_chunk(struct db *db, uint32_t stream, int64_t first_minute, int64_t last_minute,
                      struct chunk *chunk, int level) {
    int64_t low = key_chunk(stream, first_minute), high = key_chunk(stream, first_minute + 1) - 1;
    int64_t key = db_number(db, low - 1, CHUNK_LAST_PART, "ii", low, high) + 1;
    if (chunk->failed)
        db_out_of_memory(db);
    if (key > high)
        db_fail(db, SONDE_UNAVAILABLE, "too many writes in a minute; write larger batches");
    if (db->failure)
        return;
    chunk_encode(chunk, &db->scratch);
    db_run(db, CHUNK_ADD, "iib", key, last_minute, db_pack(db, level));
}

struct engine_counts engine_count(const struct chunk *chunk) {
    struct engine_counts counts = {.first = INT64_MAX, .windows = (int64_t)chunk->window_count};
    for (size_t i = 0; i < chunk->window_count; i++) {
        const struct chunk_window *window = &chunk->windows[i];
        int64_t begin = window->begin_unix_s, end = begin + window->length_s;
        counts.samples += (int64_t)window->samples;
        counts.dropped += (int64_t)window->dropped;
        counts.first = begin < counts.first ? begin : counts.first;
        counts.last = end > counts.last ? end : counts.last;
        if (begin / MINUTE_S > counts.last_minute)
            counts.last_minute = begin / MINUTE_S;
    }
    return counts;
}

static void flush(struct put *put, struct group *group) {
    struct chunk *chunk = &group->chunk;
    if (chunk->window_count == 0)
        return;
    struct engine_counts counts = engine_count(chunk);
    engine_add_chunk(put->db, KEY_MIXED, counts.first / MINUTE_S, counts.last_minute, chunk,
                     PUT_LEVEL);
    db_run(put->db, HOUR_ADD, "iiiiiii", (int64_t)KEY_MIXED, group->hour,
           group->is_totals ? (int64_t)0 : counts.windows, counts.samples, counts.dropped,
           counts.first, counts.last);
    chunk_clear(chunk);
}

/* Makes the group one of this hour. */
static void enter(struct put *put, struct group *group, int64_t hour) {
    if (group->hour != hour || chunk_bytes(&group->chunk) > CHUNK_BYTES)
        flush(put, group);
    group->hour = hour;
}

static void add_window(struct put *put, struct group *group, const struct place *place) {
    const struct store_window *window = &put->batch->windows[place->index];
    enter(put, group, place->hour);
    group->labels.len = 0;
    labelset_encode(window, &group->labels);
    struct chunk_window header = {
        .stream = place->stream,
        .labels =
            numbers_labels(put->numbers, put->db, sonde_buf_slice(&group->labels), window->host),
        .length_s = window->length_s,
        .begin_unix_s = window->begin_unix_s,
        .period_ns = window->period_ns,
        .weight = window->weight,
        .samples = window->samples,
        .dropped = window->dropped,
        .truncated = window->truncated,
        .cpu_from_ns = window->cpu_from_ns,
        .cpu_until_ns = window->cpu_until_ns,
    };
    uint32_t threads[STORE_MAX_THREADS + 1];
    for (uint32_t i = 0; i < window->thread_count; i++)
        threads[i] = text_list_number(&group->chunk.threads, window->threads[i]);
    chunk_add_window(&group->chunk, &header);
    for (uint32_t i = 0; i < window->row_count && !put->db->failure; i++)
        chunk_add_row(&group->chunk,
                      numbers_stack(put->numbers, put->db, place->service, window->stack[i]),
                      threads[window->thread[i]], window->value[i]);
    if (group->labels.failed || group->chunk.failed || group->chunk.threads.failed)
        db_out_of_memory(put->db);
}

static int compare_places(const void *left, const void *right) {
    const struct place *a = left, *b = right;
    if (a->hour != b->hour)
        return a->hour < b->hour ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

static void put_windows(struct put *put, struct delivery *delivery) {
    const struct store_batch *batch = put->batch;
    struct place *places = malloc((batch->window_count + 1) * sizeof *places);
    size_t count = 0;
    if (!places)
        db_out_of_memory(put->db);
    for (size_t i = 0; i < batch->window_count && !put->db->failure; i++) {
        const struct store_window *window = &batch->windows[i];
        if (!delivery_is_new(delivery, put->db, DELIVERY_WINDOW, window->source, window->epoch,
                             window->seq, window->begin_unix_s)) {
            put->result->duplicates++;
            continue;
        }
        struct stream_number number =
            numbers_stream(put->numbers, put->db, SERVICE_RECORDED, window->service, window->event);
        places[count++] =
            (struct place){number.stream, number.service, window->begin_unix_s / HOUR_S, i};
        put->result->stored++;
    }
    if (count)
        qsort(places, count, sizeof *places, compare_places);
    struct group group = {0};
    for (size_t i = 0; i < count && !put->db->failure; i++)
        add_window(put, &group, &places[i]);
    flush(put, &group);
    chunk_finish(&group.chunk);
    sonde_buf_finish(&group.labels);
    free(places);
}

static int compare_totals(const void *left, const void *right) {
    const struct store_total *a = *(const struct store_total *const *)left;
    const struct store_total *b = *(const struct store_total *const *)right;
    if (a->source != b->source)
        return a->source < b->source ? -1 : 1;
    if (a->epoch != b->epoch)
        return a->epoch < b->epoch ? -1 : 1;
    if (a->seq != b->seq)
        return a->seq < b->seq ? -1 : 1;
    int order = strcmp(a->host, b->host);
    if (order)
        return order;
    if (a->begin_unix_s != b->begin_unix_s)
        return a->begin_unix_s < b->begin_unix_s ? -1 : 1;
    return (a > b) - (a < b);
}

static bool same_delivery(const struct store_total *a, const struct store_total *b) {
    return a && a->source == b->source && a->epoch == b->epoch && a->seq == b->seq;
}

/* Begins the window of an interval; returns the number of its host. */
static uint32_t add_interval(struct put *put, struct group *group,
                             const struct store_total *total) {
    struct stream_number number =
        numbers_stream(put->numbers, put->db, SERVICE_HOST, total->host, "");
    enter(put, group, total->begin_unix_s / HOUR_S);
    struct store_window host = {.host = total->host, .instance = "", .clock = ""};
    group->labels.len = 0;
    labelset_encode(&host, &group->labels);
    text_list_number(&group->chunk.threads, "");
    chunk_add_window(&group->chunk,
                     &(struct chunk_window){
                         .stream = number.stream,
                         .labels = numbers_labels(put->numbers, put->db,
                                                  sonde_buf_slice(&group->labels), total->host),
                         .begin_unix_s = total->begin_unix_s,
                         .length_s = total->length_s,
                         .weight = 1});
    return number.service;
}

static void add_totals(struct put *put, struct delivery *delivery,
                       const struct store_total **totals) {
    struct group group = {.is_totals = true};
    const struct store_total *last = NULL;
    uint32_t service = 0;
    bool is_new = false;
    for (size_t i = 0; i < put->batch->total_count && !put->db->failure; i++) {
        const struct store_total *total = totals[i];
        bool is_same = same_delivery(last, total);
        if (!is_same)
            is_new = delivery_is_new(delivery, put->db, DELIVERY_TOTAL, total->source, total->epoch,
                                     total->seq, total->begin_unix_s);
        if (is_new && (!is_same || strcmp(last->host, total->host) != 0 ||
                       last->begin_unix_s != total->begin_unix_s))
            service = add_interval(put, &group, total);
        last = total;
        if (is_new)
            chunk_add_row(&group.chunk, engine_put_task(put, service, total), 0, total->cpu_ns);
    }
    flush(put, &group);
    chunk_finish(&group.chunk);
    sonde_buf_finish(&group.labels);
}

static void put_totals(struct put *put, struct delivery *delivery) {
    size_t count = put->batch->total_count;
    if (count == 0)
        return;
    const struct store_total **totals = malloc(count * sizeof(void *));
    if (!totals) {
        db_out_of_memory(put->db);
        return;
    }
    for (size_t i = 0; i < count; i++)
        totals[i] = &put->batch->totals[i];
    qsort(totals, count, sizeof(void *), compare_totals);
    add_totals(put, delivery, totals);
    free(totals);
}

static sonde_err check_rows(const struct store_batch *batch, struct sonde_diag *diag) {
    for (size_t i = 0; i < batch->window_count; i++)
        if (batch->windows[i].row_count > CHUNK_MAX_ROWS)
            return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                              "a window must have at most 1,048,576 rows");
    return SONDE_OK;
}

sonde_err engine_put(struct store *store, const struct store_batch *batch,
                     struct store_put_result *result, struct sonde_diag *diag) {
    struct engine *engine = (struct engine *)store;
    *result = (struct store_put_result){0};
    struct sonde_diag failure = {0};
    sonde_err err = check_rows(batch, diag);
    if (err)
        return err;
    err = engine_check_file(engine, &failure);
    if (err && diag)
        *diag = failure;
    if (err)
        return engine_note(engine, err, &failure);
    lock_take(&engine->write_lock);
    struct put put = {&engine->writer, &engine->numbers, batch, result};
    struct delivery delivery = {0};
    db_begin(put.db);
    put_windows(&put, &delivery);
    put_totals(&put, &delivery);
    delivery_flush(&delivery, put.db);
    engine_put_frames(&put);
    engine_put_stacks(&put);
    err = db_end(put.db, &failure);
    if (err) {
        numbers_clear(&engine->numbers);
        *result = (struct store_put_result){0};
    }
    lock_drop(&engine->write_lock);
    if (err && diag)
        *diag = failure;
    return engine_note(engine, err, &failure);
}
