/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/compare/evidence.h"

#include <stdlib.h>
#include <string.h>

static void add(struct verdict_cell *into, const struct verdict_cell *from, size_t count) {
    for (size_t i = 0; i < count; i++)
        verdict_cell_add(&into[i], &from[i]);
}

static void add_totals(struct draw_evidence *evidence) {
    size_t blocks = evidence->blocks, nodes = evidence->tree->nodes.count;
    memcpy(evidence->total, evidence->self, nodes * blocks * sizeof *evidence->total);
    for (size_t i = nodes - 1; i > DRAW_TREE_ROOT; i--) {
        uint32_t parent = draw_tree_node(evidence->tree, (uint32_t)i)->parent;
        add(&evidence->total[parent * blocks], &evidence->total[i * blocks], blocks);
    }
}

static void set_sides(struct draw_evidence *evidence, const struct sonde_blocks *blocks) {
    size_t first = 0;
    for (int i = 0; i < 2; i++) {
        evidence->sides[i] =
            (struct verdict_side){.block_count = blocks->counts[i],
                                  .totals = &evidence->total[DRAW_TREE_ROOT + first],
                                  .exposures = blocks->exposures ? &blocks->exposures[first] : NULL,
                                  .is_counted = blocks->is_counted};
        first += blocks->counts[i];
    }
}

sonde_err draw_evidence_init(struct draw_evidence *evidence, const struct draw_tree *tree,
                             const uint32_t *leaves, const struct sonde_blocks *blocks) {
    *evidence =
        (struct draw_evidence){.tree = tree, .blocks = blocks->counts[0] + blocks->counts[1]};
    size_t cells = tree->nodes.count * evidence->blocks;
    if (cells > DRAW_EVIDENCE_MAX_CELLS)
        return SONDE_TOO_LARGE;
    evidence->self = calloc(cells + 1, sizeof *evidence->self);
    evidence->total = calloc(cells + 1, sizeof *evidence->total);
    if (!evidence->self || !evidence->total)
        return SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < blocks->value_count; i++) {
        const struct sonde_block_value *value = &blocks->values[i];
        size_t leaf = leaves[value->sample];
        add(&evidence->self[leaf * evidence->blocks + value->block], &value->cell, 1);
    }
    add_totals(evidence);
    set_sides(evidence, blocks);
    return SONDE_OK;
}

void draw_evidence_finish(struct draw_evidence *evidence) {
    free(evidence->self);
    free(evidence->total);
    *evidence = (struct draw_evidence){0};
}

void draw_evidence_change(const struct draw_evidence *evidence, const struct verdict_cell *cells,
                          uint32_t number, enum verdict_measure measure, double confidence,
                          struct verdict_change *change) {
    const struct verdict_cell *base = &cells[number * evidence->blocks];
    const struct verdict_cell *both[] = {base, base + evidence->sides[0].block_count};
    verdict_change(evidence->sides, both, measure, confidence, change);
}

sonde_err draw_evidence_nodes(const struct draw_evidence *evidence, enum verdict_measure measure,
                              double confidence, struct verdict_change **changes) {
    uint32_t count = evidence->tree->nodes.count;
    *changes = calloc(count + 1, sizeof **changes);
    if (!*changes)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        draw_evidence_change(evidence, evidence->total, i, measure, confidence, &(*changes)[i]);
    return verdict_judge(*changes, count, confidence);
}

struct sums {
    const struct draw_evidence *evidence;
    struct verdict_cell *self, *total; /* by frame */
    uint32_t *on_path;                 /* by frame: how often it is on the path from the root */
};

static void on_enter(void *context, uint32_t number) {
    struct sums *sums = context;
    size_t blocks = sums->evidence->blocks;
    size_t frame = draw_tree_node(sums->evidence->tree, number)->frame;
    add(&sums->self[frame * blocks], &sums->evidence->self[number * blocks], blocks);
    if (sums->on_path[frame]++ == 0)
        add(&sums->total[frame * blocks], &sums->evidence->total[number * blocks], blocks);
}

static void on_leave(void *context, uint32_t number) {
    struct sums *sums = context;
    sums->on_path[draw_tree_node(sums->evidence->tree, number)->frame]--;
}

sonde_err draw_evidence_frames(const struct draw_evidence *evidence, struct verdict_cell **self,
                               struct verdict_cell **total) {
    size_t frames = evidence->tree->frames.count, cells = frames * evidence->blocks;
    struct sums sums = {.evidence = evidence,
                        .self = calloc(cells + 1, sizeof **self),
                        .total = calloc(cells + 1, sizeof **total),
                        .on_path = calloc(frames + 1, sizeof(uint32_t))};
    bool has_memory = sums.self && sums.total && sums.on_path;
    *self = sums.self;
    *total = sums.total;
    if (has_memory)
        draw_tree_walk(evidence->tree, on_enter, on_leave, &sums);
    free(sums.on_path);
    return has_memory ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}
