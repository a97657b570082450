/* SPDX-License-Identifier: Apache-2.0 */
#include "service/host/counters.h"

#include "service/host/record.h"
#include "service/host/refusal.h"
#include "service/host/sampler/sampler.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TRIAL_NS 1000000000ull

static int closed(int fd) {
    if (fd >= 0)
        close(fd);
    return fd < 0 ? fd : 0;
}

/* With the kernel's part, of any process. */
static int try_all(struct sampler *sampler, enum sonde_event_id event) {
    const struct perf_event_spec spec = {.pid = -1,
                                         .period_ns = TRIAL_NS,
                                         .event = event,
                                         .every = PERF_EVENT_MAX_EVERY,
                                         .stack_bytes = HOST_MIN_STACK,
                                         .has_kernel = true};
    return closed(sampler_perf_event(sampler, &spec));
}

/* What ordinary users may: events of their own programs, outside of the kernel. */
static int try_own(enum sonde_event_id event) {
    const struct perf_event_spec spec = {.pid = getpid(),
                                         .period_ns = TRIAL_NS,
                                         .event = event,
                                         .every = PERF_EVENT_MAX_EVERY,
                                         .stack_bytes = HOST_MIN_STACK};
    return perf_event_is_of_kernel(event) ? -EACCES : closed(perf_event_create(&spec));
}

static bool is_refusal(int error) {
    return error == -EACCES || error == -EPERM;
}

static void explain(struct sampler *sampler, int error, struct host_counter *counter) {
    char text[REFUSAL_BYTES];
    const char *said = strerrordesc_np(-error);
    refusal_text(-error, sampler_capabilities(sampler), text);
    if (is_refusal(error) && perf_event_is_of_kernel(counter->event))
        snprintf(counter->reason, sizeof counter->reason,
                 "it happens in the kernel, which needs CAP_PERFMON: %s", text);
    else if (!is_refusal(error) && perf_event_is_of_processor(counter->event))
        snprintf(counter->reason, sizeof counter->reason,
                 "no access to the processor's counters, as in most virtual machines: %s",
                 said ? said : "unknown error");
    else
        snprintf(counter->reason, sizeof counter->reason, "%s", text);
}

static void try(struct sampler *sampler, struct host_counter *counter) {
    int error = try_all(sampler, counter->event);
    counter->is_available = error == 0;
    if (is_refusal(error) && try_own(counter->event) == 0) {
        counter->is_available = true;
        snprintf(counter->reason, sizeof counter->reason,
                 "only in own processes and outside of the kernel, for lack of CAP_PERFMON");
    } else if (error) {
        explain(sampler, error, counter);
    }
}

void host_counters_read(struct sampler *sampler, struct host_counter counters[HOST_COUNTERS]) {
    for (size_t i = 0; i < HOST_COUNTERS; i++) {
        counters[i] = (struct host_counter){.event = (enum sonde_event_id)(SONDE_COUNTED + i)};
        try(sampler, &counters[i]);
    }
}
