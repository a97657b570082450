/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a function is called from and what it calls, of all stacks together, like pprof's -peek.
 *
 * A name can mean several functions, which count as one. On a stack with recursion the outermost of
 * its frames counts, so that callers add up to the function's total:
 *
 *     main → f → f → g → f → h      one call by main; f, chained, calls g; h belongs to g
 *
 * The root, "all", is a function too: what it calls are the processes of a profile of several. Only
 * its exact name means it. */
#include "api/draw/accuracy.h"
#include "api/draw/names/name_match.h"
#include "api/draw/render.h"
#include "api/draw/short_name.h"
#include "api/draw/tree.h"
#include "api/profile/verdict/interval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_ROWS 20
#define MATCHES      5 /* functions that are listed if several match */
#define PATHS        5
#define PATH_FRAMES  10 /* innermost callers of a path */
#define PATH_NAME    60 /* characters of a name in a path */
#define SUGGESTIONS  4

enum place { OUTSIDE, MATCHED, BELOW };

struct calls {
    const struct draw_tree *tree;
    const struct draw_accuracy *accuracy;
    const char *unit;
    bool *matches;             /* by frame */
    unsigned char *places;     /* enum place, by node */
    int64_t *callers, *called; /* by frame */
    uint32_t *order;           /* frames, or nodes */
    int64_t total, self;       /* of the function */
    uint32_t match_count;
    bool full_names;
};

/* ---- Sums ---- */

static uint32_t root_frame(const struct calls *calls) {
    return draw_tree_node(calls->tree, DRAW_TREE_ROOT)->frame;
}

/* A thread is not a function, and only its exact name means the root. */
static enum draw_fit fit(const struct calls *calls, uint32_t number,
                         const struct draw_typed *typed) {
    const struct draw_frame *frame = draw_tree_frame(calls->tree, number);
    if (number == root_frame(calls))
        return strcmp(typed->name, frame->name) == 0 ? DRAW_FIT_EXACT : DRAW_FIT_NONE;
    return frame->is_thread ? DRAW_FIT_NONE : draw_typed_fit(typed, frame->name);
}

static void forget_matches(struct calls *calls) {
    memset(calls->matches, 0, calls->tree->frames.count * sizeof *calls->matches);
    calls->match_count = 0;
    calls->self = 0;
}

/* Returns how many frames match. */
static uint32_t match(struct calls *calls, const char *name) {
    enum draw_fit best = DRAW_FIT_NONE;
    struct draw_typed typed;
    draw_typed_init(&typed, name);
    for (uint32_t i = 0; i < calls->tree->frames.count; i++) {
        enum draw_fit found = fit(calls, i, &typed);
        if (found > best)
            forget_matches(calls);
        best = found > best ? found : best;
        calls->matches[i] = found && found == best;
        if (!calls->matches[i])
            continue;
        calls->match_count++;
        calls->self = draw_add(calls->self, draw_tree_frame(calls->tree, i)->flat);
    }
    draw_typed_finish(&typed);
    return calls->match_count;
}

static void add_node(struct calls *calls, uint32_t number) {
    const struct draw_node *node = draw_tree_node(calls->tree, number);
    enum place above = calls->places[node->parent];
    uint32_t caller = draw_tree_node(calls->tree, node->parent)->frame;
    bool is_match = calls->matches[node->frame];
    if (above == OUTSIDE && is_match) {
        calls->callers[caller] = draw_add(calls->callers[caller], node->total);
        calls->total = draw_add(calls->total, node->total);
    }
    if (above == MATCHED && !is_match)
        calls->called[node->frame] = draw_add(calls->called[node->frame], node->total);
    calls->places[number] = above == BELOW ? BELOW : is_match ? MATCHED : above ? BELOW : OUTSIDE;
}

static bool is_root(const struct calls *calls) {
    return calls->places[DRAW_TREE_ROOT] == MATCHED;
}

/* Parents have lower numbers than their children. */
static void sum(struct calls *calls) {
    if (calls->matches[root_frame(calls)]) {
        calls->places[DRAW_TREE_ROOT] = MATCHED;
        calls->total = calls->tree->total;
    }
    for (uint32_t i = DRAW_TREE_ROOT + 1; i < calls->tree->nodes.count; i++)
        add_node(calls, i);
}

/* ---- Rows ---- */

