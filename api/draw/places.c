/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/places.h"

#include <stdlib.h>
#include <string.h>

struct counting {
    const struct draw_tree *tree;
    struct draw_place *places;
    uint32_t *touched; /* frames of the process that is counted */
    uint32_t touched_count, process;
};

/* Ends a process. */
static void settle(struct counting *counting) {
    for (uint32_t i = 0; i < counting->touched_count; i++) {
        struct draw_place *place = &counting->places[counting->touched[i]];
        if (place->count == 0 || place->now > place->most) {
            place->most = place->now;
            place->process = counting->process;
        }
        place->count++;
        place->now = 0;
    }
    counting->touched_count = 0;
}

/* What a function spends itself decides, and otherwise what it calls. */
static void on_enter(void *context, uint32_t number) {
    struct counting *counting = context;
    const struct draw_node *node = draw_tree_node(counting->tree, number);
    struct draw_place *place = &counting->places[node->frame];
    if (node->depth == 1) {
        settle(counting);
        counting->process = node->frame;
        return;
    }
    if (node->depth == 0 || node->total <= 0)
        return;
    if (place->now == 0)
        counting->touched[counting->touched_count++] = node->frame;
    place->now = draw_add(place->now, node->self > 0 ? node->self : 1);
}

struct draw_place *draw_places(const struct draw_tree *tree) {
    size_t count = tree->frames.count + 1;
    struct counting counting = {.tree = tree,
                                .places = calloc(count, sizeof *counting.places),
                                .touched = calloc(count, sizeof *counting.touched)};
    for (size_t i = 0; counting.places && i < count; i++)
        counting.places[i].process = PROFILE_TABLE_NONE;
    if (counting.places && counting.touched) {
        draw_tree_walk(tree, on_enter, NULL, &counting);
        settle(&counting);
    } else {
        free(counting.places);
        counting.places = NULL;
    }
    free(counting.touched);
    return counting.places;
}

void draw_put_process(struct sonde_buf *out, const struct draw_tree *tree,
                      const struct draw_place *place) {
    if (place->process == PROFILE_TABLE_NONE)
        return;
    const char *name = draw_tree_frame(tree, place->process)->name, *pid = strstr(name, " (pid ");
    sonde_buf_append(out, name, pid ? (size_t)(pid - name) : strlen(name));
}
