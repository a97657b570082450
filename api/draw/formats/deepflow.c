/* SPDX-License-Identifier: Apache-2.0
 *
 * Building the tree. Each location's frames are interned once; a sample then only walks numbers.
 *
 * Rounding: the tree is walked depth first with a running sum of the own values in nanoseconds, and
 * a node's own microseconds are the step that the rounded sum takes there. A subtree is a piece of
 * that walk, so its total is the difference of two rounded sums and at most one unit from the
 * truth, however many nodes it has. */
#include "api/draw/formats/deepflow.h"
#include "api/draw/formats/deepflow_names.h"
#include "api/draw/render.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct builder {
    const struct sonde_profile *profile;
    const struct sonde_draw_options *options;
    struct deepflow_process process;
    struct draw_tree *tree;
    struct sonde_buf text;  /* the name that is being made */
    uint32_t *first, *ids;  /* frame numbers by location id; first has one extra at the end */
    uint32_t unknown_start; /* frame number */
    size_t type_index;
};

/* ---- Units ---- */

struct unit {
    const char *name;
    int64_t factor, divisor; /* to microseconds or bytes */
};

static const struct unit *find_unit(const char *name) {
    static const struct unit units[] = {{"nanoseconds", 1, 1000},
                                        {"microseconds", 1, 1},
                                        {"milliseconds", 1000, 1},
                                        {"seconds", 1000000, 1},
                                        {"bytes", 1, 1}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(units[i].name, name) == 0)
            return &units[i];
    return NULL;
}

bool deepflow_is_memory(const struct sonde_profile *profile,
                        const struct sonde_draw_options *options) {
    size_t index = draw_time_type(profile, options);
    return strcmp(sonde_profile_type(profile, index).unit, "bytes") == 0;
}

struct rounding {
    struct draw_tree *tree;
    struct unit unit;
    int64_t sum, rounded;
};

static void on_round(void *context, uint32_t number) {
    struct rounding *state = context;
    struct draw_node *node = draw_tree_node(state->tree, number);
    int64_t value;
    if (__builtin_mul_overflow(node->self, state->unit.factor, &value))
        value = INT64_MAX;
    state->sum = draw_add(state->sum, value);
    int64_t divisor = state->unit.divisor;
    int64_t rounded = state->sum / divisor + (state->sum % divisor >= (divisor + 1) / 2);
    node->self = rounded - state->rounded;
    node->base = 0;
    state->rounded = rounded;
}

/* Converts own values and computes the totals again. */
static void round_values(struct draw_tree *tree, const char *unit) {
    const struct unit *found = find_unit(unit);
    struct rounding state = {tree, found ? *found : (struct unit){"", 1, 1}, 0, 0};
    draw_tree_walk(tree, on_round, NULL, &state);
    draw_tree_add_totals(tree);
}

/* ---- Frames ---- */

/* Interns the name in builder->text. */
static sonde_err intern(struct builder *builder, uint32_t *number) {
    sonde_buf_putc(&builder->text, 0); /* so that data is not NULL */
    if (builder->text.failed)
        return SONDE_OUT_OF_MEMORY;
    struct draw_frame frame = {.name = builder->text.data, .module = ""};
    *number = draw_tree_intern(builder->tree, &frame);
    builder->text.len = 0;
    return *number == PROFILE_TABLE_NONE ? SONDE_OUT_OF_MEMORY : SONDE_OK;
}

static sonde_err intern_locations(struct builder *builder) {
    const struct sonde_profile *profile = builder->profile;
    size_t count = sonde_profile_location_count(profile), lines = 0;
    for (uint32_t id = 1; id <= count; id++)
        lines += sonde_profile_location(profile, id)->line_count + 1;
    builder->first = calloc(count + 2, sizeof *builder->first);
    builder->ids = calloc(lines + 1, sizeof *builder->ids);
    if (!builder->first || !builder->ids)
        return SONDE_OUT_OF_MEMORY;
    uint32_t at = 0;
    sonde_err err = SONDE_OK;
    for (uint32_t id = 1; id <= count && !err; id++) {
        const struct sonde_location *location = sonde_profile_location(profile, id);
        uint32_t names = location->line_count ? location->line_count : 1;
        builder->first[id] = at;
        for (uint32_t line = names; line > 0 && !err; line--) {
            deepflow_put_line(&builder->text, profile, location, line - 1);
            err = intern(builder, &builder->ids[at++]);
        }
    }
    builder->first[count + 1] = at;
    sonde_buf_puts(&builder->text, "[unknown start_thread?]");
    return err ? err : intern(builder, &builder->unknown_start);
}

/* ---- Samples ---- */

