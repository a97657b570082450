/* SPDX-License-Identifier: Apache-2.0
 *
 * Collapsed stacks, which flamegraph.pl and speedscope read: one line per stack, root first, frames
 * separated by ';', the count after the last space. The walk keeps the current path as text and
 * shortens it when it leaves a node. */
#include "api/draw/negatives.h"
#include "api/draw/render.h"
#include "api/draw/tree.h"

#include <stdlib.h>
#include <string.h>

struct collapsed {
    const struct draw_tree *tree;
    struct sonde_buf *out;
    struct sonde_buf path;
    size_t lengths[DRAW_TREE_MAX_DEPTH + 1]; /* of the path, by depth */
};

static void put_name(struct sonde_buf *path, const char *name) {
    size_t start = path->len;
    sonde_buf_puts(path, name);
    for (size_t i = start; i < path->len; i++)
        if (path->data[i] == ';')
            path->data[i] = ':';
}

static void on_node(void *context, uint32_t number) {
    struct collapsed *collapsed = context;
    const struct draw_node *node = draw_tree_node(collapsed->tree, number);
    struct sonde_buf *path = &collapsed->path;
    if (number != DRAW_TREE_ROOT && !path->failed) {
        path->len = collapsed->lengths[node->depth - 1];
        if (path->len)
            sonde_buf_putc(path, ';');
        put_name(path, draw_tree_name(collapsed->tree, number));
    }
    collapsed->lengths[node->depth] = path->len;
    if (node->self == 0)
        return;
    struct sonde_slice text = sonde_buf_slice(path);
    if (text.len == 0)
        text = sonde_slice_of("[no stack]");
    sonde_buf_append(collapsed->out, text.data, text.len);
    sonde_buf_printf(collapsed->out, " %lld\n", (long long)node->self);
}

/* A line that draws nothing. */
static void put_note(const struct sonde_profile *profile, const struct sonde_draw_options *options,
                     struct sonde_buf *out) {
    struct sonde_buf text = {0};
    draw_put_negatives(&text, profile, SONDE_FORMAT_COLLAPSED, options);
    if (text.len)
        sonde_buf_printf(out, "[%s] 0\n", text.data);
    sonde_buf_finish(&text);
}

sonde_err draw_collapsed(const struct sonde_profile *profile,
                         const struct sonde_draw_options *options, struct sonde_buf *out,
                         struct sonde_diag *diag) {
    struct draw_tree_options tree_options = {.type_index = options->type_index,
                                             .base_index = options->type_index,
                                             .merge_threads = !options->split_threads};
    struct collapsed *collapsed = calloc(1, sizeof *collapsed);
    struct draw_tree *tree = NULL;
    if (!collapsed)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    sonde_err err = draw_tree_build(profile, &tree_options, &tree, diag);
    if (!err) {
        size_t before = out->len;
        collapsed->tree = tree;
        collapsed->out = out;
        draw_tree_walk(tree, on_node, NULL, collapsed);
        if (out->len == before)
            sonde_buf_puts(out, "[no samples] 0\n");
        put_note(profile, options, out);
        out->failed |= collapsed->path.failed;
    }
    draw_tree_destroy(tree);
    sonde_buf_finish(&collapsed->path);
    free(collapsed);
    return err;
}
