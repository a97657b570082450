/* SPDX-License-Identifier: Apache-2.0
 *
 * QueryTree: a call tree as columns, in messages of bounded size. */
#include "api/profile/diff/diff.h"
#include "service/rpc/base/text.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/history/selection.h"
#include "service/rpc/history/trim.h"
#include "service/rpc/request/params.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_NODES 65536
#define MAX_NODES     (8u << 20)
#define MESSAGE_BYTES (480u << 10) /* below the limit by what the first message has on top */
#define PART_NODES    8192u
#define NODE_BYTES    51u /* of one node in all columns, at most */
#define TEXT_BYTES    6u  /* of a text's header, at most */

struct sending {
    struct history_query *query;
    const struct draw_tree *tree;
    const struct trimmed_tree *trimmed;
    uint32_t *functions; /* by frame: index in `functions` + 1 */
    uint32_t function_count, other;
    bool has_base;
    /* The message that is being filled. */
    Sonde__V1__Tree part;
    size_t bytes;
};

static sonde_err part_init(struct sending *sending) {
    struct sonde_arena *arena = &sending->query->arena;
    Sonde__V1__Tree *part = &sending->part;
    sonde__v1__tree__init(part);
    part->functions = sonde_arena_alloc(arena, PART_NODES * sizeof *part->functions);
    part->function = sonde_arena_alloc(arena, PART_NODES * sizeof *part->function);
    part->parent = sonde_arena_alloc(arena, PART_NODES * sizeof *part->parent);
    part->self = sonde_arena_alloc(arena, PART_NODES * sizeof *part->self);
    part->total = sonde_arena_alloc(arena, PART_NODES * sizeof *part->total);
    part->base_self = sonde_arena_alloc(arena, PART_NODES * sizeof *part->base_self);
    part->base_total = sonde_arena_alloc(arena, PART_NODES * sizeof *part->base_total);
    part->kind = sonde_arena_alloc(arena, PART_NODES * sizeof *part->kind);
    bool is_whole = part->functions && part->function && part->parent && part->self &&
                    part->total && part->base_self && part->base_total && part->kind;
    return is_whole ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

/* Sends the part and starts an empty one in the same memory. */
static sonde_err part_end(struct sending *sending) {
    Sonde__V1__Tree *part = &sending->part;
    sonde_err err = rpc_document_add(&sending->query->document, &part->base);
    part->n_functions = part->n_function = part->n_parent = part->n_self = part->n_total = 0;
    part->n_base_self = part->n_base_total = part->n_kind = 0;
    part->unit = (char *)protobuf_c_empty_string;
    part->completeness = NULL;
    sending->bytes = 0;
    return err;
}

static uint32_t function_of(struct sending *sending, uint32_t *known, const char *name) {
    Sonde__V1__Tree *part = &sending->part;
    if (*known)
        return *known - 1;
    part->functions[part->n_functions++] = (char *)rpc_text(&sending->query->arena, name);
    sending->bytes += strlen(part->functions[part->n_functions - 1]) + TEXT_BYTES;
    *known = ++sending->function_count;
    return *known - 1;
}

static const char *name_of(const struct sending *sending, const struct trimmed_node *node) {
    return node->node == TRIM_OTHER ? "other" : draw_tree_name(sending->tree, node->node);
}

static void add_node(struct sending *sending, const struct trimmed_node *node) {
    Sonde__V1__Tree *part = &sending->part;
    uint32_t *known = &sending->other;
    enum sonde_frame_kind kind = SONDE_FRAME_NOTE;
    if (node->node != TRIM_OTHER) {
        uint32_t frame = draw_tree_node(sending->tree, node->node)->frame;
        known = &sending->functions[frame];
        kind = draw_tree_frame(sending->tree, frame)->kind;
    }
    part->function[part->n_function++] = function_of(sending, known, name_of(sending, node));
    part->parent[part->n_parent++] = node->parent;
    part->self[part->n_self++] = node->self;
    part->total[part->n_total++] = node->total;
    part->kind[part->n_kind++] = (Sonde__V1__FrameKind)kind;
    if (sending->has_base) {
        part->base_self[part->n_base_self++] = node->base_self;
        part->base_total[part->n_base_total++] = node->base_total;
    }
    sending->bytes += NODE_BYTES;
}

static bool is_full(const struct sending *sending, const struct trimmed_node *next) {
    size_t needed = NODE_BYTES + TEXT_BYTES + 4 * strlen(name_of(sending, next));
    return sending->part.n_function == PART_NODES || sending->bytes + needed > MESSAGE_BYTES;
}

static sonde_err send_all(struct sending *sending, const char *unit,
                          Sonde__V1__Completeness *completeness) {
    const struct trimmed_tree *trimmed = sending->trimmed;
    sonde_err err = part_init(sending);
    if (err)
        return err;
    sending->part.unit = (char *)unit;
    sending->part.completeness = completeness;
    for (size_t i = 0; i < trimmed->count && !err; i++) {
        if (is_full(sending, &trimmed->nodes[i]))
            err = part_end(sending);
        add_node(sending, &trimmed->nodes[i]);
    }
    return err ? err : part_end(sending);
}

static sonde_err send_tree(struct history_query *query, const struct draw_tree *tree,
                           Sonde__V1__Completeness *completeness, const char *unit,
                           uint32_t max_nodes) {
    const Sonde__V1__QueryTreeRequest *request = (const void *)query->request;
    struct trimmed_tree trimmed;
    struct sending sending = {.query = query,
                              .tree = tree,
                              .trimmed = &trimmed,
                              .has_base = request->base_selection != NULL,
                              .functions = calloc(tree->frames.count, sizeof *sending.functions)};
    sonde_err err = trim_tree(tree, max_nodes, &trimmed);
    if (!err && !sending.functions)
        err = SONDE_OUT_OF_MEMORY;
    completeness->trimmed_nodes = trimmed.lost;
    if (!err)
        err = send_all(&sending, unit, completeness);
    free(trimmed.nodes);
    free(sending.functions);
    return err;
}

static sonde_err build(struct history_query *query, Sonde__V1__Completeness *completeness,
                       const struct sonde_profile *shown, uint32_t max_nodes,
                       struct sonde_diag *diag) {
    const Sonde__V1__QueryTreeRequest *request = (const void *)query->request;
    size_t type = sonde_profile_type_count(shown) - 1;
    struct draw_tree_options options = {
        .type_index = type, .base_index = type, .merge_threads = request->merge_threads};
    struct draw_tree *tree;
    if (request->base_selection) {
        options.type_index = 0; /* of sonde_profile_compare: now, before */
        options.base_index = 1;
    }
    sonde_err err = store_stop_check(&query->stop, diag);
    if (!err)
        err = draw_tree_build(shown, &options, &tree, diag);
    if (err)
        return err;
    err = send_tree(query, tree, completeness, sonde_profile_type(shown, type).unit, max_nodes);
    draw_tree_destroy(tree);
    return err;
}

/* Both selections side by side. */
static sonde_err compare(struct history_query *query, const struct store_profile *profile,
                         struct sonde_profile **both, struct sonde_diag *diag) {
    const Sonde__V1__QueryTreeRequest *request = (const void *)query->request;
    struct history_selection before = {.selector = NULL};
    struct store_profile base = {.profile = NULL};
    size_t last = sonde_profile_type_count(profile->profile) - 1;
    const char *type = sonde_profile_type(profile->profile, last).type;
    sonde_err err =
        history_selection_read(query, request->base_selection, "base_selection", &before, diag);
    if (!err)
        err = history_selection_profile(query, &before, &base, diag);
    if (!err)
        err = sonde_profile_compare(base.profile, profile->profile, type, both, diag);
    sonde_profile_destroy(base.profile);
    history_selection_finish(&before);
    return err;
}

static sonde_err run(struct history_query *query, struct sonde_diag *diag) {
    const Sonde__V1__QueryTreeRequest *request = (const void *)query->request;
    struct history_selection selection = {.selector = NULL};
    struct store_profile profile = {.profile = NULL};
    struct sonde_profile *both = NULL;
    Sonde__V1__Completeness completeness = SONDE__V1__COMPLETENESS__INIT;
    uint32_t max_nodes;
    sonde_err err =
        rpc_number("max_nodes", request->max_nodes, DEFAULT_NODES, 1, MAX_NODES, &max_nodes, diag);
    if (!err)
        err = history_selection_read(query, request->selection, "selection", &selection, diag);
    if (!err)
        err = history_selection_profile(query, &selection, &profile, diag);
    if (!err && request->base_selection)
        err = compare(query, &profile, &both, diag);
    if (!err)
        err = history_completeness(query, &selection, &profile.merge, &completeness, diag);
    completeness.unknown_stacks = profile.unknown_stacks;
    if (!err)
        err = build(query, &completeness, both ? both : profile.profile, max_nodes, diag);
    sonde_profile_destroy(both);
    sonde_profile_destroy(profile.profile);
    history_selection_finish(&selection);
    return err;
}

void rpc_query_tree(struct rpc_call *call, const ProtobufCMessage *request) {
    history_query_start(call, request, run);
}
