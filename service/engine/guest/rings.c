/* SPDX-License-Identifier: Apache-2.0
 *
 * The guest as a source: maps the rings that it shares, drains them into its target's captures, and
 * sends it CpuConfig. */
#include "service/engine/capture/clock.h"
#include "service/engine/capture/samples.h"
#include "service/engine/code/tables.h"
#include "service/engine/guest/guest_link.h"
#include "service/symbol/locate/proc_maps.h"

#include "api/os/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>

static sonde_err check_memory(int fd, uint64_t *bytes, struct sonde_diag *diag) {
    uint64_t most = drain_memory_bytes(RING_MAX_RINGS, RING_MAX_BYTES);
    (void)fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK); /* fails if the guest has sealed it */
    if (!shared_memory_is_sealed(fd, F_SEAL_SHRINK, 1, most, bytes))
        return sonde_fail(diag, SONDE_CORRUPT,
                          "the rings are not sealed shared memory of at most %llu bytes",
                          (unsigned long long)most);
    return SONDE_OK;
}

void guest_rings_unmap(struct target *target) {
    if (target->guest->rings)
        munmap(target->guest->rings, target->guest->rings_bytes);
    target->guest->rings = NULL;
}

sonde_err guest_rings_map(struct target *target, int fd, struct sonde_diag *diag) {
    uint64_t bytes;
    sonde_err err = check_memory(fd, &bytes, diag);
    if (err)
        return err;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return sonde_fail_os(diag, errno, "cannot map the rings");
    if (target->guest->rings)
        guest_rings_drain_all(target, now_monotonic_ns());
    guest_rings_unmap(target);
    err = drain_init(&target->guest->drain, memory, bytes, diag);
    if (err) {
        munmap(memory, bytes);
        return err;
    }
    target->guest->rings = memory;
    target->guest->rings_bytes = bytes;
    drain_read_counts(&target->guest->drain, &target->guest->seen);
    return SONDE_OK;
}

/* Only the guest knows labels, so a target that uses them keeps it as its source (find_for_cpu). */
static void note_labels(struct target *target, bool has_labels) {
    if (has_labels)
        atomic_store_explicit(&target->uses_labels, true, memory_order_relaxed);
}

static struct count_key sample_key(void *context, struct target *target) {
    const struct ring_sample *sample = context;
    return (struct count_key){
        .stack = stacks_add_sample(target->stacks, 0, &target->space, sample),
        .thread = thread_names_number(&target->names, target->stacks, sample->record.tid),
        .label = thread_names_label(&target->names, target->stacks, sample->label),
        .request = sample->request,
    };
}

static struct count_key unseen_key(void *context, struct target *target) {
    const struct ring_unseen *unseen = context;
    return (struct count_key){
        .stack = stacks_add_note(target->stacks, 0, stack_unseen_note(unseen->cause)),
        .thread = thread_names_number(&target->names, target->stacks, unseen->record.tid),
    };
}

static void add_sample(struct target *target, const struct ring_sample *sample,
                       enum sonde_event_id event) {
    struct spent spent = {
        .tid = sample->record.tid,
        .event = event,
        .amount = sample->weight_ns,
        .end_ns = target->drain_ns,
        .waits = -1,
        .at_ns = target->drain_ns,
        .has_stack = true,
        .end = (enum stack_end)sample->end,
        .is_forgotten = !space_knows(&target->space, sample->record.generation),
        .key = sample_key,
        .context = (void *)sample,
    };
    uint64_t time_ns = sample->time_ns; /* 0 = unknown */
    if (time_ns)
        time_ns -= (uint64_t)target->guest->clock_ahead_ns;
    if (time_ns < spent.end_ns)
        spent.end_ns = time_ns;
    if (spent.end_ns)
        spent.at_ns = spent.end_ns;
    if (event == SONDE_ON_CPU && target->has_process_clock)
        spent.end_ns = 0; /* the time is that of several threads */
    samples_add(target, &spent);
}

static void on_sample(void *context, const struct ring_sample *sample) {
    note_labels(context, sample->label != 0 || sample->request != 0);
    add_sample(context, sample, SONDE_ON_CPU);
}

static void on_blocked(void *context, const struct ring_sample *sample) {
    note_labels(context, sample->label != 0 || sample->request != 0);
    add_sample(context, sample, SONDE_OFF_CPU);
}

static void on_unseen(void *context, const struct ring_unseen *unseen) {
    struct target *target = context;
    bool is_off_cpu = unseen->cause == RING_UNSEEN_ASLEEP || unseen->cause == RING_UNSEEN_WAITING;
    struct spent spent = {
        .tid = unseen->record.tid,
        .event = is_off_cpu ? SONDE_OFF_CPU : SONDE_ON_CPU,
        .amount = unseen->cpu_ns,
        .end_ns = is_off_cpu ? target->drain_ns : 0,
        .waits = -1,
        .at_ns = target->drain_ns,
        .key = unseen_key,
        .context = (void *)unseen,
    };
    samples_add(target, &spent);
}

static void on_thread(void *context, const struct ring_thread *thread) {
    struct target *target = context;
    note_labels(target, thread->label != 0);
    thread_names_learn(&target->names, thread);
}

static void on_span(void *context, const struct ring_span *span) {
    struct target *target = context;
    if (target->stacks)
        stacks_add_span(target->stacks, span);
}

