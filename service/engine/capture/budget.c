/* SPDX-License-Identifier: Apache-2.0
 *
 * max_overhead: a ceiling for the sampler's share of the CPU time that its target uses.
 *
 * A thread's clock ticks in the thread's own CPU time. So the share is the cost of a sample divided
 * by the period, whatever the load. The cost of a sample is the time in the guest's handlers, which
 * the guest measures, plus the kernel's interrupt and signal delivery, which cannot be measured
 * from inside. The latter is an estimate, and a larger one in a virtual machine, where each timer
 * interrupt exits to the hypervisor. The share of the guest's control thread is subtracted from the
 * ceiling first, up to three quarters of it. So the period follows directly from the ceiling; it is
 * corrected whenever the guest reports its CPU time.
 *
 * How often a counted event happens does not follow from CPU time. So the share that its samples
 * took is measured, and the period changes in proportion.
 *
 * Recordings have a ceiling of their own. While other captures run, their ticks cannot be told
 * apart from the recording's, so the recording's limit stays as it was. */
#include "service/engine/capture/budget.h"
#include "service/engine/capture/clock.h"
#include "service/engine/capture/cpu_capture.h"
#include "service/machine/own/cpu.h"

#include <stdio.h>

#define KERNEL_NS         5000u
#define VIRTUAL_KERNEL_NS 15000u
#define FIRST_HANDLER_NS  2000u /* before it is measured */
#define MIN_SAMPLES       20u   /* a report with fewer does not change the cost of a sample */
#define LONGEST_NS        1000000000ull
#define LONGEST_COUNT     (1ull << 40) /* events for one sample */
#define IDLE_NS           100000000u   /* CPU time of a target of which no share is reported */
#define SETTLED           0.1          /* smaller relative changes of the period are not sent */

static uint64_t kernel_ns(void) {
    return cpu_is_virtual() ? VIRTUAL_KERNEL_NS : KERNEL_NS;
}

static bool is_active(const struct cpu_capture *capture) {
    return capture->state == CAPTURE_WAITING || capture->state == CAPTURE_RUNNING;
}

static bool has_captures(const struct target *target) {
    for (const struct cpu_capture *capture = target->captures; capture; capture = capture->next)
        if (is_active(capture) && !capture->spec.is_recording)
            return true;
    return false;
}

static bool is_of_counted(const struct target *target) {
    return target->captures && target->captures->is_counted;
}

static double lowest_ceiling(const struct target *target, bool of_recordings) {
    double lowest = 0;
    for (const struct cpu_capture *capture = target->captures; capture; capture = capture->next) {
        double ceiling = capture->spec.max_overhead;
        bool counts = is_active(capture) && capture->spec.is_recording == of_recordings;
        if (counts && ceiling > 0 && (lowest == 0 || ceiling < lowest))
            lowest = ceiling;
    }
    return lowest;
}

static uint64_t period_for(uint64_t cost_ns, double share) {
    double period_ns = (double)cost_ns / share;
    return period_ns < (double)LONGEST_NS ? (uint64_t)period_ns : LONGEST_NS;
}

void budget_adjust(struct target *target) {
    struct budget *budget = &target->budget;
    for (int i = 0; i < 2; i++) {
        struct budget_limit *limit = &budget->limits[i];
        double ceiling = lowest_ceiling(target, i == 1);
        if (ceiling == limit->ceiling)
            continue;
        if (budget->sample_ns == 0)
            budget->sample_ns = FIRST_HANDLER_NS + kernel_ns();
        *limit = (struct budget_limit){.ceiling = ceiling};
        if (ceiling > 0)
            limit->min_period_ns =
                is_of_counted(target) ? target->period_ns : period_for(budget->sample_ns, ceiling);
        budget->seen = target->totals;
        budget->seen_ns = now_monotonic_ns();
    }
}

/* The control thread checks blocked threads once per wall period; lengthens the period if that
 * takes too much CPU time. */
static void adjust_wall(const struct target *target, struct budget_limit *limit, double fixed) {
    if (target->wall_period_ns == 0)
        return;
    if (fixed > limit->ceiling / 2 && target->wall_period_ns < LONGEST_NS)
        limit->min_wall_period_ns = target->wall_period_ns * 2;
    else if (fixed < limit->ceiling / 8)
        limit->min_wall_period_ns /= 2;
}

static double part(uint64_t ns, uint64_t of_ns) {
    return of_ns ? (double)ns / (double)of_ns : 0;
}

/* cpu_ns: of the target; of several processes, whose sum is not known, the time of one CPU. Returns
 * whether the period must change to the one at which the samples since the last look would have
 * taken what the ceiling allows. A quiet event comes back to the asked period by halves. */
static bool adjust_counted(struct target *target, struct budget_limit *limit, uint64_t count,
                           uint64_t cpu_ns) {
    double allowed_ns = limit->ceiling * (double)cpu_ns;
    double taken_ns = (double)count * (double)target->budget.sample_ns;
    double factor = allowed_ns > 0 ? taken_ns / allowed_ns : 1;
    if (allowed_ns <= 0 && count >= MIN_SAMPLES)
        factor = 2;
    factor = factor < 0.5 ? 0.5 : factor;
    if (factor > 1 - SETTLED && factor < 1 + SETTLED)
        return false;
    double period = (double)(target->period_ns ? target->period_ns : 1) * factor;
    limit->min_period_ns = period < 1               ? 0
                           : period < LONGEST_COUNT ? (uint64_t)(period + 0.5)
                                                    : LONGEST_COUNT;
    return true;
}

