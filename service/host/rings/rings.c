/* SPDX-License-Identifier: Apache-2.0
 *
 *     all CPUs:   clock 1 of CPU 0 ─┬─ ring of CPU 0, owned by its first clock
 *                 clock 2 of CPU 0 ─┤
 *                 ...              ─┘
 *
 *     process:    event of thread 1 ─┐
 *                 event of thread 2 ─┼─ ring of CPU 0, owned by an event that is never enabled, so
 *                 ...               ─┘  that the ring outlives the threads and a change of period
 */
#include "service/host/rings/rings.h"

#include "api/base/clock.h"
#include "service/host/rings/counter.h"
#include "service/host/rings/cpu_clocks.h"
#include "service/host/rings/events.h"
#include "service/host/rings/lists.h"
#include "service/host/rings/merge.h"
#include "service/host/rings/parse.h"
#include "service/host/rings/ring.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define MAX_RING_BYTES    (8u << 20)
#define SHARED_RING_BYTES (512u << 10) /* where kernel.perf_event_mlock_kb is the limit */
#define MIN_RING_BYTES    (32u << 10)
#define MAX_ALL_BYTES     (128u << 20) /* of all rings together */
#define RECORDS_PER_LOOK  16u

struct watched {
    pid_t pid;
    uint64_t former_run_ns; /* of events that have been replaced */
};

struct rings {
    struct rings_options options;
    struct watched *processes;
    size_t process_count;
    struct number_list cpus;
    size_t ring_count; /* = cpus.count; offline ones have no owner */
    struct ring *rings;
    int *owners;              /* descriptors, -1 = none; with all CPUs those of `events` */
    struct cpu_clocks clocks; /* with all CPUs; counted events have one for each CPU */
    struct counter counter;   /* counted events */
    uint64_t former_total;    /* that events counted which have been replaced */
    unsigned format;          /* of samples (parse.h) */
    struct events events;
    bool is_started;
    int poll_fd;
    struct merge merge;
    uint8_t *space; /* for a record that wraps around */
    struct rings_counts counts;
};

static bool is_all(const struct rings *rings) {
    return rings->process_count == 0;
}

static bool is_counted(const struct rings *rings) {
    return rings->options.event != SONDE_ON_CPU;
}

static sonde_err say_no_memory(size_t bytes, int error, struct sonde_diag *diag) {
    if (error != EPERM)
        return SONDE_OUT_OF_MEMORY;
    return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                      "perf's memory of this user is used up, and a ring of %zu KiB does not fit: "
                      "end other captures, or raise kernel.perf_event_mlock_kb",
                      bytes >> 10);
}

/* Opens the event that owns the ring of a CPU. */
static sonde_err open_owner(struct rings *rings, size_t i, struct sonde_diag *diag) {
    const struct rings_options *options = &rings->options;
    struct perf_event_spec spec = {.pid = is_all(rings) ? -1 : getpid(),
                                   .cpu = rings->cpus.numbers[i],
                                   .event = options->event,
                                   .every = options->every,
                                   .period_ns =
                                       cpu_clocks_created_ns(&rings->clocks, options->period_ns, 0),
                                   .stack_bytes = options->stack_bytes,
                                   .has_kernel = options->has_kernel};
    rings->format = perf_event_format(&spec);
    sonde_err err = events_open_one(options, &spec, &rings->owners[i], diag);
    if (!err && rings->owners[i] >= 0 && is_all(rings))
        err = events_append(&rings->events, (struct event){rings->owners[i], -1});
    cpu_clocks_add(&rings->clocks, i, 0, rings->owners[i]);
    return err;
}

