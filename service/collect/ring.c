/* SPDX-License-Identifier: Apache-2.0 */
#include "service/collect/ring.h"

#include <stdlib.h>
#include <string.h>

void ring_init(struct ring *ring, size_t limit_bytes) {
    *ring = (struct ring){.limit_bytes = limit_bytes};
    ring->last = &ring->first;
}

static size_t bytes_of(const struct ring_item *item) {
    return sizeof *item + item->row_count * sizeof *item->rows +
           item->thread_count * sizeof *item->threads;
}

static void free_item(struct ring_item *item) {
    if (!item)
        return;
    free(item->threads);
    free(item->rows);
    free(item);
}

void ring_finish(struct ring *ring) {
    for (struct ring_item *item = ring->first, *next; item; item = next) {
        next = item->next;
        free_item(item);
    }
}

/* ---- Adding ---- */

static uint32_t kind_of(const char *name) {
    const struct sonde_event *event = sonde_event_find(name);
    return event ? (uint32_t)(event - sonde_events) : RING_OTHER;
}

static int by_stack(const void *a, const void *b) {
    const struct ring_row *left = a, *right = b;
    if (left->stack != right->stack)
        return left->stack < right->stack ? -1 : 1;
    return (left->thread > right->thread) - (left->thread < right->thread);
}

static bool fill_rows(struct tables *tables, const struct store_window *window,
                      struct ring_item *item) {
    item->rows = malloc((window->row_count + 1) * sizeof *item->rows);
    item->threads = malloc((window->thread_count + 1) * sizeof *item->threads);
    bool is_good = item->rows && item->threads;
    for (uint32_t i = 0; i < window->thread_count && is_good; i++)
        item->threads[item->thread_count++] = tables_text(tables, window->threads[i], &is_good);
    for (uint32_t i = 0; i < window->row_count && is_good; i++) {
        uint32_t stack = tables_find_stack(tables, window->stack[i]);
        item->rows[item->row_count++] =
            (struct ring_row){stack, window->thread[i], window->value[i]};
        is_good = stack != 0;
        if (is_good && tables->stacks[stack].process == 0)
            tables->stacks[stack].process = item->process;
    }
    if (is_good && item->row_count > 1)
        qsort(item->rows, item->row_count, sizeof *item->rows, by_stack);
    return is_good;
}

static bool fill(struct tables *tables, const struct store_window *window, struct ring_item *item) {
    bool is_good = true;
    *item = (struct ring_item){
        .kind = kind_of(window->event),
        .seq = window->seq,
        .begin_unix_s = window->begin_unix_s,
        .length_s = window->length_s,
        .period_ns = window->period_ns,
        .samples = window->samples,
        .dropped = window->dropped,
        .truncated = window->truncated,
        .cpu_from_ns = window->cpu_from_ns,
        .cpu_until_ns = window->cpu_until_ns,
        .weight = window->weight,
    };
    item->process = tables_process(tables, window);
    item->event = tables_text(tables, window->event, &is_good);
    item->clock = tables_text(tables, window->clock, &is_good);
    return is_good && item->process && fill_rows(tables, window, item);
}

static void append(struct ring *ring, struct ring_item *item) {
    *ring->last = item;
    ring->last = &item->next;
    ring->bytes += bytes_of(item);
}

bool ring_add_window(struct ring *ring, struct tables *tables, const struct store_window *window) {
    struct ring_item *item = malloc(sizeof *item);
    bool is_small = window->row_count <= RING_MAX_ROWS;
    if (item)
        *item = (struct ring_item){0};
    if (item && is_small && fill(tables, window, item)) {
        struct table_process *process = &tables->processes[item->process];
        item->dropped += process->dropped;
        process->dropped = 0;
        append(ring, item);
        return true;
    }
    free_item(item);
    if (is_small)
        ring->lost_memory++;
    else
        ring->lost_too_large++;
    ring->lost_samples += window->samples;
    return false;
}

bool ring_add_totals(struct ring *ring, struct tables *tables, const struct store_total *totals,
                     size_t count) {
    struct ring_item *item = malloc(sizeof *item);
    struct ring_row *rows = malloc((count + 1) * sizeof *rows);
    bool is_good = item && rows;
    for (size_t i = 0; i < count && is_good; i++) {
        rows[i].stack = tables_text(tables, totals[i].process, &is_good);
        rows[i].thread = tables_text(tables, totals[i].thread, &is_good);
        rows[i].value = totals[i].cpu_ns;
    }
    if (!is_good) {
        free(item);
        free(rows);
        ring->lost_memory++;
        return false;
    }
    *item = (struct ring_item){.kind = RING_TOTALS,
                               .seq = totals[0].seq,
                               .begin_unix_s = totals[0].begin_unix_s,
                               .length_s = totals[0].length_s,
                               .rows = rows,
                               .row_count = (uint32_t)count};
    append(ring, item);
    return true;
}

