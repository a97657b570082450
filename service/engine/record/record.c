/* SPDX-License-Identifier: Apache-2.0
 *
 * A recorded target is referenced by the recorder's list and by each request that runs: its two
 * captures and the snapshot of its heap. Requests start with the recorder's lock held, so that an
 * event that arrives before the call has returned finds the handle. */
#include "api/base/clock.h"
#include "service/engine/record/record_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Stacks in the sums of all heaps, about 40 bytes each. */
#define RECORD_HEAP_STACKS (1u << 22)

void record_release(struct recorded *recorded) {
    if (--recorded->refs > 0)
        return;
    heap_delta_finish(&recorded->heap);
    machine_destroy(recorded->machine);
    free(recorded);
}

/* With the lock held: a request has ended. */
void record_end_request(struct recorded *recorded) {
    struct recorder *recorder = recorded->recorder;
    if (--recorder->requests == 0)
        pthread_cond_broadcast(&recorder->idle);
    record_release(recorded);
}

void record_begin_request(struct recorded *recorded) {
    recorded->refs++;
    recorded->recorder->requests++;
}

/* ---- CPU time ---- */

static void note_delivery(struct capture_slot *slot, int64_t until_unix_ns) {
    struct recorder *recorder = slot->recorded->recorder;
    lock_take(&recorder->lock);
    slot->until_unix_ns = until_unix_ns;
    slot->is_mute = false;
    pthread_cond_broadcast(&recorder->delivered);
    lock_drop(&recorder->lock);
}

static void deliver_window(struct capture_slot *slot, struct sonde_profile *profile,
                           const struct engine_metadata *metadata) {
    struct recorded *recorded = slot->recorded;
    struct recorder *recorder = recorded->recorder;
    struct record record = {
        .event = slot == &recorded->slots[CPU] ? SONDE_ON_CPU : SONDE_OFF_CPU,
        .target = &recorded->target,
        .cgroup = recorded->cgroup,
        .profile = profile,
        .begin_unix_ns = metadata->start_unix_ns,
        .end_unix_ns = metadata->end_unix_ns,
        .period_ns = metadata->period_ns,
        .samples = metadata->samples,
        .dropped = metadata->dropped,
        .truncated = metadata->truncated,
        .clock = metadata->clock,
        .weight = slot->choice.weight,
        .is_outside = recorded->is_outside,
    };
    if (record.event == SONDE_ON_CPU)
        record_read_clock(slot, metadata, &record);
    recorder->options.on_record(recorder->options.context, &record);
}

static void on_profile(void *context, struct sonde_profile *profile,
                       const struct engine_metadata *metadata) {
    struct capture_slot *slot = context;
    slot->pause_ms = 0;
    if (slot->recorded->machine)
        record_machine_add(slot->recorded, profile, metadata);
    else
        deliver_window(slot, profile, metadata);
    note_delivery(slot, metadata->end_unix_ns);
}

static bool is_same(struct record_choice left, struct record_choice right) {
    return left.frequency_hz == right.frequency_hz && left.weight == right.weight;
}

/* Whether another try may succeed. A target without an off-CPU source will not get one. */
static bool may_retry(const struct capture_slot *slot, sonde_err err) {
    bool is_off_cpu = slot == &slot->recorded->slots[OFF_CPU];
    return err != SONDE_TARGET_GONE && err != SONDE_UNAVAILABLE && err != SONDE_CANCELLED &&
           !(is_off_cpu && err != SONDE_OK);
}

/* With the lock held. While only its user's processes are recorded, the text says why. */
static void note_refusal(struct recorded *recorded, sonde_err err, const struct sonde_diag *diag) {
    char *text = recorded->recorder->refusal;
    if (recorded->machine && !recorded->is_own)
        snprintf(text, RECORD_REFUSAL, "%s", err ? sonde_diag_text(diag, err) : "");
}

