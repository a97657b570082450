/* SPDX-License-Identifier: Apache-2.0
 *
 * An overhead ceiling: the sampler may take such a share of the CPU time its target uses.
 *
 * A thread's clock ticks in the thread's own CPU time, so ticks take the same share whatever the
 * load: what a sample costs over the period. A sample costs what the guest's handlers take, which
 * it measures, and the kernel's interrupt and signal around them, which nobody can see from inside:
 * for that stands an estimate, larger under a hypervisor, where a timer interrupt leaves the guest
 * machine. What the guest's control thread takes comes off the ceiling first, three quarters of it
 * at most. So the period follows from the ceiling at once, and is corrected at every account. */
#include "service/engine/capture/cpu_capture.h"

#include <cpuid.h>
#include <stdio.h>

#define KERNEL_NS         5000u
#define VIRTUAL_KERNEL_NS 15000u
#define FIRST_HANDLER_NS  2000u /* until it was measured */
#define LEAST_SAMPLES     20u   /* of one account, to judge by */
#define LONGEST_NS        1000000000ull
#define SETTLED           0.1 /* changes of the period below this share are not worth a message */

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

/* Blocked threads are looked at by the control thread: more seldom, when that takes too much. */
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
    if (count >= LEAST_SAMPLES)
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
