/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/capture/growth.h"

#include "service/engine/capture/growth_state.h"
#include "service/engine/capture/samples.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define FIRST_CAPACITY 1024u

struct growth *growth_create(struct cpu_capture *capture) {
    struct growth *growth = calloc(1, sizeof *growth);
    if (!growth)
        return NULL;
    growth->capture = capture;
    growth->pid = capture->base.target->pid;
    growth->pagemap = -1;
    growth->share.uid = growth->looks_share.uid = capture->base.target->info.uid;
    return growth;
}

void growth_destroy(struct growth *growth) {
    if (!growth)
        return;
    if (growth->pagemap >= 0)
        close(growth->pagemap);
    resident_finish(&growth->before);
    resident_finish(&growth->now);
    free(growth->samples);
    free(growth->places);
    free(growth->rows);
    memory_share_finish(&growth->share);
    memory_share_finish(&growth->looks_share);
    free(growth);
}

/* --- faults ----------------------------------------------------------------------------------- */

static bool make_room(struct growth *growth) {
    size_t capacity = growth->capacity ? 2 * growth->capacity : FIRST_CAPACITY;
    size_t each = sizeof *growth->samples + sizeof *growth->places;
    if (!memory_share_take(&growth->share, (capacity - growth->capacity) * each))
        return false;
    struct grown_sample *samples = realloc(growth->samples, capacity * sizeof *samples);
    if (samples)
        growth->samples = samples;
    struct growth_place *places = realloc(growth->places, capacity * sizeof *places);
    if (places)
        growth->places = places;
    if (!samples || !places)
        return false;
    growth->capacity = capacity;
    return true;
}

static void halve(struct growth *growth) {
    uint64_t random = 0;
    size_t kept = 0;
    for (size_t i = 0; i < growth->count; i++, random >>= 1) {
        if (i % 64 == 0)
            random = engine_random(growth->capture->base.engine);
        if (!(random & 1))
            continue;
        growth->places[kept] = growth->places[i];
        growth->samples[kept] = growth->samples[i];
        growth->samples[kept].weight *= 2;
        growth->samples[kept].tag = (uint32_t)kept;
        kept++;
    }
    growth->count = kept;
    growth->halvings++;
}

sonde_err growth_add(struct growth *growth, const struct count_key *key,
                     const struct spent *spent) {
    struct cpu_capture *capture = growth->capture;
    uint64_t mask = (1ull << growth->halvings) - 1;
    if (growth->step >= GROWTH_DIVIDING || (engine_random(capture->base.engine) & mask) != 0)
        return SONDE_OK;
    if (growth->count == GROWTH_MAX_SAMPLES)
        halve(growth);
    if (growth->count == growth->capacity && !make_room(growth))
        return SONDE_OUT_OF_MEMORY;
    growth->samples[growth->count] =
        (struct grown_sample){.address = spent->address,
                              .weight = capture->pending << growth->halvings,
                              .tag = (uint32_t)growth->count};
    growth->places[growth->count++] = (struct growth_place){
        .part = capture->window.part_count - 1, .stack = key->stack, .thread = key->thread};
    return SONDE_OK;
}

/* --- looks ------------------------------------------------------------------------------------ */

static void start(struct growth *growth, enum growth_step step, void (*perform)(struct job *));

static sonde_err open_pagemap(struct growth *growth) {
    growth->pagemap = resident_open(growth->pid);
    if (growth->pagemap >= 0)
        return SONDE_OK;
    bool is_gone = growth->pagemap == -ENOENT || growth->pagemap == -ESRCH;
    return is_gone ? SONDE_TARGET_GONE : SONDE_PERMISSION_DENIED;
}

/* Takes the memory of both looks at the first one, so that a capture fails at once if it must. */
static sonde_err take_share(struct growth *growth) {
    size_t each = sizeof *growth->now.chunks, taken = growth->looks_share.bytes;
    size_t bytes = (growth->before.capacity + growth->now.capacity) * each;
    if (growth->step == GROWTH_FIRST_LOOK)
        bytes *= 2;
    if (bytes <= taken || memory_share_take(&growth->looks_share, bytes - taken))
        return SONDE_OK;
    growth->lacks_share = true;
    return SONDE_OUT_OF_MEMORY;
}