/* The interval of a share of the function's own samples. */
static void put_share(const struct calls *calls, int64_t part, int64_t whole,
                      struct sonde_buf *out) {
    const struct verdict_cell *all = &calls->accuracy->whole;
    bool is_sampled = calls->accuracy->is_known && !calls->accuracy->is_memory;
    double share = draw_percent(part, whole) / 100;
    sonde_buf_printf(out, "%6.1f%%", 100 * share);
    if (!is_sampled || all->squares <= 0 || share < 0 || share > 1)
        return;
    double samples = all->value / all->squares * (double)whole;
    double half = 100 * verdict_half_width(verdict_wilson(share, samples, VERDICT_Q95));
    sonde_buf_printf(out, " ±%-4.1f", half);
}

static void put_value(const struct calls *calls, int64_t value, struct sonde_buf *out) {
    struct sonde_buf cell = {0};
    draw_short_value(&cell, value, calls->unit);
    sonde_buf_printf(out, "%10s ", sonde_buf_slice(&cell).data);
    sonde_buf_finish(&cell);
}

static void put_name(const struct calls *calls, const struct draw_frame *frame,
                     struct sonde_buf *out) {
    sonde_buf_printf(out, "  %s", calls->full_names ? frame->name : frame->shown);
    if (frame->module[0])
        sonde_buf_printf(out, "  [%s]", frame->module);
    sonde_buf_putc(out, '\n');
}

struct by_value {
    const struct draw_tree *tree;
    const int64_t *values;
};

static int compare_frames(const void *a, const void *b, void *context) {
    const struct by_value *by = context;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int order = (by->values[x] < by->values[y]) - (by->values[x] > by->values[y]);
    return order ? order
                 : strcmp(draw_tree_frame(by->tree, x)->name, draw_tree_frame(by->tree, y)->name);
}

static void put_row(const struct calls *calls, uint32_t number, int64_t value,
                    struct sonde_buf *out) {
    put_value(calls, value, out);
    put_share(calls, value, calls->total, out);
    if (number == root_frame(calls))
        sonde_buf_puts(out, "  (no caller)\n");
    else
        put_name(calls, draw_tree_frame(calls->tree, number), out);
}

static void put_rows(const struct calls *calls, const int64_t *values, size_t most,
                     struct sonde_buf *out) {
    struct by_value by = {calls->tree, values};
    uint32_t count = 0;
    for (uint32_t i = 0; i < calls->tree->frames.count; i++)
        if (values[i])
            calls->order[count++] = i;
    qsort_r(calls->order, count, sizeof *calls->order, compare_frames, &by);
    for (uint32_t i = 0; i < count && i < most; i++)
        put_row(calls, calls->order[i], values[calls->order[i]], out);
    if (count > most)
        sonde_buf_printf(out, "            %zu more\n", count - most);
    if (count == 0)
        sonde_buf_puts(out, "            none\n");
}

/* ---- Paths ---- */

static int compare_nodes(const void *a, const void *b, void *context) {
    const struct draw_tree *tree = context;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int64_t p = draw_tree_node(tree, x)->total, q = draw_tree_node(tree, y)->total;
    return p != q ? (p < q) - (p > q) : (x > y) - (x < y);
}

static bool is_outermost(const struct calls *calls, uint32_t node) {
    return calls->places[node] == MATCHED && node != DRAW_TREE_ROOT &&
           calls->places[draw_tree_node(calls->tree, node)->parent] == OUTSIDE;
}

static void put_path(const struct calls *calls, uint32_t node, struct sonde_buf *out) {
    uint32_t path[PATH_FRAMES + 1], count = 0;
    const struct draw_tree *tree = calls->tree;
    put_value(calls, draw_tree_node(tree, node)->total, out);
    put_share(calls, draw_tree_node(tree, node)->total, calls->total, out);
    sonde_buf_puts(out, "  ");
    for (; node != DRAW_TREE_ROOT && count <= PATH_FRAMES;
         node = draw_tree_node(tree, node)->parent)
        path[count++] = node;
    if (node != DRAW_TREE_ROOT)
        sonde_buf_puts(out, "... → ");
    while (count-- > 0) {
        if (calls->full_names)
            sonde_buf_puts(out, draw_tree_name(tree, path[count]));
        else
            draw_short_name(out, draw_tree_shown(tree, path[count]), PATH_NAME);
        sonde_buf_puts(out, count ? " → " : "\n");
    }
}

static void put_paths(const struct calls *calls, struct sonde_buf *out) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < calls->tree->nodes.count; i++)
        if (is_outermost(calls, i) && draw_tree_node(calls->tree, i)->total)
            calls->order[count++] = i;
    qsort_r(calls->order, count, sizeof *calls->order, compare_nodes,
            (void *)(uintptr_t)calls->tree);
    sonde_buf_printf(out, "\nHeaviest of %u call paths, outermost function first:\n", count);
    for (uint32_t i = 0; i < count && i < PATHS; i++)
        put_path(calls, calls->order[i], out);
}

/* ---- The document ---- */

