/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/live/live_data.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAME 200

struct live_view *live_view_create(uint32_t span) {
    struct live_view *view = calloc(1, sizeof *view);
    if (view)
        view->span = span;
    return view;
}

static void free_table(struct table *table) {
    for (uint32_t i = 0; i < table->count; i++)
        free(table->items[i].text);
    free(table->items);
}

void live_view_destroy(struct live_view *view) {
    if (!view)
        return;
    for (uint32_t i = 0; i < view->string_count; i++)
        free(view->strings[i]);
    for (uint32_t i = 0; i < view->stack_count; i++)
        free(view->stacks[i].rows);
    for (uint32_t i = 0; i < LIVE_MAX_SPAN; i++)
        free(view->windows[i].counts);
    free_table(&view->functions);
    free_table(&view->threads);
    free(view->strings);
    free(view->string_row);
    free(view->string_thread);
    free(view->frame_row);
    free(view->stacks);
    free(view);
}

/* ---- The dictionary ---- */

/* Makes space for `more` items after `count`, in powers of two. On failure the old block stays
 * valid. */
static bool grow(void *block, size_t size, uint32_t count, size_t more) {
    void **at = block;
    size_t wanted = count + more, capacity = 64;
    if (more == 0)
        return true;
    while (capacity < wanted)
        capacity *= 2;
    void *grown = realloc(*at, capacity * size);
    if (grown)
        *at = grown;
    return grown != NULL;
}

static bool add_row(struct table *table, const char *text, uint32_t *number) {
    char *copy = strndup(text, MAX_NAME);
    if (!copy || !grow(&table->items, sizeof *table->items, table->count, 1)) {
        free(copy);
        return false;
    }
    *number = table->count;
    table->items[table->count++] = (struct row){.text = copy};
    return true;
}

static bool add_strings(struct live_view *view, const Sonde__V1__CpuWindow *window) {
    size_t more = window->n_strings;
    if (!grow(&view->strings, sizeof *view->strings, view->string_count, more) ||
        !grow(&view->string_row, sizeof *view->string_row, view->string_count, more) ||
        !grow(&view->string_thread, sizeof *view->string_thread, view->string_count, more))
        return false;
    for (size_t i = 0; i < more; i++) {
        char *copy = strdup(window->strings[i]);
        if (!copy)
            return false;
        view->string_row[view->string_count] = view->string_thread[view->string_count] = 0;
        view->strings[view->string_count++] = copy;
    }
    return true;
}

/* Finds the row of a name, and adds it the first time. */
static bool row_of_string(struct live_view *view, struct table *table, uint32_t *known,
                          uint32_t string, uint32_t *row) {
    if (known[string] == 0) {
        if (!add_row(table, view->strings[string], row))
            return false;
        known[string] = *row + 1;
    }
    *row = known[string] - 1;
    return true;
}

static bool add_frame(struct live_view *view, const Sonde__V1__StreamFrame *frame) {
    uint32_t *row = &view->frame_row[view->frame_count];
    if (frame->function >= view->string_count || frame->module > view->string_count)
        return false;
    bool good;
    if (view->strings[frame->function][0]) {
        good = row_of_string(view, &view->functions, view->string_row, frame->function, row);
    } else {
        char text[MAX_NAME];
        snprintf(text, sizeof text, "%.150s 0x%" PRIx64,
                 frame->module ? view->strings[frame->module - 1] : "[no module]", frame->address);
        good = add_row(&view->functions, text, row);
    }
    view->frame_count += good;
    return good;
}

static bool add_frames(struct live_view *view, const Sonde__V1__CpuWindow *window) {
    if (!grow(&view->frame_row, sizeof *view->frame_row, view->frame_count, window->n_frames))
        return false;
    for (size_t i = 0; i < window->n_frames; i++)
        if (!add_frame(view, window->frames[i]))
            return false;
    return true;
}

