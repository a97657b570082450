/* SPDX-License-Identifier: Apache-2.0
 *
 * The result of an allocation window: the difference of two readings of the sampler's table. An
 * allocation of n bytes is sampled with probability p, which is 1 - exp(-n / R) or the client's,
 * and then counts 1 / p objects and n / p bytes. So sums are unbiased, whatever the sizes. */
#include "service/engine/allocs/allocs.h"
#include "service/engine/memory_report/alloc_report.h"

#include <stdio.h>
#include <string.h>

static void describe(const struct allocs_window *window, char *text, size_t size) {
    const struct engine_allocs_spec *spec = &window->spec;
    char how[64];
    if (spec->sample_bytes == 1 || spec->probability == 1)
        snprintf(how, sizeof how, "every allocation");
    else if (spec->probability > 0)
        snprintf(how, sizeof how, "each allocation with probability %g", spec->probability);
    else
        snprintf(how, sizeof how, "one sample per %llu bytes",
                 (unsigned long long)spec->sample_bytes);
    snprintf(text, size, "backend: Sonde's sampler %s%s%s%s, %s%s",
             window->has_hooks ? "in jemalloc's hooks" : "",
             window->has_hooks && window->allocator[0] ? " and " : "",
             window->allocator[0] ? "on the malloc of " : "", window->allocator, how,
             window->has_other ? "; the program itself imports no malloc, so only allocations of "
                                 "its libraries are seen"
                               : "");
}

/* What to do about a window without samples. */
static const char *advice_for(const struct engine_allocs_spec *spec) {
    if (spec->sample_bytes == 1 || spec->probability == 1)
        return "; there was no allocation";
    return spec->probability > 0 ? "; no allocation was sampled: use a larger probability"
                                 : "; no allocation was sampled: use a smaller sampling interval";
}

static sonde_err build_from_table(struct allocs_window *window, struct sonde_profile **profile,
                                  struct engine_metadata *metadata, struct sonde_diag *diag) {
    struct alloc_sums sums = {0};
    char comment[320];
    sonde_err err = alloc_view_read(window->view, &(struct alloc_choice){0}, &sums);
    if (err)
        return sonde_fail(diag, err, "the sampler's table could not be read: out of memory");
    alloc_sums_subtract(&sums, &window->before);
    describe(window, comment, sizeof comment);
    size_t len = strlen(comment);
    if (sums.samples == 0)
        snprintf(comment + len, sizeof comment - len, "%s", advice_for(&window->spec));
    struct sonde_buf maps = {0};
    alloc_report_read_maps(window->process, &maps); /* libraries may have been loaded since */
    struct alloc_report report = {
        .view = window->view,
        .sums = &sums,
        .process = window->process,
        .maps = sonde_buf_slice(maps.len ? &maps : &window->maps),
        .lives = window->lives,
        .mean = window->spec.probability > 0 ? 0 : window->spec.sample_bytes,
        .start_unix_ns = window->start_unix_ns,
        .end_unix_ns = window->end_unix_ns,
        .keep_frames = window->spec.keep_allocator_frames,
        .comment = comment,
        .has_hooks = window->has_hooks,
    };
    err = alloc_report_profile(window->base.engine, &report, profile, diag);
    metadata->samples = sums.samples;
    metadata->dropped = sums.dropped;
    sonde_buf_finish(&maps);
    alloc_sums_finish(&sums);
    return err;
}

static sonde_err build_empty(struct sonde_profile **profile, struct sonde_diag *diag) {
    *profile = alloc_report_empty();
    return *profile ? SONDE_OK : sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
}

sonde_err allocs_build(struct allocs_window *window, struct sonde_profile **profile,
                       struct engine_metadata *metadata, struct sonde_diag *diag) {
    sonde_err err;
    if (window->view)
        err = build_from_table(window, profile, metadata, diag);
    else
        err = build_empty(profile, diag);
    if (err) {
        sonde_profile_destroy(*profile);
        *profile = NULL;
    }
    metadata->start_unix_ns = window->start_unix_ns;
    metadata->end_unix_ns = window->end_unix_ns;
    metadata->target_gone = window->is_gone;
    metadata->drops[0] = (struct engine_drop){"alloc_table_full", metadata->dropped};
    metadata->drop_count = 1;
    return err;
}
