/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows for Grafana's flame graph panel, for example through the Infinity data source: level, value,
 * self and label of every node, depth first. Of a difference, value and self are those of the base,
 * and valueRight and selfRight the new ones. */
#include "api/draw/render.h"
#include "api/draw/tree.h"

struct grafana {
    const struct draw_tree *tree;
    struct sonde_buf *out;
    bool is_diff;
};

static void on_node(void *context, uint32_t number) {
    struct grafana *state = context;
    const struct draw_node *node = draw_tree_node(state->tree, number);
    struct sonde_buf *out = state->out;
    bool is_root = number == DRAW_TREE_ROOT;
    int64_t base_self = state->is_diff ? draw_tree_base_self(state->tree, number) : 0;
    sonde_buf_printf(out, "%s{\"level\":%u,\"value\":%lld,\"self\":%lld,", is_root ? "[" : ",\n",
                     node->depth, (long long)(state->is_diff ? node->base : node->total),
                     (long long)(state->is_diff ? base_self : node->self));
    if (state->is_diff)
        sonde_buf_printf(out, "\"valueRight\":%lld,\"selfRight\":%lld,", (long long)node->total,
                         (long long)node->self);
    sonde_buf_puts(out, "\"label\":");
    draw_json(out, is_root ? "total" : draw_tree_name(state->tree, number));
    sonde_buf_putc(out, '}');
}

sonde_err draw_grafana(const struct sonde_profile *profile,
                       const struct sonde_draw_options *options, struct sonde_buf *out,
                       struct sonde_diag *diag) {
    bool is_diff = options->palette == SONDE_PALETTE_DIFF;
    struct draw_tree_options tree_options = draw_tree_options(options);
    struct draw_tree *tree;
    sonde_err err = draw_tree_build(profile, &tree_options, &tree, diag);
    if (err)
        return err;
    struct grafana state = {tree, out, is_diff};
    draw_tree_walk(tree, on_node, NULL, &state);
    sonde_buf_puts(out, "]\n");
    draw_tree_destroy(tree);
    return SONDE_OK;
}
