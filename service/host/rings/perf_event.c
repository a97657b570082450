/* SPDX-License-Identifier: Apache-2.0 */
#include "service/host/rings/perf_event.h"

#include "api/profile/event.h"
#include "service/host/record.h"
#include "service/host/rings/parse.h"
#include "service/machine/own/perf.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MIN_PERIOD_NS 80000u /* 10,000 Hz, dithered */
#define MAX_PERIOD_NS 10000000000u
#define MAX_CPU       65536

static const struct {
    uint32_t type;
    uint64_t config;
    bool is_counted, is_of_kernel;
} counters[SONDE_EVENTS] = {
    [SONDE_ON_CPU] = {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, false, false},
    [SONDE_PAGE_FAULTS] = {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, true, false},
    [SONDE_MINOR_FAULTS] = {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN, true, false},
    [SONDE_MAJOR_FAULTS] = {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ, true, false},
    [SONDE_CONTEXT_SWITCHES] = {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, true, true},
    [SONDE_CPU_MIGRATIONS] = {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, true, true},
    [SONDE_CYCLES] = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, true, false},
    [SONDE_INSTRUCTIONS] = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, true, false},
    [SONDE_CACHE_MISSES] = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES, true, false},
    [SONDE_BRANCH_MISSES] = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES, true, false},
    [SONDE_GROWTH] = {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, true, false},
};

static bool is_counted(uint32_t event) {
    return event < SONDE_EVENTS && counters[event].is_counted;
}

bool perf_event_is_of_kernel(uint32_t event) {
    return is_counted(event) && counters[event].is_of_kernel;
}

bool perf_event_is_of_processor(uint32_t event) {
    return is_counted(event) && counters[event].type == PERF_TYPE_HARDWARE;
}

/* With PERF_SAMPLE_PERIOD the kernel ignores the period of software events, and writes a sample for
 * each of them. */
unsigned perf_event_format(const struct perf_event_spec *spec) {
    return (spec->has_kernel ? PARSE_KERNEL : 0) | (spec->every ? PARSE_NO_PERIOD : 0) |
           (spec->event == SONDE_GROWTH ? PARSE_ADDRESS : 0);
}

static bool is_valid_event(const struct perf_event_spec *spec) {
    if (spec->event == SONDE_ON_CPU)
        return spec->every == 0;
    return is_counted(spec->event) && spec->every <= PERF_EVENT_MAX_EVERY &&
           (spec->every > 0 || perf_event_is_of_processor(spec->event));
}

static bool is_valid(const struct perf_event_spec *spec) {
    return (spec->pid > 0 || spec->pid == -1) && spec->cpu >= 0 && spec->cpu < MAX_CPU &&
           spec->period_ns >= MIN_PERIOD_NS && spec->period_ns <= MAX_PERIOD_NS &&
           spec->stack_bytes >= HOST_MIN_STACK && spec->stack_bytes <= HOST_MAX_STACK &&
           spec->stack_bytes % 8 == 0 && !(spec->is_exec_start && spec->pid == -1) &&
           is_valid_event(spec);
}

static uint64_t sample_type(unsigned how) {
    uint64_t type = PARSE_SAMPLE_TYPE;
    if (how & PARSE_KERNEL)
        type |= PERF_SAMPLE_CALLCHAIN;
    if (how & PARSE_ADDRESS)
        type |= PERF_SAMPLE_ADDR;
    return how & PARSE_NO_PERIOD ? type & ~(uint64_t)PERF_SAMPLE_PERIOD : type;
}

/* What sample_period and sample_freq, which share their place, mean to the kernel. */
static uint64_t period_of(const struct perf_event_spec *spec) {
    if (spec->event == SONDE_ON_CPU)
        return spec->period_ns;
    return spec->every ? spec->every : (1000000000u + spec->period_ns / 2) / spec->period_ns;
}

/* Idle CPUs have no samples. wakeup_watermark stays 0, which means half of the ring. */
static struct perf_event_attr attr_of(const struct perf_event_spec *spec) {
    return (struct perf_event_attr){
        .type = counters[spec->event].type,
        .size = sizeof(struct perf_event_attr),
        .config = counters[spec->event].config,
        .sample_period = period_of(spec),
        .freq = is_counted(spec->event) && !spec->every,
        .sample_type = sample_type(perf_event_format(spec)),
        .sample_regs_user = PERF_REGISTERS,
        .sample_stack_user = spec->stack_bytes,
        .disabled = 1,
        .enable_on_exec = spec->is_exec_start,
        .inherit = spec->pid != -1,
        .inherit_thread = spec->pid != -1 && spec->is_one,
        .exclude_kernel = !spec->has_kernel,
        .exclude_hv = 1,
        .exclude_idle = 1,
        .exclude_callchain_user = 1,
        .mmap = !spec->is_silent,
        .mmap2 = !spec->is_silent,
        .comm = !spec->is_silent,
        .comm_exec = !spec->is_silent,
        .task = !spec->is_silent,
        .sample_id_all = 1,
        .watermark = 1,
        .use_clockid = 1,
        .clockid = CLOCK_MONOTONIC,
    };
}

int perf_event_create(const struct perf_event_spec *spec) {
    if (!is_valid(spec))
        return -EINVAL;
    struct perf_event_attr attr = attr_of(spec);
    long fd = syscall(SYS_perf_event_open, &attr, spec->pid, spec->cpu, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0 && errno == EINVAL && attr.inherit_thread) {
        attr.inherit_thread = 0;
        fd = syscall(SYS_perf_event_open, &attr, spec->pid, spec->cpu, -1, PERF_FLAG_FD_CLOEXEC);
    }
    return fd < 0 ? -errno : (int)fd;
}