static sonde_err open_clock(struct rings *rings, size_t i, uint32_t number,
                            struct sonde_diag *diag) {
    const struct rings_options *options = &rings->options;
    struct perf_event_spec spec = {
        .pid = -1,
        .cpu = rings->cpus.numbers[i],
        .period_ns = cpu_clocks_created_ns(&rings->clocks, options->period_ns, number),
        .stack_bytes = options->stack_bytes,
        .has_kernel = options->has_kernel,
        .is_silent = true};
    int fd;
    sonde_err err = events_open_one(options, &spec, &fd, diag);
    if (err || fd < 0)
        return err;
    if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, rings->owners[i]))
        err = sonde_fail_os(diag, errno, "perf does not let events share a ring");
    else
        err = events_append(&rings->events, (struct event){fd, -1});
    if (err)
        close(fd);
    else
        cpu_clocks_add(&rings->clocks, i, number, fd);
    return err;
}

/* The further clocks of each CPU, when the rings are mapped. */
static sonde_err open_clocks(struct rings *rings, struct sonde_diag *diag) {
    sonde_err err = SONDE_OK;
    for (size_t i = 0; i < rings->ring_count && is_all(rings); i++)
        for (uint32_t number = 1; number < rings->clocks.each && !err; number++)
            if (rings->owners[i] >= 0)
                err = open_clock(rings, i, number, diag);
    return err;
}

static void unmap(struct rings *rings) {
    for (size_t i = 0; i < rings->ring_count; i++)
        ring_unmap(&rings->rings[i]);
}

/* 0 or -errno. */
static int map(struct rings *rings, size_t bytes) {
    int error = 0;
    for (size_t i = 0; !error && i < rings->ring_count; i++)
        if (rings->owners[i] >= 0)
            error = ring_map(&rings->rings[i], rings->owners[i], bytes);
    if (error)
        unmap(rings);
    return error;
}

/* The largest rings that this user may lock. A user without CAP_IPC_LOCK gets no more than the
 * usual limit, so that other captures of this user have a chance, too. */
static sonde_err map_largest(struct rings *rings, struct sonde_diag *diag) {
    size_t bytes = rings->options.ring_bytes ? rings->options.ring_bytes : MAX_RING_BYTES;
    while (!rings->options.ring_bytes && bytes * rings->ring_count > MAX_ALL_BYTES &&
           bytes > SHARED_RING_BYTES)
        bytes /= 2;
    int error = map(rings, bytes);
    while (!rings->options.ring_bytes && error && bytes > MIN_RING_BYTES &&
           bytes > 2 * rings->options.stack_bytes) {
        bool is_limited = error == -EPERM && bytes > SHARED_RING_BYTES;
        bytes = is_limited ? SHARED_RING_BYTES : bytes / 2;
        error = map(rings, bytes);
    }
    rings->counts.ring_bytes = bytes;
    return error ? say_no_memory(bytes, -error, diag) : SONDE_OK;
}

/* Edge-triggered, because an event whose thread has ended stays readable. */
static sonde_err open_poll(struct rings *rings, struct sonde_diag *diag) {
    struct epoll_event wanted = {.events = EPOLLIN | EPOLLET};
    rings->poll_fd = epoll_create1(EPOLL_CLOEXEC);
    bool is_ok = rings->poll_fd >= 0;
    for (size_t i = 0; is_ok && i < rings->ring_count; i++)
        is_ok = rings->owners[i] < 0 ||
                epoll_ctl(rings->poll_fd, EPOLL_CTL_ADD, rings->owners[i], &wanted) == 0;
    return is_ok ? SONDE_OK : sonde_fail_os(diag, errno, "epoll");
}

static uint64_t draw(void *events, uint64_t low_ns, uint64_t high_ns) {
    return events_draw(events, low_ns, high_ns);
}

