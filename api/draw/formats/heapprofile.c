/* SPDX-License-Identifier: Apache-2.0
 *
 * Chrome's sampling heap profile, which DevTools and speedscope read: the call tree as nested JSON
 * objects with the bytes allocated at each node, then one sample per node that has any. */
#include "api/draw/render.h"
#include "api/draw/tree.h"
#include "api/profile/heap/memory.h"

struct heapprofile {
    const struct draw_tree *tree;
    struct sonde_buf *out;
};

static void on_enter(void *context, uint32_t number) {
    struct heapprofile *state = context;
    const struct draw_node *node = draw_tree_node(state->tree, number);
    const struct draw_frame *frame = draw_tree_frame(state->tree, node->frame);
    struct sonde_buf *out = state->out;
    bool is_root = number == DRAW_TREE_ROOT;
    if (!is_root && draw_tree_node(state->tree, node->parent)->first_child != number)
        sonde_buf_puts(out, ",\n");
    sonde_buf_puts(out, "{\"callFrame\":{\"functionName\":");
    draw_json(out, is_root ? "(root)" : frame->name);
    sonde_buf_puts(out, ",\"scriptId\":\"0\",\"url\":");
    draw_json(out, frame->module);
    sonde_buf_printf(out,
                     ",\"lineNumber\":-1,\"columnNumber\":-1},\"selfSize\":%lld,\"id\":%u,"
                     "\"children\":[",
                     (long long)node->self, number + 1);
}

static void on_leave(void *context, uint32_t number) {
    struct heapprofile *state = context;
    sonde_buf_puts(state->out, "]}");
}

static void put_samples(const struct draw_tree *tree, struct sonde_buf *out) {
    uint32_t ordinal = 0;
    for (uint32_t i = 0; i < tree->nodes.count && !out->failed; i++) {
        const struct draw_node *node = draw_tree_node(tree, i);
        if (node->self == 0)
            continue;
        ordinal++;
        sonde_buf_printf(out, "%s\n{\"size\":%lld,\"nodeId\":%u,\"ordinal\":%u}",
                         ordinal > 1 ? "," : "", (long long)node->self, i + 1, ordinal);
    }
}

sonde_err draw_heapprofile(const struct sonde_profile *profile,
                           const struct sonde_draw_options *options, struct sonde_buf *out,
                           struct sonde_diag *diag) {
    struct sonde_memory_pair pair;
    struct draw_tree *tree;
    if (!sonde_memory_pair(profile, options->type_index, &pair))
        return sonde_fail(diag, SONDE_INTERNAL, "not a memory profile");
    struct draw_tree_options tree_options = {.type_index = pair.space,
                                             .base_index = pair.space,
                                             .merge_threads = !options->split_threads,
                                             .no_negatives = true};
    sonde_err err = draw_tree_build(profile, &tree_options, &tree, diag);
    if (err)
        return err;
    struct heapprofile state = {tree, out};
    sonde_buf_puts(out, "{\"head\":");
    draw_tree_walk(tree, on_enter, on_leave, &state);
    sonde_buf_puts(out, ",\n\"samples\":[");
    put_samples(tree, out);
    sonde_buf_puts(out, "]}\n");
    draw_tree_destroy(tree);
    return SONDE_OK;
}