static bool add_stack(struct live_view *view, const Sonde__V1__StreamStack *stack) {
    struct stack added = {
        .count = (uint32_t)stack->n_frames, .thread = UINT32_MAX, .tid = stack->tid};
    if (stack->thread > view->string_count)
        return false;
    if (stack->thread &&
        !row_of_string(view, &view->threads, view->string_thread, stack->thread - 1, &added.thread))
        return false;
    added.rows = malloc((stack->n_frames + 1) * sizeof *added.rows);
    bool good = added.rows != NULL;
    for (size_t i = 0; i < stack->n_frames && good; i++) {
        good = stack->frames[i] < view->frame_count;
        added.rows[i] = good ? view->frame_row[stack->frames[i]] : 0;
    }
    if (good)
        view->stacks[view->stack_count++] = added;
    else
        free(added.rows);
    return good;
}

static bool add_stacks(struct live_view *view, const Sonde__V1__CpuWindow *window) {
    if (!grow(&view->stacks, sizeof *view->stacks, view->stack_count, window->n_stacks))
        return false;
    for (size_t i = 0; i < window->n_stacks; i++)
        if (!add_stack(view, window->stacks[i]))
            return false;
    return true;
}

/* ---- The windows ---- */

static void expire(struct live_view *view, struct window *window) {
    for (uint32_t i = 0; i < window->count && !view->is_frozen; i++)
        view->stacks[window->counts[i].stack].ns -= window->counts[i].ns;
    free(window->counts);
    *window = (struct window){0};
}

static bool add_counts(struct live_view *view, struct window *into,
                       const Sonde__V1__CpuWindow *window) {
    if (!grow(&into->counts, sizeof *into->counts, into->count, window->n_counts))
        return false;
    for (size_t i = 0; i < window->n_counts; i++) {
        const Sonde__V1__StackCount *count = window->counts[i];
        if (count->stack >= view->stack_count)
            return false;
        into->counts[into->count++] = (struct count){count->stack, count->cpu_ns};
        if (!view->is_frozen)
            view->stacks[count->stack].ns += count->cpu_ns;
    }
    return true;
}

bool live_view_add(struct live_view *view, const Sonde__V1__CpuWindow *window) {
    struct window *into = &view->windows[view->next];
    if (!add_strings(view, window) || !add_frames(view, window) || !add_stacks(view, window))
        return false;
    if (!view->goes_on)
        expire(view, into);
    if (!add_counts(view, into, window))
        return false;
    for (size_t i = 0; i < window->n_drops; i++)
        into->dropped += window->drops[i]->count;
    view->goes_on = window->more;
    if (window->more)
        return true;
    into->wall_ns = window->end_unix_ns > window->start_unix_ns
                        ? (uint64_t)(window->end_unix_ns - window->start_unix_ns)
                        : 0;
    into->cpu_ns = window->target_cpu_ns;
    view->merged += window->merged;
    snprintf(view->clock, sizeof view->clock, "%s", window->clock);
    view->next = (view->next + 1) % view->span;
    view->filled += view->filled < view->span;
    return true;
}

struct span_sums live_sums(const struct live_view *view) {
    struct span_sums sums = {.merged = view->merged};
    if (view->is_frozen)
        return view->frozen;
    for (uint32_t i = 0; i < view->filled; i++) {
        sums.wall_ns += view->windows[i].wall_ns;
        sums.cpu_ns += view->windows[i].cpu_ns;
        sums.dropped += view->windows[i].dropped;
    }
    return sums;
}

void live_view_freeze(struct live_view *view, bool is_frozen) {
    view->frozen = live_sums(view);
    view->is_frozen = is_frozen;
    for (uint32_t i = 0; i < view->stack_count && !is_frozen; i++)
        view->stacks[i].ns = 0;
    for (uint32_t i = 0; i < view->span && !is_frozen; i++)
        for (uint32_t j = 0; j < view->windows[i].count; j++)
            view->stacks[view->windows[i].counts[j].stack].ns += view->windows[i].counts[j].ns;
}
