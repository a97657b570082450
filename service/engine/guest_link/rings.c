/* SPDX-License-Identifier: Apache-2.0
 *
 * Maps the shared rings of a target and drains them into its captures. */
#include "service/engine/capture/cpu_capture.h"

#include "api/os/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

static sonde_err check_memory(int fd, uint64_t *bytes, struct sonde_diag *diag) {
    uint64_t most = drain_memory_bytes(RING_MAX_RINGS, RING_MAX_BYTES);
    (void)fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK); /* fails if the guest has sealed it */
    if (!shared_memory_is_sealed(fd, F_SEAL_SHRINK, 1, most, bytes))
        return sonde_fail(diag, SONDE_CORRUPT,
                          "the rings are not sealed shared memory of at most %llu bytes",
                          (unsigned long long)most);
    return SONDE_OK;
}

void rings_unmap(struct target *target) {
    if (target->rings)
        munmap(target->rings, target->rings_bytes);
    target->rings = NULL;
}

sonde_err rings_map(struct target *target, int fd, struct sonde_diag *diag) {
    uint64_t bytes;
    sonde_err err = check_memory(fd, &bytes, diag);
    if (err)
        return err;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return sonde_fail_os(diag, errno, "cannot map the rings");
    if (target->rings)
        rings_drain_all(target, now_monotonic_ns());
    rings_unmap(target);
    err = drain_init(&target->drain, memory, bytes, diag);
    if (err) {
        munmap(memory, bytes);
        return err;
    }
    target->rings = memory;
    target->rings_bytes = bytes;
    drain_read_counts(&target->drain, &target->seen);
    return SONDE_OK;
}

