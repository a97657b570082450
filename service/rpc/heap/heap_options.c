/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/heap/heap_options.h"

#include "api/draw/diff.h"
#include "service/rpc/request/params.h"

#include <stdio.h>

#define MAX_DELTA_MS 3600000

/* ---- Reading ---- */

static sonde_err read_format(const Sonde__V1__Rendering *rendering, struct heap_options *options,
                             struct sonde_diag *diag) {
    bool compares = heap_options_compares(options);
    enum sonde_format format = compares ? SONDE_FORMAT_PPROF : SONDE_FORMAT_JEMALLOC;
    if (rendering && rendering->format != SONDE__V1__FORMAT__FORMAT_UNSPECIFIED)
        format = (enum sonde_format)rendering->format;
    options->info = sonde_format_info(format);
    if (!options->info || !(options->info->offered & SONDE_OF_HEAP))
        return sonde_fail(
            diag, SONDE_INVALID_ARGUMENT,
            "rendering.format: %d is not available for heap profiles; see enum Format",
            (int)format);
    if (compares && !options->info->is_drawn)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "a difference cannot be written as a dump of jemalloc: ask for another "
                          "format, or fetch both dumps for jeprof --base");
    return SONDE_OK;
}

static sonde_err read_rendering(const Sonde__V1__Rendering *rendering, struct heap_options *options,
                                struct sonde_diag *diag) {
    sonde_err err = read_format(rendering, options, diag);
    /* Its readers remove such frames themselves, by the names of the functions. */
    options->keep_allocator_frames = !err && options->info->format == SONDE_FORMAT_LEGACY_HEAP;
    if (err || !rendering)
        return err;
    if (rendering->hide_idle)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "rendering.hide_idle: only for wall-clock and off-CPU time");
    options->keep_allocator_frames |= rendering->keep_allocator_frames;
    return rpc_rendering_options(rendering, &options->drawing, diag);
}

static const char *unless_empty(const char *text) {
    return *text ? text : NULL;
}

sonde_err heap_options_of_snapshot(const Sonde__V1__HeapSnapshotRequest *request,
                                   struct heap_options *options, struct sonde_diag *diag) {
    *options = (struct heap_options){
        .drawing = {.type = unless_empty(request->sample_type), .all_one = request->all_one},
        .base = unless_empty(request->base_dump),
        .delta_ms = request->delta_ms,
        .older_than_ms = request->older_than_ms,
        .growth_only = request->growth_only,
        .require_active = request->require_active,
    };
    if (options->base && options->delta_ms)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "set base_dump or delta_ms, not both");
    if (options->delta_ms > MAX_DELTA_MS)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "delta_ms: \"%u\" is not a whole number from 1 to %d", options->delta_ms,
                          MAX_DELTA_MS);
    return read_rendering(request->rendering, options, diag);
}

sonde_err heap_options_of_dump(const Sonde__V1__GetHeapDumpRequest *request,
                               struct heap_options *options, struct sonde_diag *diag) {
    *options = (struct heap_options){
        .name = request->name,
        .drawing = {.type = unless_empty(request->sample_type), .all_one = request->all_one},
        .base = unless_empty(request->base_dump),
        .growth_only = request->growth_only,
        .ended = request->ended,
    };
    bool has_uuid = request->target && *request->target->uuid;
    if (options->ended && options->base && !has_uuid)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "dumps of processes that have exited can only be compared with those of "
                          "the same process: name it by its uuid (`sonde heap list --ended`)");
    return read_rendering(request->rendering, options, diag);
}

/* ---- Comparing ---- */

sonde_err heap_options_check_epochs(const struct heap_options *options, uint64_t base, uint64_t now,
                                    struct sonde_diag *diag) {
    if (base == now && base != 0)
        return SONDE_OK;
    if (options->delta_ms)
        return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                          "the heap's samples were reset meanwhile, so there is no difference: ask "
                          "again");
    return sonde_fail(
        diag, SONDE_INVALID_ARGUMENT,
        "the heap's samples were reset between %.12s and %.12s, so they cannot be compared: use a "
        "newer dump as the base",
        options->base, options->name ? options->name : "now");
}

/* ---- Drawing ---- */

static sonde_err draw_difference(const struct heap_options *options,
                                 const struct sonde_profile *base, struct sonde_profile *now,
                                 struct sonde_buf *out, struct sonde_diag *diag) {
    char earlier[32];
    snprintf(earlier, sizeof earlier, "%.4g s earlier", options->delta_ms / 1e3);
    const struct sonde_draw_diff diff = {.base = base,
                                         .now = now,
                                         .base_name = options->base ? options->base : earlier,
                                         .now_name = options->name ? options->name : "now",
                                         .growth_only = options->growth_only};
    const struct sonde_draw_options drawing = rpc_draw_options(now, &options->drawing);
    struct sonde_profile_info info = *sonde_profile_info(now);
    info.duration_ns = options->delta_ms * 1000000ll;
    sonde_profile_set_info(now, &info);
    return sonde_draw_difference(&diff, options->info->format, &drawing, out, diag);
}

sonde_err heap_options_draw(const struct heap_options *options, struct sonde_profile *base,
                            struct sonde_profile *now, const struct sonde_draw_sink *sink,
                            struct sonde_buf *out, uint64_t *samples, struct sonde_diag *diag) {
    struct sonde_draw_options drawing = rpc_draw_options(now, &options->drawing);
    drawing.sink = sink;
    sonde_err err = base ? draw_difference(options, base, now, out, diag)
                         : sonde_draw(now, options->info->format, &drawing, out, diag);
    *samples = sonde_profile_sample_count(now);
    sonde_profile_destroy(base);
    sonde_profile_destroy(now);
    return err;
}
