/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/annotate/arrows.h"

#include <stdio.h>
#include <stdlib.h>

/* What a lane has in a row: bits. */
enum { UP = 1, DOWN = 2, SOURCE = 4, TARGET = 8 };

static uint32_t length(const struct arrow *arrow) {
    return arrow->from > arrow->to ? arrow->from - arrow->to : arrow->to - arrow->from;
}

static int by_length(const void *left, const void *right) {
    uint32_t a = length(left), b = length(right);
    return (a > b) - (a < b);
}

static uint8_t *cell(const struct arrows *arrows, uint32_t row, uint32_t lane) {
    return &arrows->lanes[(uint64_t)row * ARROWS_LANES + lane];
}

/* Each arrow has a lane of its own. */
static bool fits(const struct arrows *arrows, const struct arrow *arrow, uint32_t lane) {
    uint32_t low = arrow->from < arrow->to ? arrow->from : arrow->to;
    for (uint32_t row = low; row <= low + length(arrow); row++)
        if (*cell(arrows, row, lane))
            return false;
    return true;
}

static void draw(struct arrows *arrows, const struct arrow *arrow, uint32_t lane) {
    uint32_t low = arrow->from < arrow->to ? arrow->from : arrow->to, high = low + length(arrow);
    for (uint32_t row = low; row <= high; row++)
        *cell(arrows, row, lane) = (uint8_t)((row > low ? UP : 0) | (row < high ? DOWN : 0));
    *cell(arrows, arrow->from, lane) |= SOURCE;
    *cell(arrows, arrow->to, lane) |= TARGET;
    if (lane + 1 > arrows->lane_count)
        arrows->lane_count = lane + 1;
}

bool arrows_init(struct arrows *arrows, uint32_t row_count, struct arrow *items, uint32_t count) {
    *arrows = (struct arrows){0};
    arrows->lanes = calloc((size_t)row_count + 1, ARROWS_LANES);
    arrows->is_head = calloc((size_t)row_count + 1, sizeof *arrows->is_head);
    if (!arrows->lanes || !arrows->is_head)
        return false;
    qsort(items, count, sizeof *items, by_length);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t lane = 0;
        if (items[i].to <= items[i].from)
            arrows->is_head[items[i].to] = true;
        if (items[i].to == items[i].from) /* a loop of one instruction */
            continue;
        while (lane < ARROWS_LANES && !fits(arrows, &items[i], lane))
            lane++;
        if (lane < ARROWS_LANES)
            draw(arrows, &items[i], lane);
    }
    return true;
}

void arrows_finish(struct arrows *arrows) {
    free(arrows->lanes);
    free(arrows->is_head);
    *arrows = (struct arrows){0};
}

/* The outermost lane is at the left. A horizontal line runs from an arrow's end to the code. */
void arrows_put(const struct arrows *arrows, uint32_t row) {
    uint8_t line = 0;
    for (uint32_t lane = arrows->lane_count; lane > 0; lane--) {
        uint8_t at = *cell(arrows, row, lane - 1);
        if (at & (SOURCE | TARGET))
            fputs(at & UP ? "\u2514" : "\u250c", stdout); /* corners */
        else if (at)
            fputs(line ? "\u253c" : "\u2502", stdout); /* a crossing, or vertical */
        else
            fputs(line ? "\u2500" : " ", stdout);
        line |= at & (SOURCE | TARGET);
    }
    fputs(line & TARGET ? "\u2500>" : line & SOURCE ? "\u2500\u2500" : "  ", stdout);
}
