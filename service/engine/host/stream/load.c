/* SPDX-License-Identifier: Apache-2.0
 *
 * What a stream needs from files: the maps of a process when it is sampled first, and the module
 * and the unwind table of a mapping when it is on a stack first. Builders read them; the samples
 * that need them are parked meanwhile. */
#include "service/engine/host/stream/stream.h"

#include "service/engine/code/tables.h"
#include "service/process/process_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/auxv.h>

struct load_job {
    struct job job;
    struct host_stream *stream;
    struct host_process *process;
    struct process_identity identity; /* a copy, without a pidfd */
    struct mapping *mapping;          /* its table; NULL: the maps */
    struct generation *generation;    /* NULL: they could not be read */
    uint64_t began_ns, losses;
};

static void start(struct host_stream *stream, struct load_job *job) {
    stream->jobs++;
    engine_start_job(stream->engine, stream->engine->builders, &job->job);
}

static struct load_job *create(struct host_stream *stream, struct host_process *process,
                               void (*perform)(struct job *),
                               void (*complete)(struct engine *, struct job *)) {
    struct load_job *job = calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job->job.perform = perform;
    job->job.complete = complete;
    job->stream = stream;
    if (process) {
        job->process = process_retain(process);
        job->identity = process->identity;
    }
    return job;
}

static void finish(struct load_job *job) {
    struct host_stream *stream = job->stream;
    process_release(job->process);
    free(job);
    stream->jobs--;
    stream->park.has_news = true;
    for (struct target *target = stream->targets; target; target = target->host->next)
        target_wake_now(target);
    stream_free_if_over(stream);
}

/* --- tables ----------------------------------------------------------------------------------- */

static sonde_err load_vdso(struct host *host, const char *identity, struct sonde_diag *diag,
                           const struct unwind_view **view) {
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)getauxval(AT_SYSINFO_EHDR);
    if (!header)
        return SONDE_NOT_AVAILABLE;
    return unwind_views_get_memory(host->views, identity[0] ? identity : "vdso", header,
                                   tables_vdso_bytes(header), diag, view);
}

static void load_view(struct engine *engine, struct mapping *mapping) {
    const struct symbol_module *module = mapping_module(mapping);
    const struct unwind_view *view = NULL;
    struct sonde_diag diag = {0};
    if (!module || !mapping->has_bias)
        return;
    struct table_source source;
    sonde_err err = SONDE_NOT_AVAILABLE;
    if (symbol_module_kind(module) == SYMBOL_MODULE_VDSO)
        err = load_vdso(engine->host, symbol_module_file_identity(module), &diag, &view);
    else if (tables_source(module, &source))
        err = unwind_views_get(engine->host->views, source.identity, source.fd, source.debug_fd,
                               &diag, &view);
    mapping_set_problem(mapping, err, &diag);
    mapping->views = engine->host->views;
    mapping->view = err ? NULL : view; /* frames without a table are left by frame pointer */
}

static void perform_table(struct job *base) {
    struct load_job *job = container_of(base, struct load_job, job);
    if (atomic_load(&base->engine->is_ending))
        return;
    tables_open_mapping(base->engine, &job->identity, job->mapping);
    load_view(base->engine, job->mapping);
}

static void on_table(struct engine *engine, struct job *base) {
    struct load_job *job = container_of(base, struct load_job, job);
    job->mapping->is_opening = false;
    job->mapping->is_opened = true;
    mapping_release(job->mapping);
    finish(job);
}

void load_table(struct host_stream *stream, struct host_process *process, struct mapping *mapping) {
    if (mapping->is_opening || mapping->is_opened)
        return;
    (void)process_read_once(process); /* files are opened with its rights */
    struct load_job *job = create(stream, process, perform_table, on_table);
    if (!job)
        return; /* the next sample tries again */
    job->mapping = mapping_retain(mapping);
    mapping->is_opening = true;
    start(stream, job);
}