static sonde_err allocate(struct rings *rings, const struct rings_options *options) {
    rings->options = *options;
    rings->poll_fd = -1;
    rings->process_count = options->pid_count;
    sonde_err err = number_list_read_cpus(&rings->cpus);
    size_t count = rings->ring_count = rings->cpus.count;
    rings->rings = calloc(count + 1, sizeof *rings->rings);
    rings->owners = malloc((count + 1) * sizeof *rings->owners);
    rings->merge.heads = calloc(count + 1, sizeof *rings->merge.heads);
    rings->space = malloc(PARSE_MAX_BYTES);
    rings->processes = calloc(options->pid_count + 1, sizeof *rings->processes);
    if (!rings->rings || !rings->owners || !rings->merge.heads || !rings->space ||
        !rings->processes ||
        !cpu_clocks_create(&rings->clocks, count,
                           is_counted(rings) ? CPU_CLOCKS_SLOW : options->period_ns, draw,
                           &rings->events))
        return SONDE_OUT_OF_MEMORY;
    if (options->every)
        counter_set(&rings->counter, options->every, 0);
    for (size_t i = 0; i < count; i++)
        rings->owners[i] = -1;
    for (size_t i = 0; i < options->pid_count; i++)
        rings->processes[i].pid = options->pids[i];
    rings->options.pids = NULL;
    uint64_t rate = max_sample_rate_read();
    rings->events.shortest_ns = rate ? 1050000000u / rate : 0; /* 5 % below it */
    if (getrandom(&rings->events.random, sizeof rings->events.random, 0) < 0)
        rings->events.random = (uint64_t)clock_ns(CLOCK_MONOTONIC);
    return err;
}

/* Processes that have ended meanwhile are left out, unless all have. */
static sonde_err add_processes(struct rings *rings, struct sonde_diag *diag) {
    size_t added = 0;
    sonde_err err = SONDE_OK;
    for (size_t i = 0; !err && i < rings->process_count; i++) {
        err = events_add_process(&rings->events, &rings->options, rings->processes[i].pid,
                                 &rings->cpus, rings->owners, diag);
        added += !err;
        if (err == SONDE_TARGET_GONE)
            err = SONDE_OK;
    }
    if (!err && !added && rings->process_count)
        err = sonde_fail(diag, SONDE_NOT_AVAILABLE, "the process has ended");
    return err;
}

sonde_err rings_open(const struct rings_options *options, struct rings **result,
                     struct sonde_diag *diag) {
    struct rings *rings = calloc(1, sizeof *rings);
    if (!rings)
        return SONDE_OUT_OF_MEMORY;
    sonde_err err = events_check_kernel(diag);
    if (!err)
        err = events_check(options, diag);
    if (!err)
        err = allocate(rings, options);
    for (size_t i = 0; !err && i < rings->ring_count; i++)
        err = open_owner(rings, i, diag);
    if (!err)
        err = map_largest(rings, diag);
    if (!err)
        err = open_clocks(rings, diag);
    if (!err)
        err = open_poll(rings, diag);
    if (!err)
        err = add_processes(rings, diag);
    if (err) {
        rings_close(rings);
        rings = NULL;
    }
    *result = rings;
    return err;
}

/* Events that still run would go on in the rings' memory until their descriptors are closed. */
void rings_close(struct rings *rings) {
    if (!rings)
        return;
    bool owns = !is_all(rings);
    events_close(&rings->events);
    if (rings->rings)
        unmap(rings);
    for (size_t i = 0; owns && rings->owners && i < rings->ring_count; i++)
        if (rings->owners[i] >= 0)
            close(rings->owners[i]);
    if (rings->poll_fd >= 0)
        close(rings->poll_fd);
    number_list_finish(&rings->cpus);
    free(rings->rings);
    free(rings->owners);
    cpu_clocks_finish(&rings->clocks);
    free(rings->merge.heads);
    free(rings->space);
    free(rings->processes);
    free(rings);
}

void rings_start(struct rings *rings) {
    rings->is_started = true;
    if (!is_all(rings)) {
        if (!rings->options.is_exec_start)
            events_enable(&rings->events, true);
        return;
    }
    if (is_counted(rings))
        events_enable(&rings->events, true);
    else
        cpu_clocks_start(&rings->clocks, rings->options.period_ns, true);
}

void rings_stop(struct rings *rings) {
    rings->is_started = false;
    events_enable(&rings->events, false);
}

/* The events of threads cannot be changed (events.c), so new ones replace them. What is in the
 * rings stays. A process that cannot be opened again has ended. */
