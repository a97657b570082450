/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that start while the events of a process are being opened: a thread whose creator has an
 * event already inherits it, one whose creator has none does not, and nothing tells which of the
 * two it was. So if the list of threads has a new one afterwards, all events are closed and opened
 * again. A process that starts threads all the time is taken as it is after a few attempts. */
#include "service/host/rings/events.h"

#include "api/base/array.h"
#include "service/host/refusal.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#define ATTEMPTS      4
#define MIN_PERIOD_NS 80000u
#define MAX_PERIOD_NS 10000000000u

static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint64_t bound(const struct events *events, uint64_t period) {
    uint64_t least = events->shortest_ns > MIN_PERIOD_NS ? events->shortest_ns : MIN_PERIOD_NS;
    return period < least ? least : period > MAX_PERIOD_NS ? MAX_PERIOD_NS : period;
}

/* 3 to 12 % longer or shorter, because a clock that stays at the asked period would see work that
 * repeats in just that time, or in a small part of it, always at the same point. */
uint64_t events_dither(struct events *events, uint64_t period_ns) {
    uint64_t random = next_random(&events->random);
    uint64_t offset = period_ns / 32 + (random >> 1) % (period_ns / 32 * 3);
    uint64_t period = random & 1 ? period_ns + offset : period_ns - offset;
    return bound(events, period);
}

uint64_t events_draw(struct events *events, uint64_t low_ns, uint64_t high_ns) {
    return bound(events, low_ns + next_random(&events->random) % (high_ns - low_ns + 1));
}

/* Raises the soft limit of descriptors to the hard limit; false if it is there already. */
static bool raise_descriptors(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= limit.rlim_max)
        return false;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

static sonde_err say_refused(const struct rings_options *options, int error,
                             struct sonde_diag *diag) {
    bool is_all = options->pid_count == 0 || options->has_kernel;
    int level;
    sonde_err err;
    if (refusal_is_paranoid(&level))
        err =
            sonde_fail(diag, SONDE_PERMISSION_DENIED,
                       is_all ? "perf is refused: kernel.perf_event_paranoid is %d, which asks "
                                "for CAP_SYS_ADMIN: run sonded as root, or set it to 2"
                              : "perf is refused, because kernel.perf_event_paranoid is %d: run as "
                                "root, set it to 2, or start the program with `sonde run`",
                       level);
    else if (is_all)
        err = sonde_fail(diag, SONDE_PERMISSION_DENIED,
                         "perf refuses to sample all processes and the kernel: run sonded as root "
                         "or with CAP_PERFMON");
    else
        err = sonde_fail(diag, SONDE_PERMISSION_DENIED,
                         "perf refuses to sample this process: it must belong to sonded's user and "
                         "kernel.perf_event_paranoid must be at most 2; or run sonded as root");
    if (diag)
        diag->os_error = error;
    return err;
}

static sonde_err say_uncounted(enum sonde_event_id event, int error, struct sonde_diag *diag) {
    return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                      "this machine does not count %s (%s): virtual machines often have no access "
                      "to the processor's counters; `sonde events` lists what it counts",
                      sonde_events[event].name, strerror(error));
}

sonde_err events_check(const struct rings_options *options, struct sonde_diag *diag) {
    if (options->has_kernel || !perf_event_is_of_kernel(options->event))
        return SONDE_OK;
    return sonde_fail(diag, SONDE_PERMISSION_DENIED,
                      "%s happen in the kernel, which needs CAP_PERFMON: run sonded as root",
                      sonde_events[options->event].name);
}

static sonde_err say(const struct rings_options *options, int error, struct sonde_diag *diag) {
    switch (error) {
    case EACCES:
    case EPERM:
        return say_refused(options, error, diag);
    case EMFILE:
    case ENFILE:
        return sonde_fail(diag, SONDE_TOO_LARGE,
                          "too many threads: perf needs a descriptor for each thread on each CPU; "
                          "raise sonded's limit of open files (LimitNOFILE, ulimit -n)");
    case ESRCH:
        return sonde_fail(diag, SONDE_TARGET_GONE, "the process has ended");
    case ENOMEM:
    case ENOSPC:
        return SONDE_OUT_OF_MEMORY;
    case ENOSYS:
        return sonde_fail(
            diag, SONDE_NOT_AVAILABLE,
            "this kernel was built without perf events (CONFIG_PERF_EVENTS); programs "
            "started with `sonde run` can be profiled");
    default:
        if (options->event != SONDE_ON_CPU && (error == ENOENT || error == EOPNOTSUPP))
            return say_uncounted(options->event, error, diag);
        if (options->event != SONDE_ON_CPU)
            return sonde_fail(diag, SONDE_NOT_AVAILABLE, "the kernel refuses to count %s: %s",
                              sonde_events[options->event].name, strerror(error));
        return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                          "this kernel has no perf events that copy stacks: %s", strerror(error));
    }
}

static int create(const struct rings_options *options, const struct perf_event_spec *spec) {
    return options->create ? options->create(options->create_context, spec)
                           : perf_event_create(spec);
}

sonde_err events_check_kernel(struct sonde_diag *diag) {
    struct utsname kernel;
    if (refusal_kernel_at_least(5, 4) || uname(&kernel) != 0)
        return SONDE_OK;
    return sonde_fail(
        diag, SONDE_NOT_AVAILABLE,
        "sampling from outside needs Linux 5.4, this is Linux %.40s; programs started "
        "with `sonde run` can be profiled",
        kernel.release);
}

