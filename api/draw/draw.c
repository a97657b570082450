/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of formats. A new format is a new row and a new renderer. */
#include "api/draw/draw.h"
#include "api/draw/compare/changes.h"
#include "api/draw/negatives.h"
#include "api/draw/render.h"
#include "api/profile/heap/memory.h"
#include "api/profile/pprof/pprof.h"
#include "api/profile/select/idle.h"

#include <string.h>

#define ALL     (SONDE_OF_CPU | SONDE_OF_ALLOCATIONS | SONDE_OF_HEAP)
#define BINARY  "application/octet-stream"
#define PICTURE "image/svg+xml"
#define JSON    "application/json"
#define TEXT    "text/plain"

static const struct sonde_format_info infos[] = {
    {SONDE_FORMAT_PPROF, "proto", ".pb.gz", BINARY, ALL, true},
    {SONDE_FORMAT_SVG_FLAMEGRAPH, "flamegraph", ".svg", PICTURE, ALL, true},
    {SONDE_FORMAT_SVG_CALLGRAPH, "callgraph", ".callgraph.svg", PICTURE, ALL, true},
    {SONDE_FORMAT_COLLAPSED, "collapsed", ".collapsed", TEXT, ALL, true},
    {SONDE_FORMAT_SPEEDSCOPE, "speedscope", ".speedscope.json", JSON, ALL, true},
    {SONDE_FORMAT_TEXT_TOP, "top", ".txt", TEXT, ALL, true},
    {SONDE_FORMAT_JEMALLOC, "jemalloc", ".heap", BINARY, SONDE_OF_HEAP, false},
    {SONDE_FORMAT_LEGACY_CPU, "legacy", ".prof", BINARY, SONDE_OF_CPU, true},
    {SONDE_FORMAT_LEGACY_HEAP, "legacy", ".legacy.heap", BINARY, SONDE_OF_HEAP, true},
    {SONDE_FORMAT_HEAPSNAPSHOT, "heapsnapshot", ".heapsnapshot", JSON, SONDE_OF_HEAP, true},
    {SONDE_FORMAT_HEAPPROFILE, "heapprofile", ".heapprofile", JSON, SONDE_OF_HEAP, true},
    {SONDE_FORMAT_FIREFOX, "firefox", ".firefox.json", JSON, ALL, true},
    {SONDE_FORMAT_MARKDOWN, "md", ".md", "text/markdown", ALL, true},
    {SONDE_FORMAT_GRAFANA, "grafana", ".grafana.json", JSON, ALL, true},
    {SONDE_FORMAT_DEEPFLOW_TREE, "deepflow", ".deepflow.json", JSON, ALL, true},
    {SONDE_FORMAT_DEEPFLOW_COLUMNAR, "deepflow-columnar", ".deepflow-columnar.json", JSON, ALL,
     true},
    {SONDE_FORMAT_FLAMEBEARER, "flamebearer", ".flamebearer.json", JSON, ALL, true},
    {SONDE_FORMAT_CHANGES, "changes", ".changes.json", JSON, SONDE_OF_DIFFERENCE, true},
};

/* In the order of infos. NULL for formats that are not drawn. */
static draw_renderer *const renderers[] = {
    draw_pprof,
    draw_flamegraph,
    draw_callgraph,
    draw_collapsed,
    draw_speedscope,
    draw_top,
    NULL,
    draw_legacy_cpu,
    draw_legacy_heap,
    draw_heapsnapshot,
    draw_heapprofile,
    draw_firefox,
    draw_markdown,
    draw_grafana,
    draw_deepflow_tree,
    draw_deepflow_columnar,
    draw_flamebearer,
    draw_changes,
};

#define ROWS (sizeof infos / sizeof *infos)
_Static_assert(ROWS == sizeof renderers / sizeof *renderers, "a renderer a row");

const struct sonde_format_info *sonde_format_info(enum sonde_format format) {
    for (size_t i = 0; i < ROWS; i++)
        if (infos[i].format == format)
            return &infos[i];
    return NULL;
}

const struct sonde_format_info *sonde_format_from_output(struct sonde_slice output) {
    for (size_t i = 0; i < ROWS; i++)
        if (sonde_slice_equals(output, infos[i].output))
            return &infos[i];
    return NULL;
}

const struct sonde_format_info *sonde_format_from_output_of(struct sonde_slice output,
                                                            enum sonde_subject subject) {
    for (size_t i = 0; i < ROWS; i++)
        if (infos[i].offered & subject && sonde_slice_equals(output, infos[i].output))
            return &infos[i];
    return NULL;
}

static bool ends_with(const char *text, const char *end) {
    size_t len = strlen(text), end_len = strlen(end);
    return len > end_len && strcmp(text + len - end_len, end) == 0;
}

const struct sonde_format_info *sonde_format_from_name(const char *file_name) {
    const struct sonde_format_info *best = NULL;
    for (size_t i = 0; i < ROWS; i++)
        if (ends_with(file_name, infos[i].extension) &&
            (!best || strlen(infos[i].extension) > strlen(best->extension)))
            best = &infos[i];
    return best;
}

