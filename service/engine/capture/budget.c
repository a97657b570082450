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
 * corrected whenever the guest reports its CPU time. */
#include "service/engine/capture/cpu_capture.h"

#include <cpuid.h>
#include <stdio.h>

#define KERNEL_NS         5000u
#define VIRTUAL_KERNEL_NS 15000u
#define FIRST_HANDLER_NS  2000u /* before it is measured */
#define MIN_SAMPLES       20u   /* a report with fewer does not change the cost of a sample */
#define LONGEST_NS        1000000000ull
#define SETTLED           0.1 /* smaller relative changes of the period are not sent */

static uint64_t kernel_ns(void) {
    unsigned a, b, c = 0, d;
    bool is_virtual = __get_cpuid(1, &a, &b, &c, &d) && (c >> 31 & 1);
    return is_virtual ? VIRTUAL_KERNEL_NS : KERNEL_NS;
}

static double lowest_ceiling(const struct target *target) {
    double lowest = 0;
    for (const struct cpu_capture *capture = target->captures; capture; capture = capture->next) {
        double ceiling = capture->spec.max_overhead;
        bool counts = capture->state == CAPTURE_WAITING || capture->state == CAPTURE_RUNNING;
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
    double ceiling = lowest_ceiling(target);
    if (ceiling == budget->ceiling)
        return;
    budget->ceiling = ceiling;
    if (budget->sample_ns == 0)
        budget->sample_ns = FIRST_HANDLER_NS + kernel_ns();
    budget->min_period_ns = ceiling > 0 ? period_for(budget->sample_ns, ceiling) : 0;
    budget->min_wall_period_ns = 0;
    budget->seen = target->totals;
}

/* The control thread checks blocked threads once per wall period; lengthens the period if that
 * takes too much CPU time. */
static void adjust_wall(struct target *target, double fixed) {
    struct budget *budget = &target->budget;
    if (target->wall_period_ns == 0)
        return;
    if (fixed > budget->ceiling / 2 && target->wall_period_ns < LONGEST_NS)
        budget->min_wall_period_ns = target->wall_period_ns * 2;
    else if (fixed < budget->ceiling / 8)
        budget->min_wall_period_ns /= 2;
}

static double part(uint64_t ns, uint64_t of_ns) {
    return of_ns ? (double)ns / (double)of_ns : 0;
}

bool budget_on_account(struct target *target) {
    struct budget *budget = &target->budget;
    const struct totals *now = &target->totals;
    if (budget->ceiling == 0)
        return false;
    uint64_t count = now->handler_count - budget->seen.handler_count;
    uint64_t handler_ns = now->handler_ns - budget->seen.handler_ns;
    uint64_t account_ns = now->account_ns - budget->seen.account_ns;
    uint64_t own_ns = account_ns > handler_ns ? account_ns - handler_ns : 0;
    double fixed = part(own_ns, now->target_cpu_ns - budget->seen.target_cpu_ns);
    budget->seen = *now;
    if (count >= MIN_SAMPLES)
        budget->sample_ns = handler_ns / count + kernel_ns();
    double left = budget->ceiling - fixed;
    left = left > budget->ceiling / 4 ? left : budget->ceiling / 4;
    uint64_t wall_before_ns = budget->min_wall_period_ns;
    uint64_t min_period_ns = period_for(budget->sample_ns, left);
    adjust_wall(target, fixed);
    double change =
        (double)min_period_ns / (double)(budget->min_period_ns ? budget->min_period_ns : 1) - 1;
    if (change < SETTLED && change > -SETTLED && wall_before_ns == budget->min_wall_period_ns)
        return false;
    budget->min_period_ns = min_period_ns;
    return true;
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
    double share = part(ns, now->target_cpu_ns - base->target_cpu_ns);
    char whose[64] = "of another capture";
    if (ceiling > 0)
        snprintf(whose, sizeof whose, "%.2f %% of the target's CPU time", 100 * ceiling);
    snprintf(text, size, "%s; about %.2f %% taken; %.1f Hz on average, %.1f at least, %.0f asked",
             whose, 100 * share, mean_hz,
             capture->rate.lowest_hz > 0 ? capture->rate.lowest_hz : mean_hz, asked_hz);
}