sonde_err events_open_one(const struct rings_options *options, const struct perf_event_spec *spec,
                          int *fd, struct sonde_diag *diag) {
    *fd = create(options, spec);
    if (*fd == -EMFILE && raise_descriptors())
        *fd = create(options, spec);
    if (*fd == -ENODEV)
        *fd = -1;
    else if (*fd < 0)
        return say(options, -*fd, diag);
    return SONDE_OK;
}

sonde_err events_append(struct events *events, struct event event) {
    if (!array_room(&events->list, &events->capacity, events->count, 1))
        return SONDE_OUT_OF_MEMORY;
    events->list[events->count++] = event;
    return SONDE_OK;
}

static void close_from(struct events *events, size_t first) {
    while (events->count > first)
        close(events->list[--events->count].fd);
}

bool events_have(const struct events *events, pid_t pid) {
    for (size_t i = 0; i < events->count; i++)
        if (events->list[i].pid == pid)
            return true;
    return false;
}

void events_enable(const struct events *events, bool is_enabled) {
    for (size_t i = 0; i < events->count; i++)
        ioctl(events->list[i].fd, is_enabled ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
}

static uint64_t read_count(const struct event *event) {
    uint64_t count;
    return read(event->fd, &count, sizeof count) == sizeof count ? count : 0;
}

uint64_t events_total(const struct events *events) {
    uint64_t sum = 0;
    for (size_t i = 0; i < events->count; i++)
        sum += read_count(&events->list[i]);
    return sum;
}

uint64_t events_run_ns(const struct events *events, pid_t pid) {
    uint64_t sum = 0;
    for (size_t i = 0; i < events->count; i++)
        sum += events->list[i].pid == pid ? read_count(&events->list[i]) : 0;
    return sum;
}

void events_close(struct events *events) {
    close_from(events, 0);
    free(events->list);
    events->list = NULL;
    events->capacity = 0;
}

/* What the events of a process are opened with. */
struct opening {
    struct events *events;
    const struct rings_options *options;
    pid_t pid;
    const struct number_list *cpus;
    const int *owners;
    struct sonde_diag *diag;
};

/* Each event has a period of its own, so that no rhythm of a program is in step with all of them.
 * It keeps it: changing a running event would lose what it has counted of its period, and would not
 * change the events that threads have inherited from it. */
static sonde_err add_event(const struct opening *opening, pid_t tid, size_t cpu) {
    const struct rings_options *options = opening->options;
    struct perf_event_spec spec = {.pid = tid,
                                   .cpu = opening->cpus->numbers[cpu],
                                   .period_ns = events_dither(opening->events, options->period_ns),
                                   .event = options->event,
                                   .every = options->every,
                                   .stack_bytes = options->stack_bytes,
                                   .has_kernel = options->has_kernel,
                                   .is_exec_start = options->is_exec_start,
                                   .is_one = options->is_one};
    int fd;
    sonde_err err = events_open_one(options, &spec, &fd, opening->diag);
    if (err || fd < 0)
        return err;
    if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, opening->owners[cpu]))
        err = sonde_fail_os(opening->diag, errno, "perf does not let events share a ring");
    else
        err = events_append(opening->events, (struct event){fd, opening->pid});
    if (err)
        close(fd);
    return err;
}

static sonde_err add_thread(const struct opening *opening, pid_t tid) {
    sonde_err err = SONDE_OK;
    for (size_t i = 0; !err && i < opening->cpus->count; i++)
        if (opening->owners[i] >= 0)
            err = add_event(opening, tid, i);
    return err == SONDE_TARGET_GONE ? SONDE_OK : err; /* this thread has ended */
}

static bool has_new(const struct number_list *now, const struct number_list *before) {
    for (size_t i = 0; i < now->count; i++)
        if (!number_list_has(before, now->numbers[i]))
            return true;
    return false;
}

/* Sets *is_complete if no thread has started since the list of threads was read. */
static sonde_err attempt(const struct opening *opening, bool *is_complete) {
    struct number_list before = {0}, after = {0};
    sonde_err err = number_list_read_threads(&before, opening->pid);
    for (size_t i = 0; !err && i < before.count; i++)
        err = add_thread(opening, before.numbers[i]);
    if (!err)
        err = number_list_read_threads(&after, opening->pid);
    *is_complete = !err && !has_new(&after, &before);
    number_list_finish(&before);
    number_list_finish(&after);
    if (err == SONDE_TARGET_GONE)
        err = say(opening->options, ESRCH, opening->diag);
    return err;
}

sonde_err events_add_process(struct events *events, const struct rings_options *options, pid_t pid,
                             const struct number_list *cpus, const int *owners,
                             struct sonde_diag *diag) {
    struct opening opening = {events, options, pid, cpus, owners, diag};
    size_t first = events->count;
    bool is_complete = false;
    sonde_err err = SONDE_OK;
    for (int i = 0; !err && !is_complete && i < ATTEMPTS; i++) {
        close_from(events, first);
        err = attempt(&opening, &is_complete);
    }
    if (err)
        close_from(events, first);
    return err;
}
