/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of `go tool pprof -top`: the value of each function itself (flat) and with its callees
 * (cum). */
#include "api/draw/memory.h"
#include "api/draw/render.h"
#include "api/draw/tree.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DURATION_UNIT "nanoseconds"

static int64_t magnitude(int64_t value) {
    return value < 0 ? -(value + 1) : value;
}

static int compare_frames(const void *a, const void *b, void *context) {
    const struct draw_tree *tree = context;
    const struct draw_frame *x = draw_tree_frame(tree, *(const uint32_t *)a);
    const struct draw_frame *y = draw_tree_frame(tree, *(const uint32_t *)b);
    if (magnitude(x->flat) != magnitude(y->flat))
        return magnitude(x->flat) > magnitude(y->flat) ? -1 : 1;
    if (magnitude(x->cum) != magnitude(y->cum))
        return magnitude(x->cum) > magnitude(y->cum) ? -1 : 1;
    int order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->module, y->module);
}

static void put_time(struct sonde_buf *out, int64_t unix_ns) {
    time_t seconds = (time_t)(unix_ns / 1000000000);
    struct tm parts;
    char text[40];
    if (unix_ns > 0 && gmtime_r(&seconds, &parts) &&
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts))
        sonde_buf_printf(out, "Time: %s\n", text);
}

static void put_header(const struct sonde_profile *profile, size_t type_index, int64_t total,
                       struct sonde_buf *out) {
    const struct sonde_profile_info *info = sonde_profile_info(profile);
    struct sonde_value_type type = sonde_profile_type(profile, type_index);
    const struct sonde_mapping *mapping = sonde_profile_mapping(profile, 1);
    const char *file = mapping ? sonde_profile_text(profile, mapping->filename) : "";
    const char *slash = strrchr(file, '/');
    if (file[0])
        sonde_buf_printf(out, "File: %s\n", slash ? slash + 1 : file);
    sonde_buf_printf(out, "Type: %s\n", type.type);
    put_time(out, info->time_unix_ns);
    if (info->duration_ns > 0) {
        sonde_buf_puts(out, "Duration: ");
        draw_short_value(out, info->duration_ns, DURATION_UNIT);
        sonde_buf_puts(out, ", Total samples = ");
        draw_short_value(out, total, type.unit);
        if (strcmp(type.unit, DURATION_UNIT) == 0)
            sonde_buf_printf(out, " (%.2f%%)", draw_percent(total, info->duration_ns));
        sonde_buf_putc(out, '\n');
    }
    struct sonde_buf estimate = {0};
    draw_memory_estimate(profile, type_index, &estimate);
    if (estimate.len)
        sonde_buf_printf(out, "# %s\n", estimate.data);
    sonde_buf_finish(&estimate);
    for (size_t i = 0; i < sonde_profile_comment_count(profile); i++)
        sonde_buf_printf(out, "# %s\n", sonde_profile_comment(profile, i));
}

static void put_cell(struct sonde_buf *out, int64_t value, const struct draw_unit *unit) {
    struct sonde_buf cell = {0};
    draw_in_unit(&cell, value, unit);
    sonde_buf_printf(out, "%10s", sonde_buf_slice(&cell).data);
    sonde_buf_finish(&cell);
}

static int64_t absolute(int64_t value) {
    return value == INT64_MIN ? INT64_MAX : value < 0 ? -value : value;
}

/* One unit for the whole table, like pprof. */
static struct draw_unit choose_unit(const struct draw_tree *tree, const uint32_t *order,
                                    uint32_t count, const char *unit) {
    int64_t smallest = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct draw_frame *frame = draw_tree_frame(tree, order[i]);
        int64_t value = absolute(frame->flat ? frame->flat : frame->cum);
        if (value && (!smallest || value < smallest))
            smallest = value;
    }
    return draw_column_unit(smallest, absolute(tree->total), unit);
}

static void put_rows(const struct draw_tree *tree, const uint32_t *order, uint32_t count,
                     const char *type_unit, struct sonde_buf *out) {
    struct draw_unit unit = choose_unit(tree, order, count, type_unit);
    int64_t sum = 0;
    sonde_buf_puts(out, "      flat   flat%    sum%        cum    cum%  name\n");
    for (uint32_t i = 0; i < count; i++) {
        const struct draw_frame *frame = draw_tree_frame(tree, order[i]);
        sum = draw_add(sum, frame->flat);
        put_cell(out, frame->flat, &unit);
        sonde_buf_printf(out, " %6.2f%% %6.2f%% ", draw_percent(frame->flat, tree->total),
                         draw_percent(sum, tree->total));
        put_cell(out, frame->cum, &unit);
        sonde_buf_printf(out, " %6.2f%%  %s\n", draw_percent(frame->cum, tree->total), frame->name);
    }
}

/* Lists every frame that has a value, without the root. */
static sonde_err put_table(struct draw_tree *tree, const struct sonde_profile *profile,
                           size_t type_index, struct sonde_buf *out) {
    uint32_t root = draw_tree_node(tree, DRAW_TREE_ROOT)->frame, count = 0;
    uint32_t *order = calloc(tree->frames.count + 1, sizeof *order);
    if (!order || draw_tree_sum(tree) != SONDE_OK) {
        free(order);
        return SONDE_OUT_OF_MEMORY;
    }
    for (uint32_t i = 0; i < tree->frames.count; i++)
        if (i != root && (draw_tree_frame(tree, i)->flat || draw_tree_frame(tree, i)->cum))
            order[count++] = i;
    qsort_r(order, count, sizeof *order, compare_frames, tree);
    put_header(profile, type_index, tree->total, out);
    if (count == 0)
        sonde_buf_puts(out, "no samples\n");
    else
        put_rows(tree, order, count, sonde_profile_type(profile, type_index).unit, out);
    free(order);
    return SONDE_OK;
}

sonde_err draw_top(const struct sonde_profile *profile, const struct sonde_draw_options *options,
                   struct sonde_buf *out, struct sonde_diag *diag) {
    struct draw_tree_options tree_options = {.type_index = options->type_index,
                                             .base_index = options->type_index,
                                             .merge_threads = true};
    struct draw_tree *tree;
    sonde_err err = draw_tree_build(profile, &tree_options, &tree, diag);
    if (err)
        return err;
    err = put_table(tree, profile, options->type_index, out);
    draw_tree_destroy(tree);
    return err ? sonde_fail(diag, err, "out of memory") : SONDE_OK;
}
