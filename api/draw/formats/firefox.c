/* SPDX-License-Identifier: Apache-2.0
 *
 * Firefox's processed profile format, version 49, which profiler.firefox.com, samply and Perfetto
 * read and newer versions of the viewer convert.
 *
 * Every table is an object of columns of the same length. A thread has its own strings, functions,
 * frames and stacks. A node of the call tree is a stack: its prefix is its parent, and parents come
 * first. The tree's frames are functions: they have a source file and the line where they start,
 * and no addresses.
 *
 * A profile with a timeline says in which 20 ms a sample was taken; the samples of a bin are spread
 * over it. Without one a thread's stacks follow each other in the order of the tree, each for as
 * long as its samples took altogether. meta.extra says which. */
#include "api/draw/formats/firefox.h"
#include "api/draw/render.h"

#include <stdlib.h>
#include <string.h>

#define COMM 15 /* bytes of a thread's name */

static const char meta_categories[] =
    "\"categories\":[{\"name\":\"Other\",\"color\":\"grey\",\"subcategories\":[\"Other\"]},"
    "{\"name\":\"Application\",\"color\":\"yellow\",\"subcategories\":[\"Other\"]},"
    "{\"name\":\"Library\",\"color\":\"blue\",\"subcategories\":[\"Other\"]},"
    "{\"name\":\"Kernel\",\"color\":\"orange\",\"subcategories\":[\"Other\"]},"
    "{\"name\":\"JIT\",\"color\":\"green\",\"subcategories\":[\"Other\"]}]";

/* ---- Nodes by thread ---- */

static void on_assign(void *context, uint32_t number) {
    struct firefox *state = context;
    if (draw_tree_node(state->tree, number)->depth <= 1)
        state->current = FIREFOX_NO_THREAD;
    if (firefox_is_thread(state, number)) {
        state->current = state->thread_count++;
        state->thread_nodes[state->current] = number;
    }
    state->thread_of[number] = state->current;
    state->begin[state->current + 1]++;
}

static void on_order(void *context, uint32_t number) {
    struct firefox *state = context;
    state->order[state->begin[state->thread_of[number]]++] = number;
}

static void sort_by_thread(struct firefox *state) {
    state->thread_count = 1;
    draw_tree_walk(state->tree, on_assign, NULL, state);
    for (uint32_t i = 0; i < state->thread_count; i++)
        state->begin[i + 1] += state->begin[i];
    draw_tree_walk(state->tree, on_order, NULL, state);
    /* Each begin has moved to its end, which is the next one's begin. */
    memmove(state->begin + 1, state->begin, state->thread_count * sizeof *state->begin);
    state->begin[0] = 0;
}

/* ---- Threads ---- */

/* The main thread has the first bytes of the executable's name, unless the program changed it. */
static void choose_main_thread(struct firefox *state) {
    const char *program = draw_program(state->profile);
    state->main_thread = state->thread_count > 1 ? 1 : FIREFOX_NO_THREAD;
    for (uint32_t i = 1; i < state->thread_count; i++) {
        const char *name = draw_tree_name(state->tree, state->thread_nodes[i]);
        if (name[0] && strncmp(name, program, COMM) == 0)
            state->main_thread = i;
    }
}

static sonde_err put_threads(struct firefox *state) {
    const struct draw_node *root = draw_tree_node(state->tree, DRAW_TREE_ROOT);
    uint32_t index = 0;
    sonde_err err = SONDE_OK;
    sonde_buf_puts(state->out, ",\n\"threads\":[");
    for (state->current = 0; state->current < state->thread_count && !err; state->current++) {
        bool is_root = state->current == FIREFOX_NO_THREAD;
        uint32_t nodes = state->begin[state->current + 1] - state->begin[state->current];
        if (is_root && nodes == 1 && root->self <= 0 && state->thread_count > 1)
            continue;
        const char *name =
            is_root ? "all" : draw_tree_name(state->tree, state->thread_nodes[state->current]);
        err = firefox_put_thread(state, name, index++);
    }
    sonde_buf_puts(state->out, "]");
    return err;
}

/* ---- The document ---- */

static void put_extra(const struct firefox *state) {
    static const char timed[] = "Each sample is in the 20 ms in which it was taken.";
    static const char untimed[] =
        "The profile does not have the times of its samples. Each thread's stacks follow each "
        "other, each for as long as it was sampled altogether.";
    struct sonde_buf *out = state->out;
    const char *entry = "{\"format\":\"string\",\"label\":\"%s\",\"value\":";
    sonde_buf_puts(out, ",\n\"extra\":[{\"label\":\"Sonde\",\"entries\":[");
    sonde_buf_printf(out, entry, "Times");
    draw_json(out, state->events ? timed : untimed);
    sonde_buf_putc(out, '}');
    for (size_t i = 0; i < sonde_profile_comment_count(state->profile); i++) {
        sonde_buf_putc(out, ',');
        sonde_buf_printf(out, entry, "Comment");
        draw_json(out, sonde_profile_comment(state->profile, i));
        sonde_buf_putc(out, '}');
    }
    sonde_buf_puts(out, "]}]");
}

