/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/cli.h"
#include "clients/cli/verbs/annotate/print.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CONTEXT   2  /* lines before and after one with samples */
#define MAX_DEPTH 16 /* of inlined calls */

struct lines {
    const struct view *view;
    const struct print_options *options;
    uint32_t *order;        /* places by parent, function, file and line */
    uint32_t *instructions; /* those with samples, by place and address */
    uint32_t instruction_count;
};

/* ---- orders ---- */

static int compare(uint64_t left, uint64_t right) {
    return (left > right) - (left < right);
}

static int by_parent(const void *left, const void *right, void *context) {
    const struct view_place *places = context;
    const struct view_place *a = &places[*(const uint32_t *)left];
    const struct view_place *b = &places[*(const uint32_t *)right];
    if (a->parent != b->parent)
        return compare(a->parent, b->parent);
    int order = strcmp(a->function, b->function);
    if (order == 0)
        order = strcmp(a->file, b->file);
    return order ? order : compare(a->line, b->line);
}

static int by_place(const void *left, const void *right, void *context) {
    const struct view_instruction *all = context;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return all[a].place != all[b].place ? compare(all[a].place, all[b].place) : compare(a, b);
}

static sonde_err sort(struct lines *lines) {
    const struct view *view = lines->view;
    lines->order = calloc(view->place_count + 1, sizeof *lines->order);
    lines->instructions = calloc(view->instruction_count + 1, sizeof *lines->instructions);
    if (!lines->order || !lines->instructions)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < view->place_count; i++)
        lines->order[i] = i;
    for (uint32_t i = 0; i < view->instruction_count; i++)
        if (print_has_counts(view->instructions[i].counts))
            lines->instructions[lines->instruction_count++] = i;
    qsort_r(lines->order, view->place_count, sizeof *lines->order, by_parent, view->places);
    qsort_r(lines->instructions, lines->instruction_count, sizeof *lines->instructions, by_place,
            view->instructions);
    return SONDE_OK;
}

/* The first place in order whose parent is at least that one. */
static uint32_t first_child(const struct lines *lines, uint32_t parent) {
    uint32_t low = 0, high = lines->view->place_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (lines->view->places[lines->order[middle]].parent < parent)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- rows ---- */

static void put_indent(uint32_t depth) {
    for (uint32_t i = 0; i < depth; i++)
        fputs("  | ", stdout);
}

static void put_text(const struct lines *lines, const char *file, uint32_t line) {
    const char *text = source_text_line(lines->options->texts, file, line);
    if (text)
        print_source(text);
    else if (line > 0)
        printf("%s:%u", print_base_name(file), line);
}

static void put_line(const struct lines *lines, const struct view_counts *counts, const char *file,
                     uint32_t line, uint32_t depth) {
    print_columns(lines->view, counts);
    if (line > 0)
        printf(" %6u  ", line);
    else
        printf(" %6s  ", "?");
    put_indent(depth);
    put_text(lines, file, line);
    putchar('\n');
}

static void put_instructions(const struct lines *lines, uint32_t place, uint32_t depth) {
    uint32_t low = 0, high = lines->instruction_count;
    const struct view_instruction *all = lines->view->instructions;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (all[lines->instructions[middle]].place < place)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < lines->instruction_count && all[lines->instructions[low]].place == place; low++) {
        const struct view_instruction *item = &all[lines->instructions[low]];
        print_columns(lines->view, item->counts);
        printf(" %6s  ", "");
        put_indent(depth);
        printf("    %" PRIx64 ":  ", item->code->address);
        cli_put_text(stdout, item->code->text);
        print_target(lines->view, item->code);
        putchar('\n');
    }
}

static void put_inlined(const struct lines *lines, uint32_t parent, uint32_t depth) {
    const struct view *view = lines->view;
    const struct view_place *before = NULL;
    put_instructions(lines, parent, depth);
    for (uint32_t i = first_child(lines, parent); i < view->place_count && depth < MAX_DEPTH; i++) {
        const struct view_place *place = &view->places[lines->order[i]];
        if (place->parent != parent)
            break;
        if (!print_has_counts(place->counts))
            continue;
        if (!before || strcmp(before->function, place->function) != 0 ||
            strcmp(before->file, place->file) != 0) {
            print_columns(view, NULL);
            printf(" %6s  ", "");
            put_indent(depth);
            fputs("  inlined: ", stdout);
            print_function(stdout, place->function);
            printf(*place->file ? " (%s)\n" : "\n", print_base_name(place->file));
        }
        before = place;
        put_line(lines, place->counts, place->file, place->line, depth + 1);
        put_inlined(lines, lines->order[i], depth + 1);
    }
}

/* The lines between two that are shown: all, or the nearest to each. */
static void put_between(const struct lines *lines, const char *file, uint32_t after,
                        uint32_t before) {
    bool is_short = before - after <= 2 * CONTEXT + 2;
    for (uint32_t line = after + 1; line < before; line++) {
        bool near = line - after <= CONTEXT || before - line <= CONTEXT;
        if (!lines->options->all && !near && !is_short) {
            puts("   ...");
            line = before - CONTEXT - 1;
        } else if (source_text_line(lines->options->texts, file, line)) {
            put_line(lines, NULL, file, line, 0);
        }
    }
}

static void put_around(const struct lines *lines, const char *file, uint32_t line, bool before) {
    for (uint32_t i = 0; i < CONTEXT; i++) {
        uint32_t at = before ? line + i : line + i + 1;
        if (before && at < CONTEXT + 1)
            continue;
        at = before ? at - CONTEXT : at;
        if (source_text_line(lines->options->texts, file, at))
            put_line(lines, NULL, file, at, 0);
    }
}

static bool is_shown(const struct lines *lines, const struct view_place *place) {
    return lines->options->all || print_has_counts(place->counts);
}

static void put_roots(const struct lines *lines) {
    const struct view *view = lines->view;
    const struct view_place *before = NULL;
    for (uint32_t i = first_child(lines, VIEW_NONE); i < view->place_count; i++) {
        const struct view_place *place = &view->places[lines->order[i]];
        if (!is_shown(lines, place))
            continue;
        bool same = before && strcmp(before->file, place->file) == 0;
        if (before && !same)
            put_around(lines, before->file, before->line, false);
        if (!same && *place->file)
            printf("%s%s:\n", before ? "\n" : "", place->file);
        if (!same)
            put_around(lines, place->file, place->line, true);
        else
            put_between(lines, place->file, before->line, place->line);
        put_line(lines, place->counts, place->file, place->line, 0);
        put_inlined(lines, lines->order[i], 0);
        before = place;
    }
    if (before)
        put_around(lines, before->file, before->line, false);
}

sonde_err print_lines(const struct view *view, const struct print_options *options) {
    struct lines lines = {.view = view, .options = options};
    sonde_err err = sort(&lines);
    if (!err) {
        print_columns_header(view);
        printf(" %6s\n", "LINE");
        put_roots(&lines);
    }
    free(lines.order);
    free(lines.instructions);
    return err;
}