const struct sonde_format_info *sonde_format_table(size_t *count) {
    *count = ROWS;
    return infos;
}

sonde_err draw_pprof(const struct sonde_profile *profile, const struct sonde_draw_options *options,
                     struct sonde_buf *out, struct sonde_diag *diag) {
    int level = options->gzip_level == 0 ? 1 : options->gzip_level;
    return sonde_pprof_write(profile, level < 0 ? 0 : level, out, diag);
}

/* sonde_draw_difference sets the comparison. */
sonde_err draw_changes(const struct sonde_profile *profile,
                       const struct sonde_draw_options *options, struct sonde_buf *out,
                       struct sonde_diag *diag) {
    draw_changes_json(options->comparison->functions, options->comparison, out);
    return SONDE_OK;
}

enum sonde_subject sonde_draw_subject(const struct sonde_profile *profile) {
    struct sonde_memory_types types;
    if (!sonde_memory_types(profile, &types))
        return SONDE_OF_CPU;
    return types.inuse_space == SONDE_PROFILE_NO_TYPE ? SONDE_OF_ALLOCATIONS : SONDE_OF_HEAP;
}

/* Samples and the time they stand for, as profilers of CPU time write them. */
static bool is_sampled_time(const struct sonde_profile *profile) {
    struct sonde_value_type first = sonde_profile_type(profile, 0);
    return sonde_profile_type_count(profile) == 2 && strcmp(first.type, "samples") == 0 &&
           strcmp(first.unit, "count") == 0 &&
           strcmp(sonde_profile_type(profile, 1).unit, "nanoseconds") == 0;
}

struct sonde_draw_options sonde_draw_defaults(const struct sonde_profile *profile) {
    struct sonde_draw_options options = {0};
    if (!is_sampled_time(profile))
        options.type_index = sonde_profile_info(profile)->default_type;
    if (sonde_draw_subject(profile) != SONDE_OF_CPU)
        options.palette = SONDE_PALETTE_MEMORY;
    return options;
}

static sonde_err check_format(const struct sonde_profile *profile, enum sonde_format format,
                              const struct sonde_format_info *info,
                              const struct sonde_draw_options *options, struct sonde_diag *diag) {
    if (!info)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "unknown format %d", (int)format);
    if (!info->is_drawn)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "a profile cannot be converted to %s, the allocator's own dump; jeprof "
                          "also reads \"legacy\"",
                          info->output);
    bool is_of_two = info->offered == SONDE_OF_DIFFERENCE;
    if (is_of_two && (!options->comparison || !options->comparison->functions))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%s is for differences of two profiles",
                          info->output);
    if (!is_of_two && !(info->offered & SONDE_OF_CPU) &&
        sonde_draw_subject(profile) == SONDE_OF_CPU)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "%s is for memory profiles; this profile measures %.60s", info->extension,
                          sonde_profile_type(profile, 0).type);
    return SONDE_OK;
}

static sonde_err choose_type(const struct sonde_profile *profile,
                             struct sonde_draw_options *options, struct sonde_diag *diag) {
    size_t count = sonde_profile_type_count(profile);
    if (options->type)
        options->type_index = sonde_profile_find_type(profile, options->type);
    if (options->type_index < count)
        return SONDE_OK;
    if (!options->type)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "the profile only has %zu sample types",
                          count);
    struct sonde_buf names = {0};
    for (size_t i = 0; i < count; i++)
        sonde_buf_printf(&names, " %.40s", sonde_profile_type(profile, i).type);
    sonde_err err = sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                               "the profile has no sample type \"%.40s\"; it has%s", options->type,
                               sonde_buf_slice(&names).data);
    sonde_buf_finish(&names);
    return err;
}

sonde_err sonde_draw(const struct sonde_profile *profile, enum sonde_format format,
                     const struct sonde_draw_options *options, struct sonde_buf *out,
                     struct sonde_diag *diag) {
    struct sonde_draw_options chosen = {0};
    const struct sonde_format_info *info = sonde_format_info(format);
    if (options)
        chosen = *options;
    struct sonde_profile *shown = NULL;
    sonde_err err = check_format(profile, format, info, &chosen, diag);
    if (!err)
        err = choose_type(profile, &chosen, diag);
    if (!err && chosen.hide_idle)
        err = sonde_profile_without_idle(profile, &shown, diag);
    if (!err)
        err = renderers[info - infos](shown ? shown : profile, &chosen, out, diag);
    sonde_profile_destroy(shown);
    if (!err && out->failed)
        err = sonde_fail(diag, out->limit ? SONDE_TOO_LARGE : SONDE_OUT_OF_MEMORY,
                         out->limit ? "the document is larger than %zu bytes" : "out of memory",
                         out->limit);
    return err;
}

void sonde_draw_note(const struct sonde_profile *profile, enum sonde_format format,
                     const struct sonde_draw_options *options, struct sonde_buf *out) {
    struct sonde_draw_options chosen = {0};
    if (options)
        chosen = *options;
    if (choose_type(profile, &chosen, NULL) == SONDE_OK)
        draw_put_negatives(out, profile, format, &chosen);
}
