/* SPDX-License-Identifier: Apache-2.0 */
#include "service/host/rings/perf_event.h"

#include "service/host/record.h"
#include "service/host/rings/parse.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MIN_PERIOD_NS 80000u /* 10,000 Hz, dithered */
#define MAX_PERIOD_NS 10000000000u
#define MAX_CPU       65536

static bool is_valid(const struct perf_event_spec *spec) {
    return (spec->pid > 0 || spec->pid == -1) && spec->cpu >= 0 && spec->cpu < MAX_CPU &&
           spec->period_ns >= MIN_PERIOD_NS && spec->period_ns <= MAX_PERIOD_NS &&
           spec->stack_bytes >= HOST_MIN_STACK && spec->stack_bytes <= HOST_MAX_STACK &&
           spec->stack_bytes % 8 == 0 && !(spec->is_exec_start && spec->pid == -1);
}

/* Idle CPUs have no samples. wakeup_watermark stays 0, which means half of the ring. */
static struct perf_event_attr attr_of(const struct perf_event_spec *spec) {
    return (struct perf_event_attr){
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof(struct perf_event_attr),
        .config = PERF_COUNT_SW_CPU_CLOCK,
        .sample_period = spec->period_ns,
        .sample_type = PARSE_SAMPLE_TYPE | (spec->has_kernel ? PERF_SAMPLE_CALLCHAIN : 0),
        .sample_regs_user = PARSE_REGISTERS,
        .sample_stack_user = spec->stack_bytes,
        .disabled = 1,
        .enable_on_exec = spec->is_exec_start,
        .inherit = spec->pid != -1,
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
    return fd < 0 ? -errno : (int)fd;
}