void ring_ack(struct ring *ring, uint64_t seq) {
    while (ring->first && ring->first->seq <= seq) {
        struct ring_item *item = ring->first;
        ring->first = item->next;
        if (!ring->first)
            ring->last = &ring->first;
        ring->bytes -= bytes_of(item);
        free_item(item);
    }
}

/* ---- Merging ---- */

static bool may_merge(const struct ring_item *old, const struct ring_item *item) {
    int64_t length_s = item->begin_unix_s + item->length_s - old->begin_unix_s;
    return old->period_ns == item->period_ns && old->weight == item->weight &&
           old->clock == item->clock && length_s > 0 && length_s <= STORE_MAX_LENGTH &&
           old->row_count + item->row_count <= RING_MAX_ROWS;
}

/* Returns the number of a thread name in `item`, adding it if needed. Beyond STORE_MAX_THREADS all
 * names share the last number. */
static uint32_t thread_in(struct ring_item *item, uint32_t text) {
    for (uint32_t i = 0; i < item->thread_count; i++)
        if (item->threads[i] == text)
            return i;
    if (item->thread_count == STORE_MAX_THREADS)
        return STORE_MAX_THREADS - 1;
    item->threads[item->thread_count] = text;
    return item->thread_count++;
}

static uint32_t sum_rows(struct ring_row *rows, uint32_t count) {
    uint32_t kept = 0;
    if (count > 1)
        qsort(rows, count, sizeof *rows, by_stack);
    for (uint32_t i = 0; i < count; i++) {
        if (kept > 0 && by_stack(&rows[kept - 1], &rows[i]) == 0)
            rows[kept - 1].value += rows[i].value;
        else
            rows[kept++] = rows[i];
    }
    return kept;
}

static bool merge_rows(struct ring_item *old, struct ring_item *item) {
    uint32_t count = old->row_count + item->row_count;
    struct ring_row *rows = malloc((count + 1) * sizeof *rows);
    uint32_t *threads =
        malloc((old->thread_count + item->thread_count + 1) * sizeof *item->threads);
    if (!rows || !threads) {
        free(rows);
        free(threads);
        return false;
    }
    memcpy(threads, item->threads, item->thread_count * sizeof *threads);
    free(item->threads);
    item->threads = threads;
    memcpy(rows, item->rows, item->row_count * sizeof *rows);
    for (uint32_t i = 0; i < old->row_count; i++) {
        rows[item->row_count + i] = old->rows[i];
        rows[item->row_count + i].thread = thread_in(item, old->threads[old->rows[i].thread]);
    }
    free(item->rows);
    item->rows = rows;
    item->row_count = sum_rows(rows, count);
    return true;
}

/* Adds the older window to the later one. Of a state only the later one counts. */
static bool merge(struct ring *ring, struct ring_item *old, struct ring_item *item) {
    size_t before = bytes_of(item);
    if (!sonde_events[item->kind].is_state) {
        if (!merge_rows(old, item))
            return false;
        item->samples += old->samples;
        item->truncated += old->truncated;
    }
    item->length_s = (uint32_t)(item->begin_unix_s + item->length_s - old->begin_unix_s);
    item->begin_unix_s = old->begin_unix_s;
    item->dropped += old->dropped;
    /* A capture that began again may have another zero. */
    bool are_known = old->cpu_until_ns && item->cpu_until_ns >= old->cpu_from_ns;
    item->cpu_from_ns = are_known ? old->cpu_from_ns : 0;
    item->cpu_until_ns = are_known ? item->cpu_until_ns : 0;
    item->merged += old->merged + 1;
    ring->merged++;
    ring->bytes += bytes_of(item) - before;
    return true;
}

static void unlink_item(struct ring *ring, struct ring_item **at) {
    struct ring_item *item = *at;
    *at = item->next;
    if (!item->next)
        ring->last = at;
    ring->bytes -= bytes_of(item);
    free_item(item);
}

/* Merges each window that was not sent with the next one of its process and event. False if there
 * was none. */