/* When the next try is due. */
static uint64_t next_try_ms(struct capture_slot *slot, sonde_err err) {
    if (!may_retry(slot, err))
        return UINT64_MAX;
    slot->pause_ms = slot->pause_ms == 0                      ? RECORD_RETRY_MS
                     : slot->pause_ms < RECORD_MAX_TRY_MS / 2 ? slot->pause_ms * 2
                                                              : RECORD_MAX_TRY_MS;
    return slot->recorded->recorder->now_ms + slot->pause_ms;
}

static void on_end(void *context, sonde_err err, const struct sonde_diag *diag) {
    struct capture_slot *slot = context;
    struct recorder *recorder = slot->recorded->recorder;
    lock_take(&recorder->lock);
    struct engine_capture *ended = slot->capture;
    slot->capture = NULL;
    slot->retry_ms = next_try_ms(slot, err);
    if (!err && !is_same(slot->choice, slot->recorded->choice))
        slot->retry_ms = 0; /* it was ended for another choice */
    note_refusal(slot->recorded, err, diag);
    pthread_cond_broadcast(&recorder->delivered);
    record_end_request(slot->recorded);
    lock_drop(&recorder->lock);
    engine_capture_release(ended);
}

void record_start_capture(struct capture_slot *slot) {
    static const struct engine_capture_events events = {.on_profile = on_profile, .on_end = on_end};
    struct recorded *recorded = slot->recorded;
    const struct record_options *options = &recorded->recorder->options;
    bool is_off_cpu = slot == &recorded->slots[OFF_CPU];
    uint32_t off_cpu_hz = options->off_cpu_ms ? 1000 / options->off_cpu_ms : 0;
    const struct engine_cpu_spec spec = {
        .target = {.uuid = recorded->machine || recorded->is_outside ? NULL : recorded->target.uuid,
                   .pid = recorded->is_outside ? recorded->target.pid : 0,
                   .all = recorded->machine != NULL},
        .frequency_hz = !is_off_cpu  ? recorded->choice.frequency_hz
                        : off_cpu_hz ? off_cpu_hz
                                     : 1,
        .window_ms = options->window_ms,
        .event = is_off_cpu ? SONDE_OFF_CPU : SONDE_ON_CPU,
        .max_overhead = options->max_overhead,
        .is_recording = true,
    };
    struct sonde_diag diag = {0};
    if (is_off_cpu && !recorded->wants_waits)
        return;
    slot->choice = recorded->choice;
    slot->retry_ms = UINT64_MAX;
    slot->cpu_ns = 0;
    slot->until_unix_ns = clock_ns(CLOCK_REALTIME);
    if (recorded->choice.frequency_hz == 0)
        return;
    record_begin_request(recorded);
    recorded->is_own = false;
    sonde_err err =
        engine_capture_cpu(recorded->recorder->engine, &spec, &events, slot, &slot->capture, &diag);
    recorded->since_unix_ns = slot->until_unix_ns;
    note_refusal(recorded, err, &diag);
    if (err == SONDE_PERMISSION_DENIED && recorded->machine)
        err = record_machine_start_own(slot, &spec, &events);
    if (!err)
        return;
    slot->capture = NULL;
    slot->retry_ms = next_try_ms(slot, err);
    record_end_request(recorded);
}

/* ---- Targets ---- */

static struct record_choice choose(struct recorder *recorder, const struct engine_target *target) {
    const struct record_options *options = &recorder->options;
    return options->choose ? options->choose(options->context, target)
                           : (struct record_choice){options->frequency_hz, 1, false};
}

/* With the lock held. A capture that runs otherwise than it should ends with what it has; on_end
 * lets the next one begin. */
static void apply_choice(struct recorded *recorded) {
    recorded->choice = choose(recorded->recorder, recorded->machine ? NULL : &recorded->target);
    for (int i = 0; i < CAPTURES; i++) {
        struct capture_slot *slot = &recorded->slots[i];
        if (is_same(slot->choice, recorded->choice))
            continue;
        if (slot->capture)
            engine_capture_finish(slot->capture);
        else
            slot->retry_ms = 0;
    }
}

