/* SPDX-License-Identifier: Apache-2.0 */
#include "service/host/rings/cpu_clocks.h"

#include "api/base/clock.h"

#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/ioctl.h>

bool cpu_clocks_create(struct cpu_clocks *clocks, size_t cpus, uint64_t period_ns,
                       uint64_t (*draw)(void *context, uint64_t low, uint64_t high),
                       void *context) {
    size_t each = CPU_CLOCKS_ALL / (cpus ? cpus : 1);
    if (each < 1 || period_ns >= CPU_CLOCKS_SLOW)
        each = 1;
    if (each > CPU_CLOCKS_MAX)
        each = CPU_CLOCKS_MAX;
    *clocks =
        (struct cpu_clocks){.cpus = cpus, .each = (uint32_t)each, .draw = draw, .context = context};
    clocks->timers = calloc(cpus * each + 1, sizeof *clocks->timers);
    for (size_t i = 0; clocks->timers && i < cpus * each; i++)
        clocks->timers[i].fd = -1;
    return clocks->timers != NULL;
}

void cpu_clocks_finish(struct cpu_clocks *clocks) {
    free(clocks->timers);
    clocks->timers = NULL;
    clocks->cpus = 0;
}

uint64_t cpu_clocks_created_ns(const struct cpu_clocks *clocks, uint64_t period_ns,
                               uint32_t number) {
    return (period_ns * clocks->each & ~(uint64_t)CPU_CLOCKS_BITS) + number;
}

static struct cpu_timer *timer_of(const struct cpu_clocks *clocks, size_t cpu, size_t number) {
    return &clocks->timers[cpu * clocks->each + number];
}

void cpu_clocks_add(struct cpu_clocks *clocks, size_t cpu, uint32_t number, int fd) {
    timer_of(clocks, cpu, number)->fd = fd;
}

static void set(const struct cpu_clocks *clocks, struct cpu_timer *timer, uint64_t period_ns,
                bool is_first) {
    uint64_t spread = period_ns / CPU_CLOCKS_SPREAD;
    uint64_t drawn = clocks->draw(clocks->context, period_ns - spread, period_ns + spread);
    ioctl(timer->fd, PERF_EVENT_IOC_PERIOD, &drawn);
    if (is_first)
        ioctl(timer->fd, PERF_EVENT_IOC_ENABLE, 0);
    cpu_clock_restart(&timer->clock, (uint64_t)clock_ns(CLOCK_MONOTONIC), drawn, is_first);
}

void cpu_clocks_start(struct cpu_clocks *clocks, uint64_t period_ns, bool is_first) {
    for (size_t i = 0; i < clocks->cpus * clocks->each; i++) {
        struct cpu_timer *timer = &clocks->timers[i];
        if (timer->fd < 0)
            continue;
        set(clocks, timer, period_ns * (i % clocks->each + 1), is_first);
        timer->is_early = clocks->each > 1;
    }
}

/* After its first tick a clock goes over to the period of all. */
static bool is_due(const struct cpu_clocks *clocks, const struct cpu_timer *timer, size_t number,
                   uint64_t now_ns) {
    uint64_t age_ns = now_ns - timer->clock.start_ns, period_ns = timer->clock.period_ns;
    if (timer->fd < 0)
        return false;
    if (timer->is_early)
        return age_ns >= period_ns;
    return number == clocks->turn && age_ns >= CPU_CLOCKS_NS &&
           age_ns >= CPU_CLOCKS_EVERY * period_ns;
}

void cpu_clocks_renew(struct cpu_clocks *clocks, uint64_t period_ns) {
    uint64_t now_ns = (uint64_t)clock_ns(CLOCK_MONOTONIC);
    for (size_t i = 0; i < clocks->cpus * clocks->each; i++) {
        struct cpu_timer *timer = &clocks->timers[i];
        if (!is_due(clocks, timer, i % clocks->each, now_ns))
            continue;
        set(clocks, timer, period_ns * clocks->each, false);
        timer->is_early = false;
    }
    if (now_ns - clocks->turned_ns < CPU_CLOCKS_NS / clocks->each)
        return;
    clocks->turned_ns = now_ns;
    clocks->turn = (clocks->turn + 1) % clocks->each;
}

void cpu_clocks_weigh(struct cpu_clocks *clocks, size_t cpu, uint64_t time_ns,
                      struct host_sample *sample) {
    size_t number = sample->weight_ns & CPU_CLOCKS_BITS;
    struct cpu_timer *timer = timer_of(clocks, cpu, number < clocks->each ? number : 0);
    sample->renewed_weight_ns = cpu_clock_renewed(&timer->clock, time_ns) / clocks->each;
    sample->renewed_ns = timer->clock.start_ns;
    sample->weight_ns = cpu_clock_weight(&timer->clock, time_ns) / clocks->each;
}