static sonde_err step(struct builder *builder, const char *prefix, const char *name,
                      uint32_t *node) {
    uint32_t frame;
    deepflow_put_name(&builder->text, prefix, name);
    sonde_err err = intern(builder, &frame);
    return err ? err : draw_tree_child(builder->tree, *node, frame, node);
}

static sonde_err step_to_thread(struct builder *builder, const struct sonde_sample *sample,
                                uint32_t *node) {
    const char *name = sonde_sample_label(builder->profile, sample, "thread");
    if (!deepflow_is_main_thread(builder->profile, sample, &builder->process))
        return step(builder, DEEPFLOW_THREAD, name, node);
    return step(builder, DEEPFLOW_PROCESS, name[0] ? name : builder->process.service_comm, node);
}

static sonde_err step_to_leaf(struct builder *builder, const struct sonde_sample *sample,
                              uint32_t *node) {
    const struct sonde_draw_options *options = builder->options;
    uint32_t left = options->limit_kernel_frames && options->max_kernel_frames >= 0
                        ? (uint32_t)options->max_kernel_frames
                        : UINT32_MAX;
    for (uint32_t i = sample->location_count; i > 0; i--) {
        uint32_t id = sample->locations[i - 1];
        const struct sonde_location *location = sonde_profile_location(builder->profile, id);
        bool is_kernel = location->kind == SONDE_FRAME_KERNEL;
        bool is_start =
            i == sample->location_count && deepflow_is_unknown(builder->profile, location);
        for (uint32_t at = builder->first[id]; at < builder->first[id + 1]; at++) {
            if (is_kernel && left-- == 0)
                return SONDE_OK;
            uint32_t frame = is_start ? builder->unknown_start : builder->ids[at];
            sonde_err err = draw_tree_child(builder->tree, *node, frame, node);
            if (err)
                return err;
        }
    }
    return SONDE_OK;
}

/* A sample of the host view: "[p] comm", and below it "[t] thread" unless the name is empty, which
 * is the main thread. */
static sonde_err step_to_host_thread(struct builder *builder, const struct sonde_sample *sample,
                                     const char *process, uint32_t *node) {
    char comm[DEEPFLOW_COMM + 1];
    snprintf(comm, sizeof comm, "%s", process);
    const char *thread = sonde_sample_label(builder->profile, sample, "thread");
    sonde_err err = step(builder, DEEPFLOW_PROCESS, comm, node);
    return err || !thread[0] ? err : step(builder, DEEPFLOW_THREAD, thread, node);
}

static sonde_err add_sample(struct builder *builder, const struct sonde_sample *sample) {
    uint32_t number = DRAW_TREE_ROOT;
    int64_t value = sample->values[builder->type_index];
    if (value <= 0)
        return SONDE_OK;
    const char *process = deepflow_host_process(builder->profile, sample);
    sonde_err err = process ? step_to_host_thread(builder, sample, process, &number)
                            : step_to_thread(builder, sample, &number);
    if (!err && !process)
        err = step_to_leaf(builder, sample, &number);
    if (err)
        return err;
    struct draw_node *node = draw_tree_node(builder->tree, number);
    node->self = draw_add(node->self, value);
    return SONDE_OK;
}

static sonde_err fill(struct builder *builder) {
    sonde_err err = intern_locations(builder);
    for (size_t i = 0; i < sonde_profile_sample_count(builder->profile) && !err; i++) {
        struct sonde_sample sample = sonde_profile_sample(builder->profile, i);
        err = add_sample(builder, &sample);
    }
    if (!err)
        err = draw_tree_complete(builder->tree);
    if (!err)
        round_values(builder->tree, sonde_profile_type(builder->profile, builder->type_index).unit);
    return err;
}

sonde_err deepflow_tree_build(const struct sonde_profile *profile,
                              const struct sonde_draw_options *options, struct draw_tree **tree,
                              struct sonde_diag *diag) {
    struct builder builder = {.profile = profile,
                              .options = options,
                              .process = deepflow_process(profile, options),
                              .type_index = draw_time_type(profile, options)};
    /* The kind keeps it apart from a function of the same name. */
    const struct draw_frame root = {
        .name = builder.process.service, .module = "", .kind = SONDE_FRAME_NOTE};
    sonde_err err = draw_tree_create(&root, &builder.tree);
    if (!err)
        err = fill(&builder);
    free(builder.first);
    free(builder.ids);
    sonde_buf_finish(&builder.text);
    if (err) {
        draw_tree_destroy(builder.tree);
        return sonde_fail(diag, err, "cannot build the call tree: %s", sonde_diag_text(NULL, err));
    }
    *tree = builder.tree;
    return SONDE_OK;
}
