/* SPDX-License-Identifier: Apache-2.0
 *
 * The windows that a simulated host keeps. When their memory is full, windows of one process that
 * were never sent are merged, and if that does not free enough, the oldest of these are dropped. */
#include "tests/fleet/simulator/host.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_MERGED_S 300

static size_t size_of(const struct host_window *window) {
    return sizeof *window + window->row_count * sizeof window->rows[0];
}

struct truth_sums window_sums(const struct host_window *window) {
    struct truth_sums sums = {.windows = 1};
    for (uint32_t i = 0; i < window->row_count; i++) {
        int64_t value = (int64_t)(window->rows[i].samples * window->period_ns);
        sums.samples += window->rows[i].samples;
        sums.value += window->weight == 1 ? value : llrint((double)value * window->weight);
    }
    return sums;
}

static void count(struct host *host, const struct host_window *window, int sign) {
    struct truth_sums sums = window_sums(window);
    truth_add(&host->fleet->truth, host->processes[window->process].service, window->event, &sums,
              sign);
}

static void unlink_window(struct host *host, struct host_window *window) {
    if (host->unsent == window)
        host->unsent = window->next;
    *(window->previous ? &window->previous->next : &host->first) = window->next;
    *(window->next ? &window->next->previous : &host->last) = window->previous;
    host->kept_bytes -= size_of(window);
}

static void link_after(struct host *host, struct host_window *window, struct host_window *before) {
    window->previous = before;
    window->next = before ? before->next : host->first;
    *(before ? &before->next : &host->first) = window;
    *(window->next ? &window->next->previous : &host->last) = window;
    host->kept_bytes += size_of(window);
}

static int compare_rows(const struct host_row *a, const struct host_row *b) {
    if (a->stack != b->stack)
        return a->stack < b->stack ? -1 : 1;
    return (a->thread > b->thread) - (a->thread < b->thread);
}

static uint32_t merge_rows(struct host_row *rows, const struct host_window *a,
                           const struct host_window *b) {
    uint32_t i = 0, j = 0, length = 0;
    while (i < a->row_count || j < b->row_count) {
        int order = i == a->row_count   ? 1
                    : j == b->row_count ? -1
                                        : compare_rows(&a->rows[i], &b->rows[j]);
        rows[length] = order <= 0 ? a->rows[i] : b->rows[j];
        if (order == 0)
            rows[length].samples += b->rows[j].samples;
        i += order <= 0;
        j += order >= 0;
        length++;
    }
    return length;
}

/* Into one with the number of the later. */
static struct host_window *merge(struct host *host, struct host_window *earlier,
                                 struct host_window *later) {
    uint32_t most = earlier->row_count + later->row_count;
    struct host_window *both = malloc(sizeof *both + most * sizeof both->rows[0]);
    if (!both)
        abort();
    *both = *later;
    both->begin_unix_s = earlier->begin_unix_s;
    both->length_s = (uint32_t)(later->begin_unix_s - earlier->begin_unix_s) + later->length_s;
    both->merged = earlier->merged + later->merged + 1;
    both->dropped = earlier->dropped + later->dropped;
    both->row_count = merge_rows(both->rows, earlier, later);
    bool was_next = host->unsent == later || host->unsent == earlier;
    struct host_window *next = host->unsent == earlier ? earlier->next : host->unsent;
    count(host, earlier, -1);
    count(host, later, -1);
    count(host, both, 1);
    unlink_window(host, earlier);
    link_after(host, both, later);
    unlink_window(host, later);
    if (was_next)
        host->unsent = next == later ? both : next;
    free(earlier);
    free(later);
    host->merged++;
    host->fleet->truth.merged++;
    return both;
}

static struct host_window *partner_of(struct host_window *window) {
    for (struct host_window *other = window->next; other; other = other->next) {
        if (other->process != window->process || other->event != window->event)
            continue;
        int64_t end = window->begin_unix_s + window->length_s;
        bool fits = other->begin_unix_s == end && other->weight == window->weight &&
                    other->period_ns == window->period_ns &&
                    window->length_s + other->length_s <= MAX_MERGED_S;
        return fits ? other : NULL;
    }
    return NULL;
}

static struct host_window *first_never_sent(const struct host *host) {
    struct host_window *window = host->first;
    while (window && window->was_sent)
        window = window->next;
    return window;
}

static void merge_all(struct host *host) {
    struct host_window *next, *partner;
    for (struct host_window *window = first_never_sent(host); window; window = next) {
        next = window->next;
        partner = partner_of(window);
        if (!partner)
            continue;
        next = next == partner ? partner->next : next;
        merge(host, window, partner);
    }
}

static void drop(struct host *host, struct host_window *window) {
    count(host, window, -1);
    unlink_window(host, window);
    host->lost += window->merged + 1;
    host->fleet->truth.lost_by_memory += window->merged + 1;
    struct truth_sums sums = window_sums(window);
    host->lost_samples += (uint64_t)sums.samples + window->dropped;
    host->processes[window->process].dropped += (uint32_t)sums.samples + window->dropped;
    free(window);
}

static void shrink(struct host *host) {
    merge_all(host);
    /* To three quarters, so that not every window merges again. */
    while (host->kept_bytes > host->keep_bytes / 4 * 3) {
        struct host_window *oldest = first_never_sent(host);
        if (!oldest)
            return;
        drop(host, oldest);
    }
}

void kept_add(struct host *host, struct host_window *window) {
    window->seq = host->next_seq++;
    host->windows++;
    host->fleet->truth.recorded++;
    if (host->lies >= 0)
        link_after(host, window, host->last);
    count(host, window, 1);
    if (host->lies < 0) {
        free(window);
        host->lies++;
        return;
    }
    if (!host->unsent)
        host->unsent = window;
    if (host->lies > 0) {
        host->lies--;
        struct host_window *twin = malloc(size_of(window));
        if (!twin)
            abort();
        memcpy(twin, window, size_of(window));
        twin->seq = host->next_seq++;
        link_after(host, twin, host->last);
    }
    if (host->kept_bytes > host->keep_bytes)
        shrink(host);
}

void kept_acknowledge(struct host *host, uint64_t seq) {
    while (host->first && host->first->seq <= seq && host->first->was_sent) {
        struct host_window *window = host->first;
        unlink_window(host, window);
        host->acked_seq = window->seq;
        host->fleet->truth.acknowledged++;
        free(window);
    }
}

static void doubt(struct host *host, const struct host_window *window) {
    const struct host_process *process = &host->processes[window->process];
    struct truth_doubt entry = {.service = process->service,
                                .event = window->event,
                                .begin_unix_s = window->begin_unix_s,
                                .sums = window_sums(window)};
    memcpy(entry.host, host->name, sizeof entry.host);
    memcpy(entry.instance, process->instance, sizeof entry.instance);
    truth_doubt(&host->fleet->truth, &entry);
}

void kept_drop_all(struct host *host) {
    while (host->first) {
        struct host_window *window = host->first;
        count(host, window, -1);
        host->fleet->truth.lost_by_restart += window->merged + 1;
        if (window->was_sent)
            doubt(host, window);
        unlink_window(host, window);
        free(window);
    }
    host->unsent = NULL;
}
