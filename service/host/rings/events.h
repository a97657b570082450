/* SPDX-License-Identifier: Apache-2.0
 *
 * The perf events that write into the rings of rings.c: one per CPU, or one per thread and CPU.
 * Thread safety: one thread at a time. */
#ifndef SONDE_SERVICE_HOST_RINGS_EVENTS_H
#define SONDE_SERVICE_HOST_RINGS_EVENTS_H

#include "api/error.h"
#include "service/host/rings/lists.h"
#include "service/host/rings/rings.h"

struct event {
    int fd;
    pid_t pid; /* -1 = all */
};

struct events {
    struct event *list;
    size_t count, capacity;
    uint64_t random;      /* state of the generator */
    uint64_t shortest_ns; /* period that the kernel does not throttle */
};

/* SONDE_NOT_AVAILABLE: this kernel is older than 5.4. */
SONDE_MUST_USE sonde_err events_check_kernel(struct sonde_diag *diag);
/* SONDE_PERMISSION_DENIED: the event only happens in the kernel, which is not sampled. */
SONDE_MUST_USE sonde_err events_check(const struct rings_options *options, struct sonde_diag *diag);
/* Opens an event. TARGET_GONE: the thread has ended. *fd is -1 if the CPU is offline. */
SONDE_MUST_USE sonde_err events_open_one(const struct rings_options *options,
                                         const struct perf_event_spec *spec, int *fd,
                                         struct sonde_diag *diag);
/* Opens events for all threads of a process on all CPUs, which write into the rings of owners[],
 * one descriptor per CPU. Threads that start meanwhile are neither missed nor counted twice.
 * Nothing is left of the process's events after an error. */
SONDE_MUST_USE sonde_err events_add_process(struct events *events,
                                            const struct rings_options *options, pid_t pid,
                                            const struct number_list *cpus, const int *owners,
                                            struct sonde_diag *diag);
SONDE_MUST_USE sonde_err events_append(struct events *events, struct event event);
bool events_have(const struct events *events, pid_t pid);
void events_enable(const struct events *events, bool is_enabled);
/* What all events have counted, with those that inherited from them. */
uint64_t events_total(const struct events *events);
/* The CPU time that the events of a process have counted, with those that inherited from them. */
uint64_t events_run_ns(const struct events *events, pid_t pid);
void events_close(struct events *events);
/* A random period between two, within the bounds of perf_event_spec; not below shortest_ns. */
uint64_t events_draw(struct events *events, uint64_t low_ns, uint64_t high_ns);
/* A random period within an eighth of period_ns, but not at it; bounds as for events_draw. */
uint64_t events_dither(struct events *events, uint64_t period_ns);

#endif