/* True when the rate must change. */
static bool adjust_limit(const struct target *target, struct budget_limit *limit, double fixed) {
    double left = limit->ceiling - fixed;
    left = left > limit->ceiling / 4 ? left : limit->ceiling / 4;
    uint64_t wall_before_ns = limit->min_wall_period_ns;
    uint64_t min_period_ns = period_for(target->budget.sample_ns, left);
    adjust_wall(target, limit, fixed);
    double change =
        (double)min_period_ns / (double)(limit->min_period_ns ? limit->min_period_ns : 1) - 1;
    if (change < SETTLED && change > -SETTLED && wall_before_ns == limit->min_wall_period_ns)
        return false;
    limit->min_period_ns = min_period_ns;
    return true;
}

bool budget_on_account(struct target *target) {
    struct budget *budget = &target->budget;
    struct budget_limit *captures = &budget->limits[0], *recordings = &budget->limits[1];
    const struct totals *now = &target->totals;
    if (captures->ceiling == 0 && recordings->ceiling == 0)
        return false;
    uint64_t count = now->handler_count - budget->seen.handler_count;
    uint64_t handler_ns = now->handler_ns - budget->seen.handler_ns;
    uint64_t account_ns = now->account_ns - budget->seen.account_ns;
    uint64_t own_ns = account_ns > handler_ns ? account_ns - handler_ns : 0;
    uint64_t cpu_ns = now->target_cpu_ns - budget->seen.target_cpu_ns;
    double fixed = part(own_ns, cpu_ns);
    uint64_t now_ns = now_monotonic_ns(), elapsed_ns = now_ns - budget->seen_ns;
    budget->seen = *now;
    budget->seen_ns = now_ns;
    if (count >= MIN_SAMPLES)
        budget->sample_ns = handler_ns / count + kernel_ns();
    if (is_of_counted(target))
        return adjust_counted(target, captures, count, target->info.pid ? cpu_ns : elapsed_ns);
    bool has_changed = captures->ceiling > 0 && adjust_limit(target, captures, fixed);
    if (recordings->ceiling > 0 && !has_captures(target))
        has_changed |= adjust_limit(target, recordings, fixed);
    return has_changed;
}

/* A share of next to nothing says nothing. */
static void describe_taken(uint64_t ns, uint64_t target_ns, char *text, size_t size) {
    if (target_ns < IDLE_NS)
        snprintf(text, size, "the target was idle: %.1f ms of CPU time, sampling took %.1f ms",
                 (double)target_ns / 1e6, (double)ns / 1e6);
    else
        snprintf(text, size, "about %.2f %% taken", 100 * part(ns, target_ns));
}

void budget_describe(const struct cpu_capture *capture, double mean_hz, char *text, size_t size) {
    const struct target *target = capture->base.target;
    const struct totals *now = &target->totals, *base = &capture->first;
    double ceiling = capture->spec.max_overhead, asked_hz = capture->spec.frequency_hz;
    text[0] = 0;
    if (ceiling == 0 && mean_hz >= asked_hz * 0.99)
        return;
    uint64_t ns = (now->handler_count - base->handler_count) * kernel_ns() + now->account_ns -
                  base->account_ns;
    uint64_t target_ns = now->target_cpu_ns - base->target_cpu_ns;
    char taken[80], whose[64] = "of another capture";
    if (ceiling > 0)
        snprintf(whose, sizeof whose, "%.2f %% of the target's CPU time", 100 * ceiling);
    describe_taken(ns, target_ns, taken, sizeof taken);
    snprintf(text, size, "%s; %s; %.1f Hz on average, %.1f at least, %.0f asked", whose, taken,
             mean_hz, capture->rate.lowest_hz > 0 ? capture->rate.lowest_hz : mean_hz, asked_hz);
}

void budget_describe_counted(const struct cpu_capture *capture, char *text, size_t size) {
    const struct target *target = capture->base.target;
    const struct totals *now = &target->totals, *base = &capture->first;
    double ceiling = capture->spec.max_overhead;
    text[0] = 0;
    if (ceiling == 0)
        return;
    bool is_one = target->info.pid != 0;
    uint64_t ns = (now->handler_count - base->handler_count) * target->budget.sample_ns;
    uint64_t of_ns =
        is_one ? now->target_cpu_ns - base->target_cpu_ns : now_monotonic_ns() - capture->start_ns;
    char taken[80];
    describe_taken(ns, of_ns, taken, sizeof taken);
    int len = snprintf(text, size, "%.2f %% of %s; %s", 100 * ceiling,
                       is_one ? "the target's CPU time" : "the time of a CPU", taken);
    if (capture->by_number && len > 0 && (size_t)len < size)
        snprintf(text + len, size - (size_t)len, "; one sample for up to %llu events",
                 (unsigned long long)capture->longest_period);
}