/* Without the lock. NULL when out of memory: this target is not recorded. */
static struct recorded *create_target(struct recorder *recorder,
                                      const struct engine_target *target) {
    struct recorded *recorded = calloc(1, sizeof *recorded);
    if (!recorded)
        return NULL;
    recorded->refs = 1;
    recorded->recorder = recorder;
    recorded->heap.room = &recorder->heap_room;
    recorded->target = *target;
    cgroup_read(target->pid, recorded->cgroup);
    recorded->wants_waits =
        record_wants_waits(&recorder->options, &recorded->target, recorded->cgroup);
    return recorded;
}

static void add_target(struct recorder *recorder, struct recorded *recorded) {
    const struct engine_target *target = &recorded->target;
    recorded->heap_due_ms = recorder->now_ms + recorder->options.heap_ms;
    recorded->choice = choose(recorder, target);
    recorded->next = recorder->targets;
    recorder->targets = recorded;
    record_waits_leave(recorder, target->pid);
    for (int i = 0; i < CAPTURES; i++) {
        recorded->slots[i].recorded = recorded;
        record_start_capture(&recorded->slots[i]);
    }
}

/* The engine ends the target's captures itself. Returns the target; end_request releases it. */
static struct recorded *remove_target(struct recorder *recorder,
                                      const struct engine_target *target) {
    for (struct recorded **at = &recorder->targets; *at; at = &(*at)->next) {
        struct recorded *recorded = *at;
        if (strcmp(recorded->target.uuid, target->uuid) != 0)
            continue;
        *at = recorded->next;
        if (recorder->machine)
            record_machine_leave(recorder, target->pid);
        record_begin_request(recorded);
        record_release(recorded);
        return recorded;
    }
    return NULL;
}

static void on_target(void *context, bool attached, const struct engine_target *target) {
    struct recorder *recorder = context;
    struct recorded *ended = NULL, *added = NULL;
    if (!target)
        return;
    added = attached ? create_target(recorder, target) : NULL;
    lock_take(&recorder->lock);
    if (added && !recorder->is_finishing)
        add_target(recorder, added);
    else if (added)
        record_release(added);
    else if (!attached)
        ended = remove_target(recorder, target);
    lock_drop(&recorder->lock);
    if (ended) {
        record_heap_end(ended);
        lock_take(&recorder->lock);
        record_end_request(ended);
        lock_drop(&recorder->lock);
    }
    if (!attached && recorder->options.on_gone)
        recorder->options.on_gone(recorder->options.context, target);
}

/* ---- The recorder ---- */

sonde_err record_create(struct engine *engine, const struct record_options *options,
                        struct recorder **created, struct sonde_diag *diag) {
    struct recorder *recorder = calloc(1, sizeof *recorder);
    *created = NULL;
    if (!recorder)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    recorder->engine = engine;
    recorder->options = *options;
    recorder->heap_room = RECORD_HEAP_STACKS;
    recorder->now_ms = options->now_monotonic_ms;
    lock_init(&recorder->lock, LOCK_RECORDER);
    pthread_cond_init(&recorder->idle, NULL);
    pthread_cond_init(&recorder->delivered, NULL);
    sonde_err err = options->machine ? record_machine_create(recorder) : SONDE_OK;
    if (!err)
        err = engine_watch(engine, on_target, recorder, &recorder->watch);
    if (err) {
        record_destroy(recorder);
        return sonde_fail(diag, err, "out of memory");
    }
    *created = recorder;
    return SONDE_OK;
}

/* With the lock held. */
static void report_counts(struct recorder *recorder) {
    uint32_t recorded_count = 0, left_out = 0;
    for (const struct recorded *recorded = recorder->targets; recorded; recorded = recorded->next) {
        recorded_count += recorded->choice.frequency_hz > 0;
        left_out += recorded->choice.is_left_out;
    }
    if (recorder->machine && recorder->machine->slots[CPU].capture) {
        recorded_count += machine_count(recorder->machine->machine);
        left_out += machine_left_out(recorder->machine->machine);
    }
    if (recorder->options.on_counts)
        recorder->options.on_counts(recorder->options.context, recorded_count, left_out);
}