static void put_meta(const struct firefox *state) {
    const struct sonde_profile_info *info = sonde_profile_info(state->profile);
    bool is_timed = info->period > 0 && strcmp(info->period_type.unit, "nanoseconds") == 0;
    struct sonde_buf *out = state->out;
    sonde_buf_puts(out, "{\"meta\":{\"version\":24,\"preprocessedProfileVersion\":49,\"product\":");
    draw_json(out, state->process);
    sonde_buf_printf(out, ",\"interval\":%.6f,\"startTime\":%.6f",
                     is_timed ? (double)info->period / 1e6 : 1, (double)info->time_unix_ns / 1e6);
    sonde_buf_puts(out, ",\"processType\":0,\"stackwalk\":1,\"debug\":false,\"symbolicated\":true,"
                        "\"usesOnlyOneStackType\":true,\"doesNotUseFrameImplementation\":true,"
                        "\"sourceCodeIsNotOnSearchfox\":true,\"pausedRanges\":[],"
                        "\"markerSchema\":[],\"extensions\":{\"length\":0,\"baseURL\":[],\"id\":[],"
                        "\"name\":[]},\n\"sampleUnits\":{\"time\":\"ms\",\"eventDelay\":\"ms\","
                        "\"threadCPUDelta\":\"ns\"},\n");
    sonde_buf_puts(out, meta_categories);
    put_extra(state);
    sonde_buf_puts(out, "},\n");
}

static sonde_err put_document(struct firefox *state) {
    firefox_texts_init(&state->libs);
    sonde_err err = firefox_libs_fill(&state->libs, state->profile);
    sort_by_thread(state);
    if (!err)
        err = firefox_events(state->profile, state->type_index, state->leaves, state->thread_of,
                             &state->events, &state->event_count);
    if (!err) {
        choose_main_thread(state);
        put_meta(state);
        firefox_libs_put(&state->libs, state->profile, state->out);
        sonde_buf_puts(state->out, ",\n\"pages\":[],\"counters\":[],\"profilerOverhead\":[]");
        err = put_threads(state);
        sonde_buf_puts(state->out, "}\n");
    }
    free(state->events);
    firefox_texts_finish(&state->libs);
    return err;
}

static void choose_weight(struct firefox *state, const char *unit) {
    static const struct {
        const char *unit;
        double to_ms;
    } times[] = {
        {"nanoseconds", 1e-6}, {"microseconds", 1e-3}, {"milliseconds", 1}, {"seconds", 1e3}};
    state->weight_type = strcmp(unit, "bytes") == 0 ? "bytes" : "samples";
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        if (strcmp(unit, times[i].unit) != 0)
            continue;
        state->weight_type = "tracing-ms";
        state->to_ms = times[i].to_ms;
    }
}

static sonde_err put_tree(struct firefox *state) {
    uint32_t nodes = state->tree->nodes.count, frames = state->tree->frames.count;
    uint32_t **arrays[] = {&state->thread_of, &state->order, &state->thread_nodes,
                           &state->row,       &state->begin, &state->function_of,
                           &state->functions};
    uint32_t size = (nodes > frames ? nodes : frames) + 2;
    sonde_err err = SONDE_OK;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        if (!(*arrays[i] = calloc(size, sizeof **arrays[i])))
            err = SONDE_OUT_OF_MEMORY;
    if (!err) {
        memset(state->function_of, 0xff, size * sizeof *state->function_of);
        err = put_document(state);
    }
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(*arrays[i]);
    return err;
}

sonde_err draw_firefox(const struct sonde_profile *profile,
                       const struct sonde_draw_options *options, struct sonde_buf *out,
                       struct sonde_diag *diag) {
    struct firefox state = {
        .profile = profile, .out = out, .type_index = draw_time_type(profile, options)};
    state.leaves = calloc(sonde_profile_sample_count(profile) + 1, sizeof *state.leaves);
    if (!state.leaves)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    struct draw_tree_options tree_options = {.type_index = state.type_index,
                                             .base_index = state.type_index,
                                             .no_negatives = true,
                                             .leaves = state.leaves};
    const char *name = draw_name(profile, options);
    struct draw_tree *tree;
    sonde_err err = draw_tree_build(profile, &tree_options, &tree, diag);
    if (!err) {
        state.tree = tree;
        state.process = name[0] ? name : "Sonde";
        choose_weight(&state, sonde_profile_type(profile, state.type_index).unit);
        err = put_tree(&state);
        draw_tree_destroy(tree);
        err = err ? sonde_fail(diag, err, "out of memory") : SONDE_OK;
    }
    free(state.leaves);
    return err;
}