static void reopen(struct rings *rings) {
    struct sonde_diag diag = {0};
    for (size_t i = 0; i < rings->process_count; i++)
        rings->processes[i].former_run_ns += events_run_ns(&rings->events, rings->processes[i].pid);
    events_close(&rings->events);
    if (add_processes(rings, &diag) == SONDE_OK && rings->is_started)
        events_enable(&rings->events, true);
}

/* No event runs while its weight changes, so that the time of a sample tells its weight. */
static void weigh_from_now(struct rings *rings) {
    if (rings->options.every)
        counter_set(&rings->counter, rings->options.every, (uint64_t)clock_ns(CLOCK_MONOTONIC));
    events_enable(&rings->events, rings->is_started);
}

/* The new events are opened before the old ones stop, because what happens in between is not
 * counted. Without room for both, the old ones stay as they are. */
static void reopen_counted(struct rings *rings, uint64_t former) {
    struct events old = rings->events;
    struct sonde_diag diag = {0};
    rings->events.list = NULL;
    rings->events.count = rings->events.capacity = 0;
    if (add_processes(rings, &diag) != SONDE_OK) {
        events_close(&rings->events);
        rings->events = old;
        rings->options.every = rings->options.every ? former : 0;
        return;
    }
    events_enable(&old, false);
    weigh_from_now(rings);
    rings->former_total += events_total(&old);
    events_close(&old);
}

/* The kernel takes a number of events, or a rate. */
static void set_counted_period(struct rings *rings, uint64_t period) {
    struct rings_options *options = &rings->options;
    uint64_t *now = options->every ? &options->every : &options->period_ns;
    uint64_t former = *now;
    if (period == former)
        return;
    *now = period;
    if (!is_all(rings)) {
        reopen_counted(rings, former);
        return;
    }
    uint64_t value = options->every ? period : (1000000000u + period / 2) / period;
    events_enable(&rings->events, false);
    for (size_t i = 0; i < rings->events.count; i++)
        ioctl(rings->events.list[i].fd, PERF_EVENT_IOC_PERIOD, &value);
    weigh_from_now(rings);
}

void rings_set_period(struct rings *rings, uint64_t period_ns) {
    if (is_counted(rings)) {
        set_counted_period(rings, period_ns);
        return;
    }
    bool is_new = period_ns != rings->options.period_ns;
    rings->options.period_ns = period_ns;
    if (!is_all(rings)) {
        if (is_new)
            reopen(rings);
        return;
    }
    if (rings->is_started && is_new)
        cpu_clocks_start(&rings->clocks, period_ns, false);
    else if (rings->is_started)
        cpu_clocks_renew(&rings->clocks, period_ns);
}

sonde_err rings_add_process(struct rings *rings, pid_t pid, struct sonde_diag *diag) {
    if (is_all(rings) || events_have(&rings->events, pid))
        return SONDE_OK;
    struct watched *more =
        realloc(rings->processes, (rings->process_count + 1) * sizeof *rings->processes);
    if (!more)
        return SONDE_OUT_OF_MEMORY;
    rings->processes = more;
    size_t first = rings->events.count;
    sonde_err err =
        events_add_process(&rings->events, &rings->options, pid, &rings->cpus, rings->owners, diag);
    if (err)
        return err;
    rings->processes[rings->process_count++] = (struct watched){.pid = pid};
    struct events added = {.list = rings->events.list + first,
                           .count = rings->events.count - first};
    if (rings->is_started)
        events_enable(&added, true);
    return SONDE_OK;
}

static void report_lost(struct rings *rings, uint32_t ring, uint64_t time_ns,
                        host_on_record *on_record, void *context) {
    struct host_record lost = {.kind = HOST_LOST, .time_ns = time_ns, .lost = 1};
    lost.cpu = (uint32_t)rings->cpus.numbers[ring];
    rings->counts.invalid++;
    on_record(context, &lost);
}