/* With the lock held. */
static void start_due(struct recorded *recorded) {
    for (int i = 0; i < CAPTURES; i++) {
        struct capture_slot *slot = &recorded->slots[i];
        if (!slot->capture && recorded->recorder->now_ms >= slot->retry_ms)
            record_start_capture(slot);
    }
}

/* With the lock held. */
static void ask_due_heap(struct recorded *recorded) {
    const struct record_options *options = &recorded->recorder->options;
    uint64_t now_ms = recorded->recorder->now_ms;
    if (options->no_heap || recorded->choice.frequency_hz == 0 || now_ms < recorded->heap_due_ms)
        return;
    recorded->heap_due_ms = now_ms + options->heap_ms;
    if (!recorded->is_heap_asked)
        record_heap_ask(recorded);
}

void record_tick(struct recorder *recorder, uint64_t now_ms) {
    lock_take(&recorder->lock);
    recorder->now_ms = now_ms;
    for (struct recorded *recorded = recorder->targets; recorded && !recorder->is_finishing;
         recorded = recorded->next) {
        if (recorder->options.choose)
            apply_choice(recorded);
        start_due(recorded);
        ask_due_heap(recorded);
    }
    if (recorder->machine && !recorder->is_finishing) {
        if (recorder->options.choose)
            apply_choice(recorder->machine);
        record_machine_widen(recorder);
        start_due(recorder->machine);
    }
    report_counts(recorder);
    lock_drop(&recorder->lock);
}

/* With the lock held. */
static uint32_t count_guests(const struct recorder *recorder) {
    uint32_t count = 0;
    for (struct recorded *recorded = recorder->targets; recorded; recorded = recorded->next)
        count += recorded->slots[CPU].capture != NULL;
    return count;
}

uint32_t record_count_guests(struct recorder *recorder) {
    lock_take(&recorder->lock);
    uint32_t count = count_guests(recorder);
    lock_drop(&recorder->lock);
    return count;
}

uint32_t record_count(struct recorder *recorder) {
    lock_take(&recorder->lock);
    uint32_t count = count_guests(recorder);
    if (recorder->machine)
        count += machine_count(recorder->machine->machine);
    lock_drop(&recorder->lock);
    return count;
}

/* With the lock held. */
static void wait_until_idle(struct recorder *recorder) {
    const struct timespec until = clock_wait_end(RECORD_MAX_WAIT_S * 1000);
    while (recorder->requests > 0 && lock_wait_until(&recorder->lock, &recorder->idle, &until))
        continue;
}

static void finish_captures(struct recorded *recorded) {
    for (int i = 0; i < CAPTURES; i++)
        if (recorded->slots[i].capture)
            engine_capture_finish(recorded->slots[i].capture);
}

void record_finish(struct recorder *recorder) {
    engine_unwatch(recorder->engine, recorder->watch);
    recorder->watch = NULL;
    lock_take(&recorder->lock);
    recorder->is_finishing = true;
    pthread_cond_broadcast(&recorder->delivered);
    for (struct recorded *recorded = recorder->targets; recorded; recorded = recorded->next)
        finish_captures(recorded);
    for (struct recorded *recorded = recorder->waits; recorded; recorded = recorded->next)
        finish_captures(recorded);
    if (recorder->machine)
        finish_captures(recorder->machine);
    wait_until_idle(recorder);
    lock_drop(&recorder->lock);
}

bool record_is_idle(struct recorder *recorder) {
    lock_take(&recorder->lock);
    bool is_idle = recorder->requests == 0;
    lock_drop(&recorder->lock);
    return is_idle;
}

static void release_all(struct recorded **list) {
    while (*list) {
        struct recorded *recorded = *list;
        *list = recorded->next;
        record_release(recorded);
    }
}

void record_destroy(struct recorder *recorder) {
    if (!recorder)
        return;
    release_all(&recorder->targets);
    release_all(&recorder->waits);
    if (recorder->machine)
        record_release(recorder->machine);
    record_machine_finish(recorder);
    pthread_cond_destroy(&recorder->idle);
    pthread_cond_destroy(&recorder->delivered);
    lock_finish(&recorder->lock);
    free(recorder);
}
