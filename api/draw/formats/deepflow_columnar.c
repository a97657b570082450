/* SPDX-License-Identifier: Apache-2.0
 *
 * DeepFlow's newer result: the tree as columns. Functions are numbered in the order in which a walk
 * from the root meets them, so the root is function 0. Nodes are rows in the order of that walk. */
#include "api/draw/formats/deepflow.h"
#include "api/draw/render.h"

#include <stdlib.h>
#include <string.h>

#define COLUMNS "{\"columns\":["

struct columns {
    struct draw_tree *tree;
    struct sonde_buf *out;
    uint32_t *functions; /* by frame: its function's number + 1 */
    uint32_t *order;     /* by function: its frame */
    uint32_t *rows;      /* by node: its row */
    uint32_t function_count, row_count;
    bool is_memory;
};

static bool begins(const char *name, const char *start) {
    return strncmp(name, start, strlen(start)) == 0;
}

/* H host, P process, T thread, K kernel, C CUDA, L library, O allocated object, A application; and
 * ? for other names in brackets. */
static char function_type(const struct columns *columns, uint32_t function) {
    static const struct {
        const char *prefix;
        char type;
    } prefixes[] = {{DEEPFLOW_PROCESS, 'P'}, {DEEPFLOW_THREAD, 'T'},  {DEEPFLOW_KERNEL, 'K'},
                    {"[c] ", 'C'},           {DEEPFLOW_LIBRARY, 'L'}, {"[", '?'}};
    const struct draw_frame *frame = draw_tree_frame(columns->tree, columns->order[function]);
    if (function == 0)
        return strcmp(frame->name, "Total") == 0 ? 'H' : 'P';
    char type = 'A';
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes && type == 'A'; i++)
        if (begins(frame->name, prefixes[i].prefix))
            type = prefixes[i].type;
    bool is_code = type == 'A' || type == 'L' || type == '?';
    return columns->is_memory && is_code && frame->flat == frame->cum ? 'O' : type;
}

static void on_number(void *context, uint32_t number) {
    struct columns *columns = context;
    uint32_t frame = draw_tree_node(columns->tree, number)->frame;
    columns->rows[number] = columns->row_count++;
    if (columns->functions[frame])
        return;
    columns->order[columns->function_count++] = frame;
    columns->functions[frame] = columns->function_count;
}

static void on_row(void *context, uint32_t number) {
    struct columns *columns = context;
    const struct draw_node *node = draw_tree_node(columns->tree, number);
    long long parent = number == DRAW_TREE_ROOT ? -1 : (long long)columns->rows[node->parent];
    sonde_buf_printf(columns->out, "%s[%u,%lld,%lld,%lld]", number == DRAW_TREE_ROOT ? "" : ",\n",
                     columns->functions[node->frame] - 1, parent, (long long)node->self,
                     (long long)node->total);
}

static void put_functions(const struct columns *columns) {
    struct sonde_buf *out = columns->out;
    sonde_buf_puts(out, "{\"functions\":[");
    for (uint32_t i = 0; i < columns->function_count; i++) {
        sonde_buf_puts(out, i ? ",\n" : "");
        draw_json(out, draw_tree_frame(columns->tree, columns->order[i])->name);
    }
    sonde_buf_puts(out, "],\n\"function_types\":[");
    for (uint32_t i = 0; i < columns->function_count; i++)
        sonde_buf_printf(out, "%s\"%c\"", i ? "," : "", function_type(columns, i));
    sonde_buf_puts(out, "],\n\"function_values\":" COLUMNS "\"self_value\",\"total_value\"],"
                        "\n\"values\":[");
    for (uint32_t i = 0; i < columns->function_count; i++) {
        const struct draw_frame *frame = draw_tree_frame(columns->tree, columns->order[i]);
        sonde_buf_printf(out, "%s[%lld,%lld]", i ? "," : "", (long long)frame->flat,
                         (long long)frame->cum);
    }
}

static void put_columns(struct columns *columns) {
    bool is_empty = columns->tree->total == 0;
    if (!is_empty)
        draw_tree_walk(columns->tree, on_number, NULL, columns);
    put_functions(columns);
    sonde_buf_puts(columns->out, "]},\n\"node_values\":" COLUMNS
                                 "\"function_id\",\"parent_node_id\",\"self_value\","
                                 "\"total_value\"],\n\"values\":[");
    if (!is_empty)
        draw_tree_walk(columns->tree, on_row, NULL, columns);
    sonde_buf_puts(columns->out, "]}}");
}

sonde_err draw_deepflow_columnar(const struct sonde_profile *profile,
                                 const struct sonde_draw_options *options, struct sonde_buf *out,
                                 struct sonde_diag *diag) {
    struct columns columns = {.out = out, .is_memory = deepflow_is_memory(profile, options)};
    sonde_err err = deepflow_tree_build(profile, options, &columns.tree, diag);
    if (err)
        return err;
    columns.functions = calloc(columns.tree->frames.count + 1, sizeof *columns.functions);
    columns.order = calloc(columns.tree->frames.count + 1, sizeof *columns.order);
    columns.rows = calloc(columns.tree->nodes.count + 1, sizeof *columns.rows);
    if (!columns.functions || !columns.order || !columns.rows)
        err = SONDE_OUT_OF_MEMORY;
    if (!err)
        err = draw_tree_sum(columns.tree);
    if (!err)
        put_columns(&columns);
    free(columns.functions);
    free(columns.order);
    free(columns.rows);
    draw_tree_destroy(columns.tree);
    return err ? sonde_fail(diag, err, "out of memory") : SONDE_OK;
}