/* Offers the next record of a ring to the merge, if the ring has one that is not later than
 * until_ns. */
static void push_next(struct rings *rings, uint32_t i, uint64_t until_ns, host_on_record *on_record,
                      void *context) {
    struct ring *ring = &rings->rings[i];
    const uint8_t *record;
    uint64_t time_ns;
    enum ring_look look = ring->base ? ring_peek(ring, rings->space, &record) : RING_EMPTY;
    if (look == RING_INVALID)
        report_lost(rings, i, (uint64_t)clock_ns(CLOCK_MONOTONIC), on_record, context);
    if (look != RING_RECORD)
        return;
    if (!parse_time(record, ring->record_size, &time_ns))
        time_ns = 0; /* it is invalid, which its parser says */
    if (!until_ns || time_ns <= until_ns)
        merge_push(&rings->merge, (struct merge_head){time_ns, i});
}

static void weigh(struct rings *rings, uint32_t i, struct host_record *record) {
    struct host_sample *sample = &record->sample;
    if (is_counted(rings))
        sample->weight_ns = counter_weigh(&rings->counter, record->time_ns, sample->weight_ns);
    else if (is_all(rings))
        cpu_clocks_weigh(&rings->clocks, i, record->time_ns, sample);
}

static void deliver(struct rings *rings, uint32_t i, host_on_record *on_record, void *context) {
    struct ring *ring = &rings->rings[i];
    const uint8_t *bytes;
    struct host_record record;
    if (ring_peek(ring, rings->space, &bytes) != RING_RECORD)
        return;
    rings->counts.bytes += ring->record_size;
    rings->counts.records++;
    switch (parse_record(bytes, ring->record_size, rings->format, &record)) {
    case PARSED_RECORD:
        if (record.kind == HOST_LOST)
            rings->counts.lost += record.lost;
        if (record.kind == HOST_SAMPLE)
            weigh(rings, i, &record);
        on_record(context, &record);
        break;
    case PARSED_INVALID:
        report_lost(rings, i, (uint64_t)clock_ns(CLOCK_MONOTONIC), on_record, context);
        break;
    case PARSED_NOTHING:
        break;
    }
    ring_pop(ring);
    ring_release(ring);
}

bool rings_drain(struct rings *rings, uint64_t until_ns, host_on_record *on_record, void *context,
                 bool (*is_over)(void *context)) {
    struct epoll_event ready[16];
    const struct merge_head *first;
    size_t delivered = 0;
    if (epoll_wait(rings->poll_fd, ready, 16, 0) < 0) {
        /* Nothing depends on it: it only makes poll_fd unreadable again. */
    }
    rings->merge.count = 0;
    for (uint32_t i = 0; i < rings->ring_count; i++)
        push_next(rings, i, until_ns, on_record, context);
    while ((first = merge_first(&rings->merge))) {
        uint32_t i = first->ring;
        if (is_over && ++delivered % RECORDS_PER_LOOK == 0 && is_over(context))
            return true;
        merge_pop(&rings->merge);
        deliver(rings, i, on_record, context);
        push_next(rings, i, until_ns, on_record, context);
    }
    return false;
}

uint64_t rings_run_ns(const struct rings *rings, pid_t pid) {
    for (size_t i = 0; i < rings->process_count; i++)
        if (rings->processes[i].pid == pid)
            return rings->processes[i].former_run_ns + events_run_ns(&rings->events, pid);
    return 0;
}

uint64_t rings_total(const struct rings *rings) {
    return rings->former_total + events_total(&rings->events);
}

int rings_poll_fd(const struct rings *rings) {
    return rings->poll_fd;
}

void rings_counts(const struct rings *rings, struct rings_counts *counts) {
    *counts = rings->counts;
    counts->sampled = rings->counter.sampled;
    counts->rings = 0;
    for (size_t i = 0; i < rings->ring_count; i++)
        counts->rings += rings->rings[i].base != NULL;
    counts->events = (uint32_t)rings->events.count;
}
