/* SPDX-License-Identifier: Apache-2.0
 *
 * Heap profiling with Sonde's sampler: sonded reads the table without the guest's help. The totals
 * only grow and start with the sampler's first user, so the totals of an activation are the
 * difference to those at its start. */
#include "service/engine/guest/guest_link.h"
#include "service/engine/heap/heap_state.h"
#include "service/engine/memory_report/alloc_report.h"

#include <stdio.h>
#include <stdlib.h>

/* Sums at the activation, shared with workers. */
struct alloc_base {
    _Atomic uint32_t refs;
    struct alloc_sums sums;
};

static void base_release(struct alloc_base *base) {
    if (!base || atomic_fetch_sub_explicit(&base->refs, 1, memory_order_acq_rel) != 1)
        return;
    alloc_sums_finish(&base->sums);
    free(base);
}

void heap_forget_totals(struct heap *heap) {
    base_release(heap->base);
    heap->base = NULL;
    heap->dropped_before = 0;
}

/* An empty table needs no base. */
void heap_begin_totals(struct heap *heap) {
    heap_forget_totals(heap);
    if (!heap->table)
        return;
    heap->dropped_before = alloc_view_dropped(heap->table);
    struct alloc_base *base = alloc_view_samples(heap->table) > 0 ? calloc(1, sizeof *base) : NULL;
    if (!base)
        return;
    base->refs = 1;
    if (alloc_view_read(heap->table, &(struct alloc_choice){0}, &base->sums) == SONDE_OK)
        heap->base = base;
    else
        free(base);
}

void heap_update_table(struct heap *heap, const sonde_guest_v1_HeapAnswer *answer, int fd) {
    struct alloc_view *view = NULL;
    if (answer->table == alloc_view_number(heap->table) && answer->table != 0)
        return;
    if (answer->table != 0 && fd >= 0 &&
        alloc_view_open(fd, answer->table, &view) == SONDE_PROTOCOL)
        heap->target->guest->is_broken = true;
    heap_forget_totals(heap);
    alloc_view_release(heap->table);
    heap->table = view;
}

/* ---- Reading ---- */

void table_reading_init(struct table_reading *reading, const struct heap *heap) {
    *reading = (struct table_reading){.view = alloc_view_retain(heap->table),
                                      .base = heap->base,
                                      .lives = mapping_lives_retain(heap->target->lives),
                                      .process = &heap->target->process,
                                      .mean = heap->state.sample_bytes};
    if (heap->base)
        atomic_fetch_add_explicit(&heap->base->refs, 1, memory_order_relaxed);
    snprintf(reading->comment, sizeof reading->comment,
             "backend: Sonde's sampler, one sample per %llu bytes; sees allocations made after it "
             "was switched on, and those of a library from 0.1 s after it was loaded",
             (unsigned long long)reading->mean);
}

void table_reading_finish(struct table_reading *reading) {
    alloc_view_release(reading->view);
    base_release(reading->base);
    mapping_lives_release(reading->lives);
    *reading = (struct table_reading){0};
}

static sonde_err read_sums(const struct table_reading *reading, struct alloc_sums *sums,
                           struct sonde_diag *diag) {
    uint64_t age_ns = reading->older_than_ms * 1000000ull, now_ns = now_monotonic_ns();
    struct alloc_choice choice = {.live = true,
                                  .born_before_ns = age_ns < now_ns ? now_ns - age_ns : 0};
    sonde_err err = alloc_view_read(reading->view, &choice, sums);
    if (err)
        return sonde_fail(diag, err, "the sampler's table could not be read: out of memory");
    if (reading->base)
        alloc_sums_subtract(sums, &reading->base->sums);
    for (uint32_t i = 0; reading->older_than_ms && i < sums->count; i++)
        if (sums->items[i].live_samples == 0)
            sums->items[i].place = 0; /* totals have no age */
    return SONDE_OK;
}

static void fill(const struct table_reading *reading, struct sonde_buf *maps,
                 const struct alloc_sums *sums, struct alloc_report *report) {
    int64_t now = now_unix_ns();
    alloc_report_read_maps(reading->process, maps);
    *report = (struct alloc_report){.view = reading->view,
                                    .sums = sums,
                                    .process = reading->process,
                                    .maps = sonde_buf_slice(maps),
                                    .lives = reading->lives,
                                    .mean = reading->mean,
                                    .live = true,
                                    .start_unix_ns = now,
                                    .end_unix_ns = now,
                                    .keep_frames = reading->keep_frames,
                                    .comment = reading->comment};
}

sonde_err table_read_profile(struct engine *engine, const struct table_reading *reading,
                             struct sonde_profile **profile, struct sonde_diag *diag) {
    struct sonde_buf maps = {0};
    struct alloc_report report;
    struct alloc_sums sums = {0};
    sonde_err err = read_sums(reading, &sums, diag);
    fill(reading, &maps, &sums, &report);
    if (!err)
        err = alloc_report_profile(engine, &report, profile, diag);
    alloc_sums_finish(&sums);
    sonde_buf_finish(&maps);
    return err;
}

sonde_err table_read_text(const struct table_reading *reading, struct sonde_buf *text,
                          struct sonde_diag *diag) {
    struct sonde_buf maps = {0};
    struct alloc_report report;
    struct alloc_sums sums = {0};
    sonde_err err = read_sums(reading, &sums, diag);
    fill(reading, &maps, &sums, &report);
    text->limit = HEAP_MAX_DUMP;
    if (!err)
        err = alloc_report_text(&report, text, diag);
    alloc_sums_finish(&sums);
    sonde_buf_finish(&maps);
    return err;
}
