/* SPDX-License-Identifier: Apache-2.0
 *
 * The result of an allocation window: the difference of two readings of Sonde's sampler, or of two
 * dumps of a jemalloc that counts all allocations (prof_accum). In dumps, each stack is scaled
 * before anything is subtracted. */
#include "service/engine/allocs/alloc_report.h"
#include "service/engine/allocs/allocs.h"
#include "service/engine/heap/dump_profile.h"

#include "api/profile/jemalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Sonde's sampler ---- */

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
    snprintf(text, size, "backend: Sonde's sampler on the malloc of %s, %s", window->allocator,
             how);
}

static sonde_err build_from_table(struct allocs_window *window, struct sonde_profile **profile,
                                  struct engine_metadata *metadata, struct sonde_diag *diag) {
    struct alloc_sums sums = {0};
    char comment[192];
    sonde_err err = alloc_view_read(window->view, &(struct alloc_choice){0}, &sums);
    if (err)
        return sonde_fail(diag, err, "the sampler's table could not be read: out of memory");
    alloc_sums_subtract(&sums, &window->before);
    describe(window, comment, sizeof comment);
    struct sonde_buf maps = {0};
    alloc_report_read_maps(window->process, &maps); /* libraries may have been loaded since */
    struct alloc_report report = {
        .view = window->view,
        .sums = &sums,
        .process = window->process,
        .maps = sonde_buf_slice(maps.len ? &maps : &window->maps),
        .mean = window->spec.probability > 0 ? 0 : window->spec.sample_bytes,
        .start_unix_ns = window->start_unix_ns,
        .end_unix_ns = window->end_unix_ns,
        .comment = comment,
    };
    err = alloc_report_profile(window->base.engine, &report, profile, diag);
    metadata->samples = sums.samples;
    metadata->dropped = sums.dropped;
    sonde_buf_finish(&maps);
    alloc_sums_finish(&sums);
    return err;
}

/* ---- jemalloc's dumps ---- */

static sonde_err build_dump(struct allocs_window *window, int which, struct sonde_profile **profile,
                            struct sonde_diag *diag) {
    struct heap_text text;
    *profile = NULL;
    sonde_err err = heap_text_open(window->dumps[which], &text, diag);
    if (!err)
        err = heap_profile_build(window->base.engine, window->process, &text, profile, diag);
    heap_text_finish(&text);
    return err;
}

static sonde_err copy_functions(const struct sonde_profile *from, struct sonde_profile *into) {
    sonde_err err = SONDE_OK;
    for (uint32_t id = 1; id <= sonde_profile_function_count(from) && !err; id++) {
        struct sonde_function function = *sonde_profile_function(from, id);
        uint32_t *texts[] = {&function.name, &function.system_name, &function.filename}, unused;
        for (int i = 0; i < 3 && !err; i++) {
            const char *text = sonde_profile_text(from, *texts[i]);
            err = sonde_profile_string(into, text, strlen(text), texts[i]);
        }
        if (!err)
            err = sonde_profile_add_function(into, &function, &unused);
    }
    return err;
}

static sonde_err copy_mappings(const struct sonde_profile *from, struct sonde_profile *into) {
    sonde_err err = SONDE_OK;
    for (uint32_t id = 1; id <= sonde_profile_mapping_count(from) && !err; id++) {
        struct sonde_mapping mapping = *sonde_profile_mapping(from, id);
        const char *name = sonde_profile_text(from, mapping.filename);
        const char *build_id = sonde_profile_text(from, mapping.build_id);
        uint32_t unused;
        err = sonde_profile_string(into, name, strlen(name), &mapping.filename);
        if (!err)
            err = sonde_profile_string(into, build_id, strlen(build_id), &mapping.build_id);
        if (!err)
            err = sonde_profile_add_mapping(into, &mapping, &unused);
    }
    return err;
}

/* `from` has no duplicates, so ids stay the same. */
static sonde_err copy_totals(const struct sonde_profile *from, struct sonde_profile *into) {
    uint32_t unused;
    sonde_err err = copy_mappings(from, into);
    if (!err)
        err = copy_functions(from, into);
    for (uint32_t id = 1; id <= sonde_profile_location_count(from) && !err; id++)
        err = sonde_profile_add_location(into, sonde_profile_location(from, id), &unused);
    for (size_t i = 0; i < sonde_profile_sample_count(from) && !err; i++) {
        struct sonde_sample sample = sonde_profile_sample(from, i);
        int64_t values[] = {sample.values[0] > 0 ? sample.values[0] : 0,
                            sample.values[1] > 0 ? sample.values[1] : 0};
        sample.values = values;
        sample.sampled = 0; /* it described the memory in use */
        sample.label_count = 0;
        if (values[0] > 0 || values[1] > 0)
            err = sonde_profile_add_sample(into, &sample);
    }
    return err;
}

static sonde_err subtract(struct sonde_profile *after, const struct sonde_profile *before,
                          struct sonde_profile **profile, struct sonde_diag *diag) {
    if (sonde_profile_type_count(after) != 4)
        return SONDE_OK; /* jemalloc did not count at all */
    sonde_err err = sonde_profile_type_count(before) == 4
                        ? sonde_profile_merge(after, before, -1, diag)
                        : SONDE_OK;
    return err ? err : copy_totals(after, *profile);
}

static sonde_err build_from_dumps(struct allocs_window *window, struct sonde_profile **profile,
                                  struct sonde_diag *diag) {
    struct sonde_profile *dumps[2] = {NULL, NULL};
    struct sonde_profile_info info = {.period_type = {"space", "bytes"},
                                      .default_type = 1,
                                      .is_unbiased = true,
                                      .time_unix_ns = window->start_unix_ns};
    *profile = alloc_report_empty();
    sonde_err err = *profile ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    for (int i = 0; i < 2 && !err; i++)
        err = build_dump(window, i, &dumps[i], diag);
    if (!err)
        err = subtract(dumps[1], dumps[0], profile, diag);
    info.duration_ns = window->end_unix_ns - window->start_unix_ns;
    if (!err && sonde_profile_type_count(dumps[1]) > 0)
        info.period = sonde_profile_info(dumps[1])->period;
    if (!err) {
        sonde_profile_set_info(*profile, &info);
        err = sonde_profile_add_comment(
            *profile, "backend: two dumps of jemalloc with prof_accum, at its own sampling rate");
    }
    for (int i = 0; i < 2; i++)
        sonde_profile_destroy(dumps[i]);
    return err;
}

/* ---- Either ---- */

static sonde_err build_empty(struct sonde_profile **profile, struct sonde_diag *diag) {
    *profile = alloc_report_empty();
    return *profile ? SONDE_OK : sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
}

sonde_err allocs_build(struct allocs_window *window, struct sonde_profile **profile,
                       struct engine_metadata *metadata, struct sonde_diag *diag) {
    sonde_err err;
    if (window->view)
        err = build_from_table(window, profile, metadata, diag);
    else if (window->dumps[1] >= 0)
        err = build_from_dumps(window, profile, diag);
    else
        err = build_empty(profile, diag);
    if (err) {
        sonde_profile_destroy(*profile);
        *profile = NULL;
    }
    metadata->start_unix_ns = window->start_unix_ns;
    metadata->end_unix_ns = window->end_unix_ns;
    metadata->clock = metadata->clock_note = metadata->budget_note = "";
    metadata->target_gone = window->is_gone;
    metadata->drops[0] = (struct engine_drop){"alloc_table_full", metadata->dropped};
    metadata->drop_count = 1;
    return err;
}
