/* SPDX-License-Identifier: Apache-2.0
 *
 * Pyroscope's flame graph: names, and one array of numbers per level of the tree. A node is x,
 * total, self and the index of its name; of a difference it is x, total and self of the base (left)
 * and of the new profile (right), then the name. x is the distance from the end of the node before
 * it on the same level. The children of a node begin after its own value. */
#include "api/draw/render.h"
#include "api/draw/tree.h"
#include "api/profile/event.h"

#include <stdlib.h>
#include <string.h>

/* One profile, or one side of a difference. */
struct side {
    int64_t start[DRAW_TREE_MAX_DEPTH + 2]; /* where the next node of a level begins */
    int64_t end[DRAW_TREE_MAX_DEPTH + 2];   /* of the last node of a level */
    int64_t max_self;
};

struct flamebearer {
    const struct draw_tree *tree;
    struct sonde_buf levels[DRAW_TREE_MAX_DEPTH + 1];
    struct side left, right; /* a single profile is on the right */
    bool is_diff, failed;
};

static void put_node(struct side *side, struct sonde_buf *level, uint32_t depth, int64_t total,
                     int64_t self) {
    int64_t x = side->start[depth];
    sonde_buf_printf(level, "%lld,%lld,%lld,", (long long)(x - side->end[depth]), (long long)total,
                     (long long)self);
    side->start[depth] = side->end[depth] = draw_add(x, total);
    side->start[depth + 1] = draw_add(x, self);
    if (self > side->max_self)
        side->max_self = self;
}

static void on_node(void *context, uint32_t number) {
    struct flamebearer *state = context;
    const struct draw_node *node = draw_tree_node(state->tree, number);
    struct sonde_buf *level = &state->levels[node->depth];
    if (level->len > 0)
        sonde_buf_putc(level, ',');
    if (state->is_diff)
        put_node(&state->left, level, node->depth, node->base,
                 draw_tree_base_self(state->tree, number));
    put_node(&state->right, level, node->depth, node->total, node->self);
    sonde_buf_printf(level, "%u", node->frame);
    state->failed |= level->failed;
}

/* Pyroscope's word for the unit, and how many of it are a second. */
static void put_units(struct sonde_buf *out, const struct sonde_profile *profile,
                      const struct sonde_value_type *type) {
    static const struct {
        const char *unit;
        long long per_second;
    } times[] = {{"nanoseconds", 1000000000},
                 {"microseconds", 1000000},
                 {"milliseconds", 1000},
                 {"seconds", 1}};
    const struct sonde_profile_info *info = sonde_profile_info(profile);
    bool is_memory = sonde_draw_subject(profile) != SONDE_OF_CPU;
    const char *units = strcmp(type->unit, "bytes") == 0                     ? "bytes"
                        : is_memory || sonde_event_counted_words(type->type) ? "objects"
                                                                             : "samples";
    long long rate = 100; /* Pyroscope's default, without meaning for memory */
    if (!is_memory && info->period > 0 && strcmp(info->period_type.unit, "nanoseconds") == 0)
        rate = (1000000000 + info->period / 2) / info->period;
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        if (strcmp(type->unit, times[i].unit) == 0)
            rate = times[i].per_second;
    sonde_buf_printf(out, "\"units\":\"%s\",\"sampleRate\":%lld", units, rate);
}

static void put_levels(struct flamebearer *state, struct sonde_buf *out) {
    const struct draw_tree *tree = state->tree;
    uint32_t root = draw_tree_node(tree, DRAW_TREE_ROOT)->frame;
    sonde_buf_puts(out, "{\"version\":1,\"flamebearer\":{\"names\":[");
    for (uint32_t i = 0; i < tree->frames.count; i++) {
        sonde_buf_puts(out, i ? ",\n" : "\n");
        draw_json(out, i == root ? "total" : draw_tree_frame(tree, i)->name);
    }
    sonde_buf_puts(out, "],\n\"levels\":[");
    for (uint32_t i = 0; i <= DRAW_TREE_MAX_DEPTH && state->levels[i].len > 0; i++) {
        struct sonde_slice level = sonde_buf_slice(&state->levels[i]);
        sonde_buf_puts(out, i ? ",\n[" : "\n[");
        sonde_buf_append(out, level.data, level.len);
        sonde_buf_putc(out, ']');
        sonde_buf_finish(&state->levels[i]);
    }
    sonde_buf_puts(out, "],\n");
}

static void put_document(struct flamebearer *state, const struct sonde_profile *profile,
                         const struct sonde_draw_options *options, struct sonde_buf *out) {
    struct sonde_value_type type = sonde_profile_type(profile, options->type_index);
    long long left = state->tree->base, right = state->tree->total;
    int64_t max_self = state->right.max_self;
    if (state->left.max_self > max_self)
        max_self = state->left.max_self;
    put_levels(state, out);
    sonde_buf_printf(out, "\"numTicks\":%lld,\"maxSelf\":%lld},\n",
                     state->is_diff ? (long long)draw_add(left, right) : right,
                     (long long)max_self);
    sonde_buf_printf(out, "\"metadata\":{\"format\":\"%s\",\"spyName\":\"sonde\",",
                     state->is_diff ? "double" : "single");
    put_units(out, profile, &type);
    sonde_buf_puts(out, ",\"name\":");
    draw_json(out, options->title ? options->title : type.type);
    sonde_buf_puts(out, "},\"timeline\":null");
    if (state->is_diff)
        sonde_buf_printf(out, ",\"leftTicks\":%lld,\"rightTicks\":%lld", left, right);
    sonde_buf_puts(out, "}\n");
}

sonde_err draw_flamebearer(const struct sonde_profile *profile,
                           const struct sonde_draw_options *options, struct sonde_buf *out,
                           struct sonde_diag *diag) {
    bool is_diff = options->palette == SONDE_PALETTE_DIFF;
    struct draw_tree_options tree_options = draw_tree_options(options);
    struct flamebearer *state = calloc(1, sizeof *state);
    struct draw_tree *tree = NULL;
    if (!state)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    for (size_t i = 0; i <= DRAW_TREE_MAX_DEPTH; i++)
        state->levels[i].limit = out->limit;
    sonde_err err = draw_tree_build(profile, &tree_options, &tree, diag);
    if (!err) {
        state->tree = tree;
        state->is_diff = is_diff;
        draw_tree_walk(tree, on_node, NULL, state);
        out->failed |= state->failed;
        put_document(state, profile, options, out);
    }
    for (size_t i = 0; i <= DRAW_TREE_MAX_DEPTH; i++)
        sonde_buf_finish(&state->levels[i]);
    draw_tree_destroy(tree);
    free(state);
    return err;
}
