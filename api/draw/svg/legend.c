/* SPDX-License-Identifier: Apache-2.0
 *
 * The legend: the colours of the modules, the most expensive first. */
#include "api/draw/svg/svg.h"

#include <stdlib.h>
#include <string.h>

struct share {
    const struct draw_frame *frame; /* any frame of the module */
    int64_t flat;
};

static int by_module(const void *a, const void *b) {
    const struct draw_frame *x = ((const struct share *)a)->frame;
    const struct draw_frame *y = ((const struct share *)b)->frame;
    int order = strcmp(x->module, y->module);
    return order ? order : (int)x->kind - (int)y->kind;
}

static int by_flat(const void *a, const void *b) {
    const struct share *x = a, *y = b;
    if (x->flat != y->flat)
        return x->flat > y->flat ? -1 : 1;
    return by_module(a, b);
}

static const char *label(const struct draw_frame *frame) {
    if (frame->module[0])
        return frame->module[0] == '[' && frame->kind == SONDE_FRAME_KERNEL ? "kernel"
                                                                            : frame->module;
    return frame->kind == SONDE_FRAME_KERNEL ? "kernel" : "no module";
}

static size_t sum_up(struct share *shares, size_t count) {
    size_t modules = 0;
    qsort(shares, count, sizeof *shares, by_module);
    for (size_t i = 0; i < count; i++) {
        if (modules && by_module(&shares[modules - 1], &shares[i]) == 0)
            shares[modules - 1].flat = draw_add(shares[modules - 1].flat, shares[i].flat);
        else
            shares[modules++] = shares[i];
    }
    qsort(shares, modules, sizeof *shares, by_flat);
    return modules;
}

sonde_err draw_page_modules(struct draw_page *page, const struct draw_tree *tree,
                            enum sonde_palette palette) {
    struct share *shares = calloc(tree->frames.count + 1, sizeof *shares);
    size_t count = 0;
    if (!shares)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < tree->frames.count; i++) {
        const struct draw_frame *frame = draw_tree_frame(tree, i);
        if (frame->flat > 0 && frame->kind != SONDE_FRAME_NOTE && !frame->is_thread)
            shares[count++] = (struct share){frame, frame->flat};
    }
    count = sum_up(shares, count);
    for (size_t i = 0; i < count && i < DRAW_MAX_KEYS; i++) {
        char colour[3];
        draw_colour(shares[i].frame, palette, colour);
        colour[1] = '0';
        draw_page_key(page, colour, label(shares[i].frame),
                      draw_percent(shares[i].flat, tree->total));
    }
    free(shares);
    return SONDE_OK;
}
