/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/host/stream/waits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

static void wake_targets(struct host_stream *stream) {
    for (struct target *target = stream->targets; target; target = target->host->next)
        target_wake_now(target);
}

/* --- life cycle -------------------------------------------------------------------------------*/

static uint64_t wanted_period(const struct host_stream *stream) {
    uint64_t period_ns = 0;
    for (const struct target *target = stream->targets; target; target = target->host->next) {
        uint64_t wanted_ns = target->wall_period_ns;
        if (wanted_ns && (period_ns == 0 || wanted_ns < period_ns))
            period_ns = wanted_ns;
    }
    return period_ns;
}

bool waits_want_locks(const struct host_stream *stream) {
    bool are_wanted = false;
    for (const struct target *target = stream->targets; target; target = target->host->next)
        are_wanted |= target->wants_locks;
    return are_wanted;
}

static struct waits *get(struct host_stream *stream) {
    if (!stream->waits)
        stream->waits = calloc(1, sizeof *stream->waits);
    if (stream->waits)
        stream->waits->stream = stream;
    return stream->waits;
}

static void drop_process(struct waits_process *process) {
    look_destroy(process->look);
    *process = (struct waits_process){.is_gone = true};
}

/* Not while a job runs. */
static void close_all(struct waits *waits) {
    for (uint32_t i = 0; i < waits->count; i++)
        drop_process(&waits->processes[i]);
    free(waits->processes);
    free(waits->pending);
    off_cpu_close(waits->off_cpu);
    *waits = (struct waits){.stream = waits->stream};
}

void waits_destroy(struct host_stream *stream) {
    if (!stream->waits)
        return;
    close_all(stream->waits);
    free(stream->waits);
    stream->waits = NULL;
}

static void watch_pid(struct waits *waits, pid_t pid) {
    if (waits->off_cpu)
        (void)off_cpu_watch(waits->off_cpu, pid, true);
}

static void watch_ring(struct waits *waits) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = waits->stream};
    (void)epoll_ctl(waits->stream->engine->host->epoll_fd, EPOLL_CTL_ADD,
                    off_cpu_poll_fd(waits->off_cpu), &event);
}

void waits_opened(struct waits *waits, struct off_cpu *off_cpu, const struct sonde_diag *diag,
                  struct waits_process *processes, uint32_t count, bool is_all) {
    waits->state = off_cpu ? WAITS_BPF : WAITS_LOOK;
    waits->off_cpu = off_cpu;
    waits->processes = processes;
    waits->count = count;
    waits->next_ns = 1;
    if (off_cpu) {
        off_cpu_set_period(off_cpu, waits->period_ns);
        off_cpu_set_locks(off_cpu, waits_want_locks(waits->stream));
        off_cpu_watch_all(off_cpu, is_all);
        watch_ring(waits);
    } else {
        snprintf(waits->why, sizeof waits->why, "%s", diag->text);
    }
    for (uint32_t i = 0; i < count; i++)
        watch_pid(waits, processes[i].pid);
    wake_targets(waits->stream);
}

/* --- counting the results of looks ------------------------------------------------------------*/

static void count_wait(struct host_process *process, const struct look_wait *wait) {
    struct host_record record = {
        .kind = HOST_OFF_CPU, .pid = process->pid, .tid = wait->tid, .time_ns = wait->end_ns};
    record.sample = (struct host_sample){.weight_ns = wait->ns,
                                         .span_ns = wait->end_ns - wait->since_ns,
                                         .waits = (double)wait->begun,
                                         .futex = wait->futex,
                                         .abi = HOST_ABI_64};
    const struct walked_stack stack = {wait->pcs, wait->count, wait->end, wait->note};
    sample_add_walked(process->stream, process, &record, &stack);
}

