/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/live_view.h"

#include "api/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BAR      20
#define MAX_NAME 200

/* A row of the table: a function, code without a name, or a thread. */
struct row {
    char *text;
    uint64_t self_ns, total_ns;
    uint32_t seen; /* number of the last stack counted, + 1 */
};

struct stack {
    uint32_t *rows; /* leaf first */
    uint32_t count, thread;
    uint64_t ns; /* sum over the windows in the span */
};

struct count {
    uint32_t stack;
    uint64_t ns;
};

struct window {
    struct count *counts;
    uint32_t count;
    uint64_t wall_ns, cpu_ns, dropped;
};

struct table {
    struct row *items;
    uint32_t count;
};

struct live_view {
    char **strings;
    uint32_t string_count, frame_count, stack_count;
    uint32_t *string_row, *string_thread; /* row + 1 of the function or thread with this name */
    uint32_t *frame_row;
    struct stack *stacks;
    struct table functions, threads;
    struct window windows[LIVE_MAX_SPAN];
    uint32_t span, next, filled;
    uint64_t merged;
    char clock[32];
    bool goes_on; /* the next message continues the same window */
};

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
    struct stack added = {.count = (uint32_t)stack->n_frames, .thread = UINT32_MAX};
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
    for (uint32_t i = 0; i < window->count; i++)
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

/* ---- The drawing ---- */

/* The rows of a stack, its leaf first. */
static const uint32_t *rows_of(const struct stack *stack, enum live_rows by, uint32_t *count) {
    *count = by == LIVE_THREADS ? stack->thread != UINT32_MAX : stack->count;
    if (by == LIVE_THREADS)
        return &stack->thread;
    uint32_t skipped = by == LIVE_PROCESSES && *count > 0 ? *count - 1 : 0;
    *count -= skipped;
    return stack->rows + skipped;
}

static void count_rows(struct live_view *view, struct table *table, enum live_rows by) {
    for (uint32_t i = 0; i < table->count; i++)
        table->items[i].self_ns = table->items[i].total_ns = table->items[i].seen = 0;
    for (uint32_t i = 0; i < view->stack_count; i++) {
        const struct stack *stack = &view->stacks[i];
        uint32_t count;
        const uint32_t *rows = rows_of(stack, by, &count);
        for (uint32_t j = 0; j < count && stack->ns; j++) {
            struct row *row = &table->items[rows[j]];
            row->self_ns += j == 0 ? stack->ns : 0;
            row->total_ns += row->seen != i + 1 ? stack->ns : 0;
            row->seen = i + 1;
        }
    }
}

static int by_self(const void *a, const void *b) {
    const struct row *x = *(struct row *const *)a, *y = *(struct row *const *)b;
    if (x->self_ns != y->self_ns)
        return x->self_ns > y->self_ns ? -1 : 1;
    return strcmp(x->text, y->text);
}

static int by_total(const void *a, const void *b) {
    const struct row *x = *(struct row *const *)a, *y = *(struct row *const *)b;
    if (x->total_ns != y->total_ns)
        return x->total_ns > y->total_ns ? -1 : 1;
    return by_self(a, b);
}

/* Appends at most `columns` characters. Counts the bytes of one UTF-8 character once, and replaces
 * control characters. */
static void put_text(struct sonde_buf *out, const char *text, unsigned columns) {
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (!sonde_utf8_continues(*text) && columns-- == 0)
            return;
        sonde_buf_putc(out, byte < ' ' || byte == 0x7f ? '?' : (char)byte);
    }
}

static void put_line(struct sonde_buf *out, const char *text, unsigned columns) {
    put_text(out, text, columns);
    sonde_buf_putc(out, '\n');
}

static void put_head(const struct live_view *view, const struct live_options *options,
                     uint64_t all_ns, struct sonde_buf *out) {
    static const char *const names[] = {"function", "thread", "process"};
    uint64_t wall_ns = 0, cpu_ns = 0, dropped = 0;
    char text[200];
    for (uint32_t i = 0; i < view->filled; i++) {
        wall_ns += view->windows[i].wall_ns;
        cpu_ns += view->windows[i].cpu_ns;
        dropped += view->windows[i].dropped;
    }
    if (cpu_ns == 0 && options->is_cpu_time)
        cpu_ns = all_ns;
    snprintf(text, sizeof text,
             "%scpu %.1f %%  last %.1f s  dropped %" PRIu64 "  merged %" PRIu64 "  clock %s",
             options->is_paused ? "PAUSED  " : "",
             wall_ns ? 100.0 * (double)cpu_ns / (double)wall_ns : 0.0, (double)wall_ns / 1e9,
             dropped, view->merged, view->clock[0] ? view->clock : "none");
    put_line(out, text, options->columns);
    snprintf(text, sizeof text, "%7s %7s  %-*s  %s", options->by_total ? "self" : "SELF",
             options->by_total ? "TOTAL" : "total", BAR, "", names[options->by]);
    put_line(out, text, options->columns);
}

static void put_row(const struct row *row, uint64_t all_ns, unsigned columns,
                    struct sonde_buf *out) {
    double self = 100.0 * (double)row->self_ns / (double)all_ns;
    double total = 100.0 * (double)row->total_ns / (double)all_ns;
    char bar[BAR + 1], text[64];
    for (int i = 0; i < BAR; i++)
        bar[i] = i * 100.0 / BAR + 2.5 <= self ? '#' : i * 100.0 / BAR + 2.5 <= total ? '-' : ' ';
    bar[BAR] = 0;
    int len = snprintf(text, sizeof text, "%5.1f %% %5.1f %%  %s  ", self, total, bar);
    put_text(out, text, columns);
    if (columns > (unsigned)len)
        put_text(out, row->text, columns - (unsigned)len);
    sonde_buf_putc(out, '\n');
}

static struct row **choose_rows(struct table *table, const char *filter, uint32_t *count) {
    struct row **rows = malloc((table->count + 1) * sizeof *rows);
    *count = 0;
    for (uint32_t i = 0; rows && i < table->count; i++)
        if (table->items[i].total_ns && (!*filter || strcasestr(table->items[i].text, filter)))
            rows[(*count)++] = &table->items[i];
    return rows;
}

void live_view_draw(struct live_view *view, const struct live_options *options,
                    struct sonde_buf *out) {
    struct table *table = options->by == LIVE_THREADS ? &view->threads : &view->functions;
    uint64_t all_ns = 0;
    uint32_t count;
    for (uint32_t i = 0; i < view->stack_count; i++)
        all_ns += view->stacks[i].ns;
    count_rows(view, table, options->by);
    put_head(view, options, all_ns, out);
    struct row **rows = choose_rows(table, options->filter, &count);
    if (count > 1)
        qsort(rows, count, sizeof *rows, options->by_total ? by_total : by_self);
    for (uint32_t i = 0; i < count && i + 2 < options->rows; i++)
        put_row(rows[i], all_ns, options->columns, out);
    if (count == 0)
        put_line(out, all_ns ? "no matches" : "no samples", options->columns);
    free(rows);
}