static sonde_err look(struct growth *growth) {
    bool is_first = growth->step == GROWTH_FIRST_LOOK;
    struct resident_set *set = is_first ? &growth->before : &growth->now;
    sonde_err err = is_first ? open_pagemap(growth) : SONDE_OK;
    if (!err)
        err = resident_read(growth->pagemap, growth->pid, set);
    /* The mappings may have been those of a process that has got the pid meanwhile. */
    if (!err && !process_identity_is_alive(&growth->capture->base.target->process))
        err = SONDE_TARGET_GONE;
    return err ? err : take_share(growth);
}

static void perform_look(struct job *base) {
    struct growth *growth = container_of(base, struct growth, job);
    sonde_err err = atomic_load(&base->engine->is_ending) ? SONDE_CANCELLED : look(growth);
    growth->has_ended = err == SONDE_TARGET_GONE;
    growth->err = growth->has_ended ? SONDE_OK : err;
}

static void perform_division(struct job *base) {
    struct growth *growth = container_of(base, struct growth, job);
    growth->err = growth_make_rows(growth);
}

/* A sample that did not fit into the ring leaves its faults without one. */
static double missed(const struct growth *growth) {
    const struct cpu_capture *capture = growth->capture;
    const struct totals *totals = &capture->base.target->totals;
    uint64_t lost = totals->drops[RING_DROP_FULL] - capture->first.drops[RING_DROP_FULL];
    uint64_t kept = growth->count << growth->halvings;
    return kept ? 1 + (double)lost / (double)kept : 1;
}

static void divide(struct growth *growth) {
    growth->missed = missed(growth);
    start(growth, GROWTH_DIVIDING, perform_division);
}

/* The next step, if what it needs is there. */
static void go_on(struct growth *growth) {
    if (growth->step == GROWTH_READY && growth->is_ending)
        start(growth, GROWTH_LAST_LOOK, perform_look);
    else if (growth->step == GROWTH_LOOKED && growth->is_concluding)
        divide(growth);
}

static void on_done(struct engine *engine, struct job *base) {
    struct growth *growth = container_of(base, struct growth, job);
    struct cpu_capture *capture = growth->capture;
    if (growth->step == GROWTH_FIRST_LOOK)
        cpu_capture_set_times(capture, now_monotonic_ns());
    growth->step = growth->err || growth->has_ended ? GROWTH_DONE : growth->step + 1;
    if (capture->state != CAPTURE_REPORTING)
        go_on(growth);
    if (growth->err && capture->state == CAPTURE_RUNNING)
        cpu_capture_close(capture);
    if (growth->step == GROWTH_DONE && growth->is_concluding && capture->state == CAPTURE_CLOSING)
        cpu_capture_conclude(capture);
    target_wake_now(capture->base.target);
    capture_release(&capture->base);
}

static void start(struct growth *growth, enum growth_step step, void (*perform)(struct job *)) {
    struct target *target = growth->capture->base.target;
    growth->step = step;
    growth->job.perform = perform;
    growth->job.complete = on_done;
    capture_retain(&growth->capture->base);
    target_start_job(target, target->engine->builders, &growth->job);
}

void growth_begin(struct growth *growth) {
    start(growth, GROWTH_FIRST_LOOK, perform_look);
}

void growth_end(struct growth *growth) {
    growth->is_ending = true;
    go_on(growth);
}

bool growth_conclude(struct growth *growth) {
    growth->is_concluding = true;
    growth_end(growth);
    return growth->step == GROWTH_IDLE || growth->step == GROWTH_DONE;
}

sonde_err growth_error(const struct growth *growth, struct sonde_diag *diag) {
    switch (growth->err) {
    case SONDE_OK:
        return SONDE_OK;
    case SONDE_PERMISSION_DENIED:
        return sonde_fail(
            diag, growth->err,
            "growth needs /proc/%d/pagemap, which this sonded may not read: run it as "
            "root or as that user, or grant it CAP_SYS_PTRACE (sonde doctor)",
            (int)growth->pid);
    case SONDE_OUT_OF_MEMORY:
        if (growth->lacks_share && memory_share_is_other(growth->looks_share.uid))
            return sonde_fail(
                diag, growth->err,
                "the looks at the pages of process %d do not fit into the memory that "
                "sonded keeps for its user (%zu MiB): end other captures of that "
                "user, or run sonded as that user",
                (int)growth->pid, MEMORY_USER >> 20);
        return sonde_fail(diag, growth->err, "no memory to look at the pages of the process");
    default:
        return sonde_fail(diag, growth->err, "the pages of process %d could not be read",
                          (int)growth->pid);
    }
}
