/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens one perf event: a cpu-clock or a counted event, with side-band records of mappings, names,
 * forks and exits. The sampler process (service/host/sampler) opens it where a capability is
 * needed, so the description is a plain struct of numbers that both sides check. Any thread. */
#ifndef SONDE_SERVICE_HOST_RINGS_PERF_EVENT_H
#define SONDE_SERVICE_HOST_RINGS_PERF_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#define PERF_EVENT_MAX_EVERY (1ull << 40)

struct perf_event_spec {
    int32_t pid;        /* a thread, whose new threads and children inherit the event; -1 = all */
    int32_t cpu;        /* 0 and up */
    uint64_t period_ns; /* 80 us to 10 s; the clock of the CPU (pid -1) or of the thread */
    uint32_t event;     /* an enum sonde_event_id: ON_CPU, the clock, or a counted event */
    /* Counted: events for one sample, 1 to PERF_EVENT_MAX_EVERY. 0 = as many as happen in about
     * period_ns, only for events of the processor. */
    uint64_t every;
    uint32_t stack_bytes; /* HOST_MIN_STACK to HOST_MAX_STACK */
    bool has_kernel;      /* samples in the kernel, with its frames; needs CAP_PERFMON */
    bool is_exec_start;   /* disabled until the thread calls exec */
    /* Children do not inherit the event, only threads do. Before Linux 5.13 both do. */
    bool is_one;
    bool is_silent; /* samples only: another event tells of mappings, names, forks and exits */
};

/* Returns a descriptor (disabled, close-on-exec) or -errno. EINVAL: the description is invalid.
 * ENOENT, EOPNOTSUPP: this machine does not count the event. */
int perf_event_create(const struct perf_event_spec *spec);

/* Whether the event only ever happens in the kernel, so that has_kernel is needed to see it. */
bool perf_event_is_of_kernel(uint32_t event);
/* Whether the processor counts it, which can also choose `every`. The kernel chooses it wrongly for
 * its own events, whose samples then stand for up to a hundred times as many as happened. */
bool perf_event_is_of_processor(uint32_t event);
/* How the event writes its samples: bits PARSE_* (parse.h). */
unsigned perf_event_format(const struct perf_event_spec *spec);

#endif