static bool merge_pairs(struct ring *ring, const struct tables *tables) {
    struct ring_item ***waiting = calloc(tables->process_count * RING_KINDS, sizeof *waiting);
    bool has_merged = false;
    if (!waiting)
        return false;
    for (struct ring_item **at = &ring->first; *at && ring->bytes > ring->limit_bytes;
         at = &(*at)->next) {
        struct ring_item *item = *at;
        if (item->is_sent || item->kind >= RING_KINDS)
            continue;
        struct ring_item ***slot = &waiting[item->process * RING_KINDS + item->kind];
        if (!*slot || !may_merge(**slot, item) || !merge(ring, **slot, item)) {
            *slot = at;
            continue;
        }
        /* The older one leaves the list: links to the item after it change their place. */
        struct ring_item **old = *slot, *next = (*old)->next;
        bool is_neighbour = next == item;
        for (uint32_t i = 0; i < tables->process_count * RING_KINDS; i++)
            if (waiting[i] == &(*old)->next)
                waiting[i] = old;
        *slot = NULL;
        unlink_item(ring, old);
        if (is_neighbour)
            at = old;
        has_merged = true;
    }
    free(waiting);
    return has_merged;
}

static void drop_oldest(struct ring *ring, struct tables *tables) {
    const struct ring_item *item = ring->first;
    ring->lost_memory += 1 + item->merged;
    ring->lost_samples += item->samples;
    if (item->kind != RING_TOTALS)
        tables->processes[item->process].dropped += item->samples + item->dropped;
    unlink_item(ring, &ring->first);
}

void ring_trim(struct ring *ring, struct tables *tables) {
    while (ring->bytes > ring->limit_bytes && merge_pairs(ring, tables)) {
    }
    while (ring->bytes > ring->limit_bytes)
        drop_oldest(ring, tables);
}

/* ---- New tables ---- */

static bool copy_window(const struct ring_item *item, const struct tables *from, struct tables *to,
                        struct ring_item *copy) {
    bool is_good = true;
    copy->process = tables_copy_process(to, from, item->process);
    copy->event = tables_copy_text(to, from, item->event, &is_good);
    copy->clock = tables_copy_text(to, from, item->clock, &is_good);
    for (uint32_t i = 0; i < item->thread_count && is_good; i++)
        copy->threads[i] = tables_copy_text(to, from, item->threads[i], &is_good);
    for (uint32_t i = 0; i < item->row_count && is_good; i++) {
        copy->rows[i] = item->rows[i];
        copy->rows[i].stack = tables_copy_stack(to, from, item->rows[i].stack);
        is_good = copy->rows[i].stack != 0;
        if (is_good && to->stacks[copy->rows[i].stack].process == 0)
            to->stacks[copy->rows[i].stack].process = copy->process;
    }
    if (is_good && item->row_count > 1)
        qsort(copy->rows, copy->row_count, sizeof *copy->rows, by_stack);
    return is_good && copy->process;
}

static bool copy_totals(const struct ring_item *item, const struct tables *from, struct tables *to,
                        struct ring_item *copy) {
    bool is_good = true;
    for (uint32_t i = 0; i < item->row_count && is_good; i++) {
        copy->rows[i].stack = tables_copy_text(to, from, item->rows[i].stack, &is_good);
        copy->rows[i].thread = tables_copy_text(to, from, item->rows[i].thread, &is_good);
        copy->rows[i].value = item->rows[i].value;
    }
    return is_good;
}

static struct ring_item *copy_item(const struct ring_item *item, const struct tables *from,
                                   struct tables *to) {
    struct ring_item *copy = malloc(sizeof *copy);
    if (!copy)
        return NULL;
    *copy = *item;
    copy->next = NULL;
    copy->rows = malloc((item->row_count + 1) * sizeof *copy->rows);
    copy->threads = malloc((item->thread_count + 1) * sizeof *copy->threads);
    bool is_good = copy->rows && copy->threads;
    if (is_good)
        is_good = item->kind == RING_TOTALS ? copy_totals(item, from, to, copy)
                                            : copy_window(item, from, to, copy);
    if (is_good)
        return copy;
    free_item(copy);
    return NULL;
}

bool ring_renumber(struct ring *ring, const struct tables *from, struct tables *to) {
    struct ring other = *ring;
    other.first = NULL;
    other.last = &other.first;
    other.bytes = 0;
    for (const struct ring_item *item = ring->first; item; item = item->next) {
        struct ring_item *copy = copy_item(item, from, to);
        if (!copy) {
            ring_finish(&other);
            return false;
        }
        append(&other, copy);
    }
    ring_finish(ring);
    *ring = other;
    if (!ring->first)
        ring->last = &ring->first;
    return true;
}