/* A counter that has shrunk counts as unchanged, and its new value is the next base. */
static uint64_t growth(uint64_t now, uint64_t before) {
    return now > before && now - before < UINT64_MAX / 2 ? now - before : 0;
}

static void take_counts(struct target *target, uint64_t corrupt) {
    struct drain_counts counts;
    uint64_t grown[DROP_CAUSES] = {[DROP_CORRUPT] = corrupt};
    drain_read_counts(&target->guest->drain, &counts);
    for (int i = 0; i < RING_DROP_COUNT; i++)
        grown[i] = growth(counts.drops[i], target->guest->seen.drops[i]);
    target->totals.handler_ns += growth(counts.handler_ns, target->guest->seen.handler_ns);
    target->totals.handler_count += growth(counts.handler_count, target->guest->seen.handler_count);
    target->guest->seen = counts;
    for (int i = 0; i < DROP_CAUSES; i++) {
        target->totals.drops[i] += grown[i];
        if (grown[i])
            atomic_fetch_add_explicit(&target->engine->drops[i], grown[i], memory_order_relaxed);
    }
}

static bool is_over(void *context) {
    const struct target *target = context;
    return thread_cpu_ns() >= target->drain_end_ns;
}

static void drain(struct target *target, uint64_t now_ns, uint64_t bytes, uint64_t limit_ns) {
    static const struct drain_sink sink = {.on_sample = on_sample,
                                           .on_thread = on_thread,
                                           .on_unseen = on_unseen,
                                           .on_blocked = on_blocked,
                                           .on_span = on_span,
                                           .is_over = is_over};
    struct drain_sink here = sink;
    here.context = target;
    target->drain_ns = now_ns;
    target->drain_end_ns = thread_cpu_ns() + limit_ns;
    take_counts(target, drain_run(&target->guest->drain, now_ns, bytes, &here));
    if (target->stacks)
        (void)tables_load_names(target, target->stacks);
}

/* Once a second, unmaps the pages that were read. They are the guest's memory, and it fills them
 * again before they are needed here: rings of many guests would count as this process's memory. */
static void unmap_pages(struct target *target, uint64_t now_ns) {
    if (now_ns < target->guest->unmap_ns || target->guest->drain.taken == 0)
        return;
    target->guest->unmap_ns = now_ns + 1000000000ull;
    (void)madvise(target->guest->rings, target->guest->rings_bytes, MADV_DONTNEED);
}

bool guest_rings_drain(struct target *target, uint64_t now_ns, uint64_t budget) {
    if (!target->guest->rings)
        return false;
    drain(target, now_ns, budget, target->engine->turn_ns);
    unmap_pages(target, now_ns);
    return target->guest->drain.has_more;
}

void guest_rings_drain_all(struct target *target, uint64_t now_ns) {
    if (!target->guest->rings)
        return;
    drain(target, now_ns, 0, target->engine->last_ns);
    if (!target->guest->drain.has_more)
        return;
    uint64_t unread = drain_discard(&target->guest->drain);
    target->totals.drops[DROP_UNREAD] += unread;
    atomic_fetch_add_explicit(&target->engine->drops[DROP_UNREAD], unread, memory_order_relaxed);
}

static void set_periods(struct target *target, uint64_t period_ns, uint64_t wall_period_ns) {
    frames_to_guest message = sonde_guest_v1_ToGuest_init_zero;
    message.which_message = sonde_guest_v1_ToGuest_cpu_config_tag;
    message.message.cpu_config.sequence = target->sequence;
    message.message.cpu_config.period_ns = period_ns;
    message.message.cpu_config.wall_period_ns = wall_period_ns;
    message.message.cpu_config.counts_past = clock_is_for_recordings(target);
    link_send(target, &message, -1);
}

/* Whether the last drain has shown that many threads are writing. */
static bool is_busy(const struct target *target) {
    return target->guest->drain.taken > target->guest->drain.ring_bytes / ENGINE_DRAIN_PART;
}

/* On Linux, the CPU clock of another process can be read by its pid. */
static void read_cpu(struct target *target) {
    clockid_t id;
    struct timespec used;
    if (target->pid <= 0 || clock_getcpuclockid(target->pid, &id) != 0 ||
        clock_gettime(id, &used) != 0 || !process_identity_is_alive(&target->process))
        return;
    uint64_t now_ns = (uint64_t)used.tv_sec * 1000000000ull + (uint64_t)used.tv_nsec;
    if (target->cpu_seen_ns != 0 && now_ns > target->cpu_seen_ns)
        target->totals.target_cpu_ns += now_ns - target->cpu_seen_ns;
    target->cpu_seen_ns = now_ns;
}

/* The guest's sums start at 0 with its clocks. */
static void started(struct target *target) {
    target->guest->account_seen_ns = target->guest->control_seen_ns = 0;
}

static void empty(struct target *target) {
    guest_rings_unmap(target);
    proc_maps_release(target->guest->maps);
    target->guest->maps = NULL;
}

const struct source_ops guest_source = {
    .set_periods = set_periods,
    .drain = guest_rings_drain,
    .drain_all = guest_rings_drain_all,
    .is_busy = is_busy,
    .read_cpu = read_cpu,
    .last_wait_ns = ENGINE_STOP_NS,
    .started = started,
    .empty = empty,
};