static void put_function(const struct calls *calls, struct sonde_buf *out) {
    uint32_t listed = 0;
    for (uint32_t i = 0; i < calls->tree->frames.count && listed < MATCHES; i++) {
        if (!calls->matches[i])
            continue;
        sonde_buf_puts(out, listed++ ? "     and:" : "Function:");
        put_name(calls, draw_tree_frame(calls->tree, i), out);
    }
    if (calls->match_count > listed)
        sonde_buf_printf(out, "     and:  %u more\n", calls->match_count - listed);
    sonde_buf_puts(out, "total   ");
    put_value(calls, calls->total, out);
    put_share(calls, calls->total, calls->tree->total, out);
    sonde_buf_puts(out, " of the profile\nitself  ");
    put_value(calls, calls->self, out);
    put_share(calls, calls->self, calls->tree->total, out);
    sonde_buf_puts(out, " of the profile\n");
}

static void put_all(const struct calls *calls, const struct sonde_draw_options *options,
                    struct sonde_buf *out) {
    size_t most = options->max_rows ? options->max_rows : DEFAULT_ROWS;
    put_function(calls, out);
    if (is_root(calls)) {
        sonde_buf_puts(out, "\nOutermost frames (processes, in a profile of several), with their "
                            "share of the total:\n");
        put_rows(calls, calls->called, most, out);
        return;
    }
    sonde_buf_puts(out, "\nCallers, with their share of the function's total:\n");
    put_rows(calls, calls->callers, most, out);
    sonde_buf_puts(out, "\nCalled functions, with their share of the function's total:\n");
    put_rows(calls, calls->called, most, out);
    put_paths(calls, out);
}

/* The longest text between stars. */
static struct sonde_slice longest_piece(const char *pattern) {
    struct sonde_slice longest = {"", 0};
    for (const char *at = pattern; *at; at += *at == '*') {
        size_t len = strcspn(at, "*");
        if (len > longest.len)
            longest = (struct sonde_slice){at, len};
        at += len;
    }
    return longest;
}

/* Appends functions whose name contains the text; returns their number. */
static uint32_t suggest(const struct calls *calls, const char *text, struct sonde_buf *list) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < calls->tree->frames.count && count < SUGGESTIONS && *text; i++) {
        const struct draw_frame *frame = draw_tree_frame(calls->tree, i);
        if (frame->is_thread || !strcasestr(frame->name, text))
            continue;
        sonde_buf_puts(list, count++ ? ", " : "; similar: ");
        draw_short_name(list, frame->shown, PATH_NAME / 2);
    }
    return count;
}

static sonde_err refuse(const struct calls *calls, const char *function, struct sonde_diag *diag) {
    struct sonde_buf list = {.limit = 160}, pattern = {0}, text = {0};
    draw_name_pattern(&pattern, function);
    struct sonde_slice piece = longest_piece(sonde_buf_slice(&pattern).data);
    sonde_buf_append(&text, piece.data, piece.len);
    uint32_t count = suggest(calls, sonde_buf_slice(&text).data, &list);
    sonde_err err =
        sonde_fail(diag, SONDE_NOT_FOUND, "the profile has no function \"%.80s\"%s", function,
                   count && !list.failed ? list.data : "; * stands for any characters");
    sonde_buf_finish(&list);
    sonde_buf_finish(&pattern);
    sonde_buf_finish(&text);
    return err;
}

sonde_err draw_calls(const struct draw_tree *tree, const struct draw_accuracy *accuracy,
                     const struct sonde_profile *profile, const struct sonde_draw_options *options,
                     struct sonde_buf *out, struct sonde_diag *diag) {
    size_t frames = tree->frames.count + 1, nodes = tree->nodes.count + 1;
    struct calls calls = {.tree = tree,
                          .accuracy = accuracy,
                          .full_names = options->full_names,
                          .unit = sonde_profile_type(profile, options->type_index).unit,
                          .matches = calloc(frames, sizeof(bool)),
                          .places = calloc(nodes, 1),
                          .callers = calloc(frames, sizeof(int64_t)),
                          .called = calloc(frames, sizeof(int64_t)),
                          .order = calloc(frames > nodes ? frames : nodes, sizeof(uint32_t))};
    bool is_complete =
        calls.matches && calls.places && calls.callers && calls.called && calls.order;
    sonde_err err = is_complete ? SONDE_OK : sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    if (!err && match(&calls, options->function) == 0)
        err = refuse(&calls, options->function, diag);
    if (!err) {
        sum(&calls);
        put_all(&calls, options, out);
    }
    free(calls.matches);
    free(calls.places);
    free(calls.callers);
    free(calls.called);
    free(calls.order);
    return err;
}