/* Gives the target an empty stack table, if every counting capture has room for another part. */
static bool renew_stacks(struct target *target) {
    for (struct cpu_capture *capture = target->captures; capture; capture = capture->next) {
        if (cpu_capture_is_counting(capture) && !cpu_capture_can_renew(capture))
            return false;
    }
    struct stacks *stacks = stacks_create(0);
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

/* Nodes of a recording's table, 4 MiB with their index. */
#define RECORDING_MAX_NODES (1u << 17)

void rings_trim_stacks(struct target *target) {
    if (!target->stacks || target->stacks->nodes.count < RECORDING_MAX_NODES)
        return;
    for (struct cpu_capture *capture = target->captures; capture; capture = capture->next) {
        if (cpu_capture_is_counting(capture) && !capture->spec.is_recording)
            return;
    }
    (void)renew_stacks(target); /* out of memory: the table grows on */
}

static bool has_room(const struct count_key *key) {
    return key->stack != STACKS_FULL && key->thread != STACKS_FULL && key->label != STACKS_FULL;
}

static struct count_key sample_key(struct target *target, const struct ring_sample *sample) {
    return (struct count_key){
        .stack = stacks_add_sample(target->stacks, &target->space, sample),
        .thread = thread_names_number(&target->names, target->stacks, sample->record.tid),
        .label = thread_names_label(&target->names, target->stacks, sample->label),
        .request = sample->request,
    };
}

static struct count_key unseen_key(struct target *target, const struct ring_unseen *unseen) {
    static const enum stack_note notes[] = {
        [RING_UNSEEN_BLOCKED] = STACK_NOTE_BLOCKED, [RING_UNSEEN_NO_CLOCK] = STACK_NOTE_NO_CLOCK,
        [RING_UNSEEN_SHORT] = STACK_NOTE_SHORT,     [RING_UNSEEN_ASLEEP] = STACK_NOTE_ASLEEP,
        [RING_UNSEEN_WAITING] = STACK_NOTE_WAITING, [RING_UNSEEN_KERNEL] = STACK_NOTE_KERNEL,
    };
    bool is_known = unseen->cause >= RING_UNSEEN_BLOCKED && unseen->cause <= RING_UNSEEN_LAST;
    enum stack_note note = is_known ? notes[unseen->cause] : STACK_NOTE_NO_CLOCK;
    return (struct count_key){
        .stack = stacks_add_note(target->stacks, note),
        .thread = thread_names_number(&target->names, target->stacks, unseen->record.tid),
    };
}

/* Time of a thread, on or off the CPU, up to end_ns on the monotonic clock; 0 = not known. at_ns is
 * when it was recorded, for the timeline. */
struct interval {
    uint32_t tid;
    bool is_off_cpu;
    uint64_t ns, end_ns, at_ns;
};

/* How much of the interval the capture counts, in ns. A sample stands for the time since the
 * thread's previous sample. If the clock was running before the capture started, for example at a
 * recording's 19 Hz, the first sample also covers time before the start, which is subtracted. */
static uint64_t weight_for(const struct cpu_capture *capture, const struct interval *interval) {
    enum engine_mode mode = capture->spec.mode;
    if (!cpu_capture_is_counting(capture) ||
        mode == (interval->is_off_cpu ? ENGINE_CPU : ENGINE_OFF_CPU))
        return 0;
    if (interval->end_ns == 0)
        return interval->ns;
    if (interval->end_ns <= capture->start_ns)
        return 0;
    uint64_t most = interval->end_ns - capture->start_ns;
    return interval->ns < most ? interval->ns : most;
}

/* Sets `pending` of each capture to the number of samples that the interval stands for; false when
 * it is 0 for all. */
static bool thin(struct target *target, const struct interval *interval) {
    uint64_t any = 0;
    for (struct cpu_capture *capture = target->captures; capture; capture = capture->next) {
        uint64_t weight_ns = weight_for(capture, interval);
        capture->pending =
            weight_ns ? downsampler_take(&capture->downsampler, interval->tid, weight_ns) : 0;
        capture->pending_span = (struct time_span){interval->at_ns, weight_ns};
        any |= capture->pending;
    }
    return any != 0;
}

static void count(struct target *target, const struct count_key *key,
                  const struct ring_sample *sample) {
    for (struct cpu_capture *capture = target->captures; capture; capture = capture->next) {
        if (capture->pending > 0)
            cpu_capture_count(capture, has_room(key) ? key : NULL, sample);
    }
}

static void add_sample(struct target *target, const struct ring_sample *sample, bool is_off_cpu) {
    struct interval interval = {sample->record.tid, is_off_cpu, sample->weight_ns, target->drain_ns,
                                target->drain_ns};
    if (sample->time_ns < interval.end_ns)
        interval.end_ns = sample->time_ns;
    if (interval.end_ns)
        interval.at_ns = interval.end_ns;
    if (!is_off_cpu && target->has_process_clock)
        interval.end_ns = 0; /* the time is that of several threads */
    if (!thin(target, &interval))
        return;
    struct count_key key = sample_key(target, sample);
    if (!has_room(&key) && renew_stacks(target))
        key = sample_key(target, sample);
    count(target, &key, sample);
}

static void on_sample(void *context, const struct ring_sample *sample) {
    add_sample(context, sample, false);
}

static void on_blocked(void *context, const struct ring_sample *sample) {
    add_sample(context, sample, true);
}

static void on_unseen(void *context, const struct ring_unseen *unseen) {
    struct target *target = context;
    bool is_off_cpu = unseen->cause == RING_UNSEEN_ASLEEP || unseen->cause == RING_UNSEEN_WAITING;
    struct interval interval = {unseen->record.tid, is_off_cpu, unseen->cpu_ns,
                                is_off_cpu ? target->drain_ns : 0, target->drain_ns};
    if (!thin(target, &interval))
        return;
    struct count_key key = unseen_key(target, unseen);
    if (!has_room(&key) && renew_stacks(target))
        key = unseen_key(target, unseen);
    count(target, &key, NULL);
}

static void on_thread(void *context, const struct ring_thread *thread) {
    struct target *target = context;
    thread_names_learn(&target->names, thread);
}

/* A counter that has shrunk counts as unchanged, and its new value is the next base. */
static uint64_t growth(uint64_t now, uint64_t before) {
    return now > before && now - before < UINT64_MAX / 2 ? now - before : 0;
}

static void take_counts(struct target *target, uint64_t corrupt) {
    struct drain_counts counts;
    uint64_t grown[DROP_CAUSES] = {[DROP_CORRUPT] = corrupt};
    drain_read_counts(&target->drain, &counts);
    for (int i = 0; i < RING_DROP_COUNT; i++)
        grown[i] = growth(counts.drops[i], target->seen.drops[i]);
    target->totals.handler_ns += growth(counts.handler_ns, target->seen.handler_ns);
    target->totals.handler_count += growth(counts.handler_count, target->seen.handler_count);
    target->seen = counts;
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
                                           .is_over = is_over};
    struct drain_sink here = sink;
    here.context = target;
    target->drain_ns = now_ns;
    target->drain_end_ns = thread_cpu_ns() + limit_ns;
    take_counts(target, drain_run(&target->drain, now_ns, bytes, &here));
    if (target->stacks)
        (void)tables_load_names(target, target->stacks);
}

bool rings_drain(struct target *target, uint64_t now_ns, uint64_t budget) {
    if (!target->rings)
        return false;
    drain(target, now_ns, budget, target->engine->turn_ns);
    return target->drain.has_more;
}

void rings_drain_all(struct target *target, uint64_t now_ns) {
    if (!target->rings)
        return;
    drain(target, now_ns, 0, target->engine->last_ns);
    if (!target->drain.has_more)
        return;
    uint64_t unread = drain_discard(&target->drain);
    target->totals.drops[DROP_UNREAD] += unread;
    atomic_fetch_add_explicit(&target->engine->drops[DROP_UNREAD], unread, memory_order_relaxed);
}
