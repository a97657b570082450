/* SPDX-License-Identifier: Apache-2.0
 *
 * speedscope's file format: shared frames, then one "sampled" profile per thread, with stacks as
 * lists of frame numbers and their weights. The threads are the children of the tree's root. */
#include "api/draw/render.h"
#include "api/draw/title.h"
#include "api/draw/tree.h"

#include <string.h>

struct speedscope {
    const struct draw_tree *tree;
    struct sonde_buf *out;
    struct sonde_buf samples, weights; /* of the current thread */
    uint32_t path[DRAW_TREE_MAX_DEPTH + 1];
    uint32_t first_depth; /* depth of the first frame: 2 below a thread, otherwise 1 */
    int64_t total;
    uint32_t profiles;
    const char *unit, *thread;
};

static const char *speedscope_unit(const char *unit) {
    static const char *const known[] = {"nanoseconds", "microseconds", "milliseconds", "seconds",
                                        "bytes"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(unit, known[i]) == 0)
            return unit;
    return "none";
}

static void put_frames(const struct draw_tree *tree, struct sonde_buf *out) {
    sonde_buf_puts(out, "\"shared\":{\"frames\":[");
    for (uint32_t i = 0; i < tree->frames.count; i++) {
        const struct draw_frame *frame = draw_tree_frame(tree, i);
        sonde_buf_puts(out, i ? ",\n{\"name\":" : "\n{\"name\":");
        draw_json(out, frame->name);
        if (frame->module[0]) {
            sonde_buf_puts(out, ",\"file\":");
            draw_json(out, frame->module);
        }
        sonde_buf_putc(out, '}');
    }
    sonde_buf_puts(out, "\n]},\n");
}

static void end_profile(struct speedscope *state) {
    struct sonde_buf *out = state->out;
    struct sonde_slice samples = sonde_buf_slice(&state->samples);
    struct sonde_slice weights = sonde_buf_slice(&state->weights);
    sonde_buf_puts(out, state->profiles++ ? ",\n" : "\n");
    sonde_buf_puts(out, "{\"type\":\"sampled\",\"name\":");
    draw_json(out, state->thread);
    sonde_buf_printf(out, ",\"unit\":\"%s\",\"startValue\":0,\"endValue\":%lld,\n\"samples\":[",
                     state->unit, (long long)state->total);
    sonde_buf_append(out, samples.data, samples.len);
    sonde_buf_puts(out, "],\n\"weights\":[");
    sonde_buf_append(out, weights.data, weights.len);
    sonde_buf_puts(out, "]}");
    out->failed |= state->samples.failed || state->weights.failed;
    state->samples.len = state->weights.len = 0;
    state->total = 0;
}

static void put_sample(struct speedscope *state, const struct draw_node *node) {
    const char *comma = state->samples.len ? "," : "";
    sonde_buf_printf(&state->samples, "%s[", comma);
    for (uint32_t depth = state->first_depth; depth <= node->depth; depth++)
        sonde_buf_printf(&state->samples, depth > state->first_depth ? ",%u" : "%u",
                         state->path[depth]);
    sonde_buf_putc(&state->samples, ']');
    sonde_buf_printf(&state->weights, "%s%lld", comma, (long long)node->self);
    state->total = draw_add(state->total, node->self);
}

static void on_enter(void *context, uint32_t number) {
    struct speedscope *state = context;
    const struct draw_node *node = draw_tree_node(state->tree, number);
    const struct draw_frame *frame = draw_tree_frame(state->tree, node->frame);
    state->path[node->depth] = node->frame;
    if (node->depth == 1 && frame->is_thread) {
        if (state->samples.len)
            end_profile(state);
        state->first_depth = 2;
        state->thread = frame->name;
    }
    if (node->self > 0)
        put_sample(state, node);
}

static void on_leave(void *context, uint32_t number) {
    struct speedscope *state = context;
    const struct draw_node *node = draw_tree_node(state->tree, number);
    if (node->depth != 1 || state->first_depth != 2)
        return;
    if (state->samples.len)
        end_profile(state);
    state->first_depth = 1;
    state->thread = "all";
}

/* The viewer's title. */
static void put_name(const struct speedscope *state, const struct sonde_profile *profile,
                     const struct sonde_draw_options *options) {
    struct sonde_buf name = {0};
    if (options->title)
        sonde_buf_puts(&name, options->title);
    else
        draw_put_title(&name, profile, options, "Sonde");
    if (!options->title && !state->tree->total)
        sonde_buf_puts(&name, ": no samples");
    draw_json(state->out, sonde_buf_slice(&name).data);
    sonde_buf_finish(&name);
}

static void put_document(struct speedscope *state, const struct sonde_profile *profile,
                         const struct sonde_draw_options *options) {
    struct sonde_buf *out = state->out;
    sonde_buf_puts(out, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n"
                        "\"exporter\":\"sonde\",\"name\":");
    put_name(state, profile, options);
    sonde_buf_puts(out, ",\"activeProfileIndex\":0,\n");
    put_frames(state->tree, out);
    sonde_buf_puts(out, "\"profiles\":[");
    draw_tree_walk(state->tree, on_enter, on_leave, state);
    if (state->samples.len || state->profiles == 0) {
        if (state->samples.len == 0)
            state->thread = "no samples";
        end_profile(state);
    }
    sonde_buf_puts(out, "\n]}\n");
}

sonde_err draw_speedscope(const struct sonde_profile *profile,
                          const struct sonde_draw_options *options, struct sonde_buf *out,
                          struct sonde_diag *diag) {
    struct draw_tree_options tree_options = {.type_index = options->type_index,
                                             .base_index = options->type_index,
                                             .merge_threads = !options->split_threads,
                                             .no_negatives = true};
    struct draw_tree *tree;
    sonde_err err = draw_tree_build(profile, &tree_options, &tree, diag);
    if (err)
        return err;
    struct sonde_value_type type = sonde_profile_type(profile, options->type_index);
    struct speedscope state = {.tree = tree,
                               .out = out,
                               .first_depth = 1,
                               .unit = speedscope_unit(type.unit),
                               .thread = "all"};
    put_document(&state, profile, options);
    sonde_buf_finish(&state.samples);
    sonde_buf_finish(&state.weights);
    draw_tree_destroy(tree);
    return SONDE_OK;
}
