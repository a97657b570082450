/* SPDX-License-Identifier: Apache-2.0
 *
 * From faults to counts. Stack tables belong to the engine thread, so a worker only sums up what
 * the faults of a place have brought, and the engine thread gives each place its outermost
 * frame. */
#include "service/engine/capture/growth_state.h"

#include <stdlib.h>
#include <string.h>

#define MAX_FRAMES SONDE_PROFILE_MAX_DEPTH

static int by_place(const void *a, const void *b) {
    const struct growth_row *left = a, *right = b;
    int order = memcmp(&left->place, &right->place, sizeof left->place);
    return order ? order : (left->kind > right->kind) - (left->kind < right->kind);
}

/* Equal places follow each other. */
static size_t merge(struct growth_row *rows, size_t count) {
    size_t merged = 0;
    for (size_t i = 0; i < count; i++) {
        if (merged == 0 || by_place(&rows[merged - 1], &rows[i]) != 0) {
            rows[merged++] = rows[i];
            continue;
        }
        rows[merged - 1].bytes += rows[i].bytes;
        rows[merged - 1].samples += rows[i].samples;
    }
    return merged;
}

sonde_err growth_make_rows(struct growth *growth) {
    sonde_err err = grown_divide(&growth->before, &growth->now, growth->samples, growth->count,
                                 growth->missed, &growth->grown);
    struct growth_row *rows = err ? NULL : malloc((growth->count + 1) * sizeof *rows);
    if (!rows)
        return SONDE_OUT_OF_MEMORY;
    size_t count = 0;
    for (size_t i = 0; i < growth->count; i++) {
        const struct grown_sample *sample = &growth->samples[i];
        if (sample->bytes > 0)
            rows[count++] = (struct growth_row){.place = growth->places[sample->tag],
                                                .kind = sample->kind,
                                                .bytes = sample->bytes,
                                                .samples = 1};
    }
    qsort(rows, count, sizeof *rows, by_place);
    growth->rows = rows;
    growth->row_count = merge(rows, count);
    return SONDE_OK;
}

static uint32_t add_kind(struct stacks *stacks, enum resident_kind kind) {
    return stacks_add_note(stacks, 0, (enum stack_note)(STACK_NOTE_ANONYMOUS + kind));
}

/* Remembers which nodes of a part's stacks have been moved below the frame of a kind, so that a
 * node is moved once, however many stacks have it. */
struct moving {
    struct report_part *part;
    uint32_t count;                  /* of nodes; those that are added have higher numbers */
    uint32_t *moved[RESIDENT_KINDS]; /* by node: the new one; 0 = not moved. NULL = no node is */
};

static void finish_moving(struct moving *moving) {
    for (size_t kind = 0; kind < RESIDENT_KINDS; kind++)
        free(moving->moved[kind]);
}

static void set_part(struct moving *moving, struct report_part *part) {
    if (moving->part == part)
        return;
    finish_moving(moving);
    *moving = (struct moving){.part = part, .count = part->stacks->nodes.count};
}

/* The same stack below the frame of a kind; STACKS_FULL: there is no room, or no memory. */
static uint32_t move_below(struct moving *moving, enum resident_kind kind, uint32_t stack) {
    struct stacks *stacks = moving->part->stacks;
    uint32_t frames[MAX_FRAMES], count = 0, *moved = moving->moved[kind];
    if (!moved)
        moved = moving->moved[kind] = calloc(moving->count, sizeof *moved);
    if (!moved)
        return STACKS_FULL;
    for (; !moved[stack] && stack != 0 && count < MAX_FRAMES; count++) {
        frames[count] = stack;
        stack = stacks_node(stacks, stack)->parent;
    }
    uint32_t parent = moved[stack] ? moved[stack] : add_kind(stacks, kind);
    while (count > 0 && parent != STACKS_FULL) {
        const struct stack_node *node = stacks_node(stacks, frames[--count]);
        parent = stacks_add_frame(stacks, parent, node->mapping, node->pc);
        moved[frames[count]] = parent;
    }
    return parent;
}

static void count_row(struct window *window, struct moving *moving, const struct growth_row *row) {
    set_part(moving, &window->parts[row->place.part]);
    uint32_t stack = move_below(moving, row->kind, row->place.stack);
    struct count_key key = {.stack = stack == STACKS_FULL ? row->place.stack : stack,
                            .thread = row->place.thread};
    if (counts_add(&moving->part->counts, &key, row->bytes, (double)row->samples))
        window->stacks_full += row->samples;
}

/* What no fault explains, in the last part. */
static void count_rest(struct window *window, enum resident_kind kind, uint64_t bytes) {
    struct report_part *part = &window->parts[window->part_count - 1];
    uint32_t stack =
        stacks_add_note(part->stacks, add_kind(part->stacks, kind), STACK_NOTE_NO_FAULT);
    struct count_key key = {.stack = stack, .thread = stacks_add_thread(part->stacks, 0, 0, "")};
    if (bytes == 0)
        return;
    if (stack == STACKS_FULL || key.thread == STACKS_FULL ||
        counts_add(&part->counts, &key, bytes, 0))
        window->stacks_full++;
}

static void describe(const struct growth *growth, struct report_growth *report) {
    const struct grown *grown = &growth->grown;
    uint64_t before_skipped = growth->before.skipped_bytes, now_skipped = growth->now.skipped_bytes;
    *report = (struct report_growth){
        .is_known = true,
        .has_ended = growth->has_ended,
        .anonymous = grown->grown[RESIDENT_ANONYMOUS],
        .file = grown->grown[RESIDENT_FILE],
        .shared = grown->grown[RESIDENT_SHARED],
        .huge = grown->huge,
        .gone = grown->gone,
        .back = grown->back,
        .skipped = before_skipped > now_skipped ? before_skipped : now_skipped,
        .thinned = growth->halvings,
    };
    report->has_rss = growth->before.rss_anon >= 0 && growth->now.rss_anon >= 0;
    report->rss_change = growth->now.rss_anon - growth->before.rss_anon;
}

void growth_count(struct growth *growth, struct report_growth *report) {
    struct window *window = &growth->capture->window;
    struct moving moving = {0};
    if (growth->step != GROWTH_DONE || window->part_count == 0)
        return;
    for (size_t i = 0; i < growth->row_count; i++)
        count_row(window, &moving, &growth->rows[i]);
    finish_moving(&moving);
    for (size_t kind = 0; kind < RESIDENT_KINDS && !growth->has_ended; kind++)
        count_rest(window, (enum resident_kind)kind, growth->grown.no_fault[kind]);
    describe(growth, report);
}
