/* SPDX-License-Identifier: Apache-2.0
 *
 * Has workers open each mapping's file and compile its unwind table, and sends the tables to the
 * guest. For mappings that were sampled, workers also load the symbol table while the capture still
 * runs. Every generation gets all of its tables again: the cache of service/unwind makes that
 * cheap, so no descriptors are kept here.
 *
 * Of one target, TABLES_MAX_OPENING mappings wait for workers at a time. The others of the newest
 * generation follow as these are done; those of an older one are never opened. So a guest whose
 * mappings change faster than they can be opened costs no more than one with many mappings. */
#include "service/engine/code/tables.h"
#include "service/engine/guest/guest_link.h"
#include "service/symbol/locate/proc_maps.h"

#include <stdlib.h>
#include <unistd.h>

struct table_job {
    struct job job;
    struct target *target;
    struct mapping *mapping;
    struct proc_maps *maps; /* retained; NULL = none */
    int memfd;              /* -1 = no table */
    size_t bytes;
};

static void open_and_compile(struct job *base) {
    struct table_job *job = container_of(base, struct table_job, job);
    struct engine *engine = base->engine;
    if (atomic_load(&engine->is_ending))
        return;
    tables_open_mapping(engine, &job->target->process, job->mapping);
    const struct symbol_module *module = mapping_module(job->mapping);
    if (!module || !job->mapping->has_bias)
        return;
    struct sonde_diag diag = {0};
    sonde_err err = tables_get(engine, module, &job->memfd, &job->bytes, &diag);
    if (err)
        job->memfd = -1; /* without a table, the guest follows frame pointers */
    mapping_set_problem(job->mapping, err, &diag);
}

static void send_table(struct target *target, uint64_t generation, struct table_job *job) {
    frames_to_guest message = sonde_guest_v1_ToGuest_init_zero;
    message.which_message = sonde_guest_v1_ToGuest_table_tag;
    message.message.table.generation = generation;
    message.message.table.start = job->mapping->start;
    message.message.table.bias = job->mapping->bias;
    message.message.table.bytes = job->bytes;
    link_send(target, &message, job->memfd);
    job->memfd = -1;
}

static void finish_generation(struct target *target, struct generation *generation) {
    if (generation->is_done || generation->served < generation->count)
        return;
    generation->is_done = true;
    proc_maps_release(target->guest->maps);
    target->guest->maps = NULL;
    frames_to_guest message = sonde_guest_v1_ToGuest_init_zero;
    message.which_message = sonde_guest_v1_ToGuest_tables_done_tag;
    message.message.tables_done.generation = generation->number;
    link_send(target, &message, -1);
}

/* The program itself will certainly be sampled, so its symbol table can be loaded at once. */
static void load_names_early(struct target *target, struct mapping *mapping) {
    if (target->captures && mapping_kind(mapping) == SYMBOL_MODULE_EXECUTABLE &&
        !mapping->is_loading_names &&
        !atomic_load_explicit(&mapping->has_names, memory_order_acquire))
        tables_load_mapping_names(target, mapping);
}

static void open_more(struct target *target, struct generation *generation);

/* The job's mapping is one of the newest generation. */
static void serve(struct target *target, struct generation *newest, struct table_job *job) {
    if (job->memfd >= 0)
        send_table(target, newest->number, job);
    if (job->mapping->served_serial != newest->serial)
        newest->served++;
    job->mapping->served_serial = newest->serial;
    finish_generation(target, newest);
}

static void on_opened(struct engine *engine, struct job *base) {
    struct table_job *job = container_of(base, struct table_job, job);
    struct target *target = job->target;
    struct mapping *mapping = job->mapping;
    struct generation *newest = target->space.generations[0];
    mapping->is_opening = false;
    mapping->is_opened = true;
    mapping->maps = NULL;
    proc_maps_release(job->maps);
    target->guest->opening--;
    load_names_early(target, mapping);
    bool is_current = newest && generation_find(newest, mapping->start) == mapping;
    if (is_current && target->guest->fd >= 0)
        serve(target, newest, job);
    if (newest && target->guest->fd >= 0)
        open_more(target, newest);
    if (job->memfd >= 0)
        close(job->memfd);
    target_wake_now(target); /* a report may wait for the names of this mapping */
    mapping_release(mapping);
    target_release(target);
    free(job);
}

static void open_mapping(struct target *target, struct mapping *mapping) {
    struct table_job *job = calloc(1, sizeof *job);
    if (!job) {
        target->guest->is_broken = true;
        target_wake_now(target);
        return;
    }
    job->job.perform = open_and_compile;
    job->job.complete = on_opened;
    job->target = target_retain(target);
    job->mapping = mapping_retain(mapping);
    job->memfd = -1;
    job->maps = mapping->maps = proc_maps_retain(target->guest->maps);
    mapping->is_opening = true;
    target->guest->opening++;
    target_start_job(target, target->engine->builders, &job->job);
}

/* Goes on behind the last mapping of the previous generation, so that all have their turn even if
 * no generation is ever completed. A mapping that is being opened for an older generation is served
 * when that job is done. */
static void open_more(struct target *target, struct generation *generation) {
    while (generation->asked < generation->count && target->guest->opening < TABLES_MAX_OPENING &&
           !target->guest->is_broken) {
        struct mapping *mapping = generation_next(generation, target->guest->opened_to);
        generation->asked++;
        target->guest->opened_to = mapping->start;
        if (!mapping->is_opening && mapping->served_serial != generation->serial)
            open_mapping(target, mapping);
    }
}

void tables_begin(struct target *target, struct generation *generation) {
    proc_maps_release(target->guest->maps);
    target->guest->maps = proc_maps_create(target->pid);
    open_more(target, generation);
    finish_generation(target, generation); /* for a generation without mappings */
}