/* /proc/kallsyms takes a tenth of a second to read. */
static void perform_kernel(struct job *base) {
    struct mapping *mapping = container_of(base, struct load_job, job)->mapping;
    struct symbol_mapping from = mapping_as_symbol(mapping);
    struct symbol_module *module = NULL;
    struct sonde_diag diag = {0};
    if (atomic_load(&base->engine->is_ending) ||
        symbol_module_open(base->engine->symbols, 0, &from, &module, &diag) != SONDE_OK)
        return;
    mapping->has_bias = symbol_module_bias(module, &from, &mapping->bias);
    atomic_store_explicit(&mapping->module, module, memory_order_release);
}

void load_kernel(struct host_stream *stream) {
    struct mapping *mapping = stream->engine->host->kernel;
    if (mapping->is_opening || mapping->is_opened)
        return;
    struct load_job *job = create(stream, NULL, perform_kernel, on_table);
    if (!job)
        return;
    job->mapping = mapping_retain(mapping);
    mapping->is_opening = true;
    start(stream, job);
}

/* --- maps ------------------------------------------------------------------------------------- */

static void perform_maps(struct job *base) {
    struct load_job *job = container_of(base, struct load_job, job);
    if (atomic_load(&base->engine->is_ending) || !process_identity_is_alive(&job->identity))
        return;
    int fd = process_file_open(PROCESS_MAPS, job->identity.pid, 0, 0);
    if (fd >= 0)
        job->generation = code_map_read(fd);
    if (process_identity_is_alive(&job->identity))
        return;
    generation_destroy(job->generation);
    job->generation = NULL;
}

/* The mappings that were announced while the maps were read may be missing there. */
static void apply_pending(struct host_process *process, uint64_t since_ns) {
    for (uint32_t i = 0; i < process->pending_count; i++) {
        struct code_map_change *change = &process->pending[i];
        if (process->map && change->time_ns >= since_ns)
            (void)code_map_add(&process->map, change->mapping);
        mapping_release(change->mapping);
    }
    free(process->pending);
    process->pending = NULL;
    process->pending_count = 0;
}

static void on_maps(struct engine *engine, struct job *base) {
    struct load_job *job = container_of(base, struct load_job, job);
    struct host_process *process = job->process;
    if (process->map_state != HOST_MAP_READING) { /* it has called exec meanwhile */
        generation_destroy(job->generation);
        finish(job);
        return;
    }
    if (job->generation) {
        struct code_map *map = code_map_from(job->generation, process->map);
        if (map) {
            code_map_release(process->map);
            process->map = map;
        }
    }
    process->map_state = process->map ? HOST_MAP_KNOWN : HOST_MAP_GONE;
    process->losses_seen = process->is_overrun ? 0 : job->losses;
    process->is_overrun = false;
    apply_pending(process, job->began_ns);
    finish(job);
}

void load_maps(struct host_stream *stream, struct host_process *process) {
    if (process->map_state == HOST_MAP_READING)
        return;
    bool is_there = process_read_once(process) && !process->is_kernel;
    struct load_job *job = is_there ? create(stream, process, perform_maps, on_maps) : NULL;
    if (!job) {
        process->map_state = process->map ? HOST_MAP_KNOWN : HOST_MAP_GONE;
        process->losses_seen = stream->losses;
        return;
    }
    job->began_ns = now_monotonic_ns();
    job->losses = stream->losses;
    process->map_state = HOST_MAP_READING;
    start(stream, job);
}

static void postpone(struct host_process *process, uint64_t time_ns, struct mapping *mapping) {
    struct code_map_change *pending = process->pending;
    uint32_t count = process->pending_count;
    if (count < HOST_MAX_PENDING && (count & (count - 1)) == 0)
        pending = realloc(pending, (count ? 2 * count : 1) * sizeof *pending);
    if (count >= HOST_MAX_PENDING || !pending) {
        process->is_overrun = true;
        return;
    }
    pending[count] = (struct code_map_change){time_ns, mapping_retain(mapping)};
    process->pending = pending;
    process->pending_count++;
}

void maps_add(struct host_process *process, uint64_t time_ns, const struct host_mmap *from) {
    if (process->map_state != HOST_MAP_KNOWN && process->map_state != HOST_MAP_READING)
        return;
    struct mapping *mapping = code_map_mapping(from);
    if (!mapping)
        return;
    if (process->map_state == HOST_MAP_READING)
        postpone(process, time_ns, mapping);
    if (process->map)
        (void)code_map_add(&process->map, mapping);
    mapping_release(mapping);
}
