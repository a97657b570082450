/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/capture/samples.h"
#include "service/engine/capture/clock.h"

/* Nodes of a recording's table, 4 MiB with their index, after which the next window gets another
 * one, and at which samples are dropped. At 19 Hz, 64 busy CPUs add less in 10 s. */
#define RECORDING_NODES     (1u << 17)
#define RECORDING_MAX_NODES (1u << 18)

/* Whether no client counts: only recordings, which nobody waits for, do. */
static bool has_only_recordings(const struct target *target) {
    for (struct cpu_capture *capture = target->captures; capture; capture = capture->next) {
        if (!capture->spec.is_recording && capture->state != CAPTURE_REPORTING)
            return false;
    }
    return true;
}

struct stacks *samples_new_stacks(const struct target *target) {
    return stacks_create(has_only_recordings(target) ? RECORDING_MAX_NODES : 0, target->info.uid);
}

/* Gives the target an empty stack table, if every counting capture has room for another part. */
static bool renew_stacks(struct target *target) {
    for (struct cpu_capture *capture = target->captures; capture; capture = capture->next) {
        if (cpu_capture_is_counting(capture) && !cpu_capture_can_renew(capture))
            return false;
    }
    struct stacks *stacks = samples_new_stacks(target);
    if (!stacks)
        return false;
    stacks_release(target->stacks);
    target->stacks = stacks;
    for (struct cpu_capture *capture = target->captures; capture; capture = capture->next) {
        if (cpu_capture_is_counting(capture))
            cpu_capture_renew(capture);
    }
    return true;
}

void samples_trim_stacks(struct target *target) {
    if (target->stacks && target->stacks->nodes.count >= RECORDING_NODES &&
        has_only_recordings(target))
        (void)renew_stacks(target); /* without memory the table stays, and what is new is dropped */
}

/* A window of recordings is not continued with another table: a program that makes so many stacks
 * in it is broken or hostile. Nor is it when the user has no memory. */
static bool may_renew(const struct target *target) {
    return !target->stacks->lacks_memory && !has_only_recordings(target);
}

static bool has_room(const struct count_key *key) {
    return key->stack != STACKS_FULL && key->thread != STACKS_FULL && key->label != STACKS_FULL &&
           key->lock != STACKS_FULL;
}

static bool counts_event(const struct cpu_capture *capture, enum sonde_event_id event) {
    enum sonde_event_id wanted = capture->spec.event;
    bool is_time = event == SONDE_ON_CPU || event == SONDE_OFF_CPU;
    return wanted == event || (wanted == SONDE_WALL && is_time);
}

/* At least as long as the amount, if that is a time. */
static uint64_t span_of(const struct spent *spent) {
    return spent->span_ns > spent->amount ? spent->span_ns : spent->amount;
}

static uint64_t amount_of(const struct cpu_capture *capture, const struct spent *spent) {
    return spent->renewed_amount && capture->start_ns >= spent->renewed_ns ? spent->renewed_amount
                                                                           : spent->amount;
}

static bool happened_inside(const struct cpu_capture *capture, uint64_t at_ns) {
    return at_ns >= capture->start_ns && (!capture->closed_ns || at_ns <= capture->closed_ns);
}

/* How much of the amount the capture counts. A sample stands for what was spent since the thread's
 * previous sample. If the clock was running before the capture started, for example at a
 * recording's 19 Hz, the first sample also covers time before the start, whose share is
 * subtracted. */
static uint64_t share_of(const struct cpu_capture *capture, const struct spent *spent) {
    if (!cpu_capture_is_counting(capture) || !counts_event(capture, spent->event))
        return 0;
    if (sonde_event_is_counted(spent->event) && spent->end_ns)
        return happened_inside(capture, spent->end_ns) ? spent->amount : 0;
    if (spent->end_ns == 0)
        return spent->amount;
    uint64_t amount = amount_of(capture, spent), span_ns = span_of(spent);
    uint64_t end_ns = spent->end_ns, begin_ns = end_ns > span_ns ? end_ns - span_ns : 0;
    if (capture->closed_ns && end_ns > capture->closed_ns)
        end_ns = capture->closed_ns;
    if (begin_ns < capture->start_ns)
        begin_ns = capture->start_ns;
    uint64_t inside_ns = end_ns > begin_ns ? end_ns - begin_ns : 0;
    if (span_ns == spent->amount || inside_ns >= span_ns)
        return inside_ns < amount ? inside_ns : amount;
    return (uint64_t)((double)amount * (double)inside_ns / (double)span_ns);
}

/* The waits that the capture counts, of which it counts some of the time. A wait that was reported
 * in part before the capture began is one of its waits, too. */
static double waits_of(struct cpu_capture *capture, const struct spent *spent) {
    if (!capture->spec.counts_waits)
        return 0;
    if (spent->waits < 0) {
        capture->are_waits_samples = true;
        return (double)capture->pending;
    }
    bool is_first_part = spent->end_ns <= capture->start_ns + span_of(spent);
    return spent->waits > 0 || !is_first_part ? spent->waits : 1;
}

/* Sets `pending` of each capture to the number of samples that the amount stands for; false when it
 * is 0 for all. */
static bool thin(struct target *target, const struct spent *spent) {
    bool any = false;
    for (struct cpu_capture *capture = target->captures; capture; capture = capture->next) {
        uint64_t share = share_of(capture, spent);
        capture->pending = share ? downsampler_take(&capture->downsampler, spent->tid, share) : 0;
        capture->pending_span = (struct time_span){spent->at_ns, share};
        capture->pending_waits = share ? waits_of(capture, spent) : 0;
        any |= capture->pending || capture->pending_waits > 0;
    }
    return any;
}

static void count(struct target *target, const struct count_key *key, const struct spent *spent) {
    for (struct cpu_capture *capture = target->captures; capture; capture = capture->next) {
        if (capture->pending > 0 || capture->pending_waits > 0)
            cpu_capture_count(capture, has_room(key) ? key : NULL, spent);
    }
}

void samples_add(struct target *target, const struct spent *spent) {
    if (!thin(target, spent))
        return;
    struct count_key key = spent->key(spent->context, target);
    if (!has_room(&key) && may_renew(target) && renew_stacks(target))
        key = spent->key(spent->context, target);
    count(target, &key, spent);
}