/* False: the process's maps are being read. */
static bool count_look(struct host_stream *stream, const struct look *look) {
    struct host_process *process = process_find(&stream->processes, look->process.pid);
    if (!process)
        process = process_add(stream, look->process.pid, 0);
    if (!process)
        return true;
    if (!sample_has_map(stream, process))
        return false;
    for (uint32_t i = 0; i < look->wait_count; i++)
        count_wait(process, &look->waits[i]);
    return true;
}

/* True when all is counted. */
static bool count_all(struct waits *waits) {
    bool is_done = true;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < waits->count; i++) {
        struct waits_process *process = &waits->processes[i];
        struct look *look = process->look;
        if (process->has_uncounted)
            process->has_uncounted = look->wait_count && !count_look(waits->stream, look);
        is_done &= !process->has_uncounted;
        bool is_over = process->is_gone || (look && look->is_gone) ||
                       (look && look->is_once && look->waits && look->next_ns == 0);
        if (is_over && !process->has_uncounted)
            drop_process(process);
        else
            waits->processes[kept++] = *process;
    }
    waits->count = kept;
    return is_done;
}

void waits_rounded(struct waits *waits, bool is_last, uint64_t began_ns, uint64_t next_ns) {
    waits->next_ns = next_ns;
    if (is_last)
        waits->flushed_ns = began_ns;
    for (uint32_t i = 0; i < waits->count; i++) {
        const struct look *look = waits->processes[i].look;
        waits->has_refused |= look && look->refused > 0;
    }
    wake_targets(waits->stream);
}

/* --- requests ---------------------------------------------------------------------------------*/

/* Lost waits are counted, but no change of a map was lost with them. */
static void on_record(void *context, const struct host_record *record) {
    if (record->kind == HOST_LOST)
        stream_count_drop(context, RING_DROP_FULL, record->lost);
    else
        stream_on_record(context, record);
}

/* The BPF program's part of a flush is done at once. */
static void flush_bpf(struct waits *waits) {
    struct host_stream *stream = waits->stream;
    (void)off_cpu_drain(waits->off_cpu, on_record, stream, NULL);
    off_cpu_flush(waits->off_cpu, on_record, stream);
}

void waits_ask(struct host_stream *stream) {
    uint64_t wanted_ns = wanted_period(stream);
    if (wanted_ns == 0 && (!stream->waits || stream->waits->state == WAITS_OFF))
        return;
    struct waits *waits = get(stream);
    if (!waits)
        return;
    waits->asked_ns = now_monotonic_ns();
    if (waits->state == WAITS_BPF)
        flush_bpf(waits);
    waits->period_ns = wanted_ns;
    waits->next_flush_ns = wanted_ns ? waits->next_flush_ns : 0;
    if (waits->state == WAITS_BPF && wanted_ns) {
        off_cpu_set_period(waits->off_cpu, wanted_ns);
        off_cpu_set_locks(waits->off_cpu, waits_want_locks(stream));
    }
    if (waits->state == WAITS_OFF && waits_start_opening(waits))
        waits->state = WAITS_OPENING;
}

bool waits_are_ready(const struct host_stream *stream) {
    return !stream->waits || stream->waits->state != WAITS_OPENING;
}

bool waits_are_flushed(const struct host_stream *stream) {
    const struct waits *waits = stream->waits;
    if (!waits || waits->state == WAITS_OFF || waits->state == WAITS_OPENING)
        return true;
    for (uint32_t i = 0; !waits->job && i < waits->count; i++) {
        if (waits->processes[i].has_uncounted)
            return false;
    }
    return !waits->job && (waits->flushed_ns >= waits->asked_ns ||
                           (waits->count == 0 && waits->pending_count == 0));
}

static void take_pending(struct waits *waits) {
    size_t count = waits->count + waits->pending_count;
    struct waits_process *processes = waits->processes;
    if (waits->pending_count == 0)
        return;
    processes = realloc(processes, count * sizeof *processes);
    if (processes)
        waits->processes = processes;
    for (uint32_t i = 0; processes && i < waits->pending_count; i++)
        processes[waits->count++] = (struct waits_process){.pid = waits->pending[i]};
    waits->pending_count = 0;
    waits->next_ns = 1;
}

uint64_t waits_tick(struct host_stream *stream, uint64_t now_ns) {
    struct waits *waits = stream->waits;
    if (!waits || waits->state == WAITS_OFF || waits->state == WAITS_OPENING)
        return 0;
    if (waits->state == WAITS_BPF && waits->period_ns && now_ns >= waits->next_flush_ns) {
        flush_bpf(waits);
        waits->next_flush_ns = now_ns + WAITS_FLUSH_NS;
    }
    if (waits->job)
        return waits->next_flush_ns;
    if (!count_all(waits))
        return now_ns + ENGINE_NAMES_LOOK_NS;
    take_pending(waits);
    bool is_last = waits->flushed_ns < waits->asked_ns;
    bool is_due = waits->next_ns && waits->next_ns <= now_ns;
    if (waits->count > 0 && (is_last || is_due))
        return waits_start_round(waits, is_last) ? 0 : now_ns + ENGINE_NAMES_LOOK_NS;
    if (waits->period_ns == 0) {
        close_all(waits);
        return 0;
    }
    return earlier(waits->count > 0 ? waits->next_ns : 0, waits->next_flush_ns);
}

/* --- records ----------------------------------------------------------------------------------*/

bool waits_drain(struct host_stream *stream, bool (*is_over)(void *context)) {
    struct waits *waits = stream->waits;
    if (!waits || !waits->off_cpu)
        return false;
    return off_cpu_drain(waits->off_cpu, on_record, stream, is_over);
}

static void add_process(struct waits *waits, pid_t pid) {
    watch_pid(waits, pid);
    if (waits->state != WAITS_LOOK || waits->count + waits->pending_count >= WAITS_MAX_PROCESSES)
        return;
    for (uint32_t i = 0; !waits->job && i < waits->count; i++) {
        if (waits->processes[i].pid == pid && !waits->processes[i].is_gone)
            return;
    }
    pid_t *pending = realloc(waits->pending, (waits->pending_count + 1) * sizeof *pending);
    if (!pending)
        return;
    waits->pending = pending;
    pending[waits->pending_count++] = pid;
}

static bool has_members(struct host_process *process) {
    process_find_members(process);
    for (uint32_t i = 0; i < process->member_count; i++) {
        if (process->members[i]->wall_period_ns)
            return true;
    }
    return false;
}

/* What the BPF program records of a process that belongs to no target is not counted. */
void waits_on_fork(struct host_stream *stream, pid_t parent, struct host_process *child) {
    struct waits *waits = stream->waits;
    if (!waits || (waits->state != WAITS_BPF && waits->state != WAITS_LOOK))
        return;
    if (waits->off_cpu ? off_cpu_watches(waits->off_cpu, parent) : has_members(child))
        add_process(waits, child->pid);
}

void waits_on_exec(struct host_process *process) {
    struct waits *waits = process->stream->waits;
    if (waits && (waits->state == WAITS_BPF || waits->state == WAITS_LOOK) && has_members(process))
        add_process(waits, process->pid);
}

/* --- texts ------------------------------------------------------------------------------------*/

void waits_note(const struct host_stream *stream, char *text, size_t size) {
    const struct waits *waits = stream->waits;
    text[0] = 0;
    if (!waits || waits->period_ns == 0)
        return;
    if (waits->has_refused)
        snprintf(text, size,
                 "waits: %s, because the kernel hides them (kernel.yama.ptrace_scope=0 or "
                 "CAP_SYS_PTRACE)",
                 waits->state == WAITS_LOOK ? "without stacks"
                                            : "threads that were blocked already have no stacks");
    else if (waits->state == WAITS_LOOK)
        snprintf(text, size, "waits: by looks (%s)", waits->why);
}
