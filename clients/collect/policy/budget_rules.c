/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules for hosts, and the report. */
#include "clients/collect/policy/budget_state.h"

#include <stdlib.h>
#include <string.h>

static double load_of(const struct budget_service *service) {
    double samples = service->recent_per_hour > 0 ? service->recent_per_hour : 0;
    return service->probability > 0 ? samples / service->probability : 0;
}

static int compare(double a, double b) {
    return (a > b) - (a < b);
}

/* The most recently seen first, and the largest load first. */
static int by_need(const void *a, const void *b) {
    const struct budget_service *one = *(const struct budget_service *const *)a;
    const struct budget_service *two = *(const struct budget_service *const *)b;
    int order = compare(one->is_seen ? 0 : one->idle, two->is_seen ? 0 : two->idle);
    if (!order)
        order = compare(load_of(two), load_of(one));
    return order ? order : strcmp(one->name, two->name);
}

/* In the order of the lines. */
static int by_line(const void *a, const void *b) {
    const struct budget_service *one = *(const struct budget_service *const *)a;
    const struct budget_service *two = *(const struct budget_service *const *)b;
    if (one->line != two->line)
        return one->line < two->line ? -1 : 1;
    return strcmp(one->name, two->name);
}

/* Sorts the services that need a rule of their own by line; returns how many there are. */
static size_t choose(struct budget *budget) {
    size_t count = 0;
    for (uint32_t i = 0; i < budget->count; i++) {
        const struct budget_service *service = &budget->services[i];
        if (service->probability != budget_line_start(budget_line_of(budget, service)))
            budget->sorted[count++] = service;
    }
    if (count > BUDGET_MAX_SERVICES) {
        qsort(budget->sorted, count, sizeof budget->sorted[0], by_need);
        count = BUDGET_MAX_SERVICES;
    }
    qsort(budget->sorted, count, sizeof budget->sorted[0], by_line);
    return count;
}

static void put_rule(struct budget *budget, size_t at, const char *name, double probability,
                     uint32_t hz) {
    Sonde__V1__CollectRule *rule = &budget->rules[at];
    sonde__v1__collect_rule__init(rule);
    rule->service = (char *)(uintptr_t)name;
    rule->probability = probability;
    rule->frequency_hz = hz;
    budget->rule_pointers[at] = rule;
}

Sonde__V1__CollectRule **budget_rules(struct budget *budget, size_t *count) {
    size_t services = choose(budget), next = 0;
    *count = 0;
    for (size_t i = 0; i < budget->lines.count; i++) {
        const struct budget_line *line = &budget->lines.lines[i];
        for (; next < services && budget->sorted[next]->line == i; next++)
            put_rule(budget, (*count)++, budget->sorted[next]->name,
                     budget->sorted[next]->probability, line->frequency_hz);
        put_rule(budget, (*count)++, line->pattern, budget_line_start(line), line->frequency_hz);
    }
    return budget->rule_pointers;
}

/* Before the first tuning, extrapolate from the samples so far (a lower bound). */
static double recent_of(const struct budget_service *service) {
    return service->recent_per_hour >= 0 ? service->recent_per_hour
                                         : (double)service->samples * 3600 / BUDGET_TUNE_S;
}

static int by_samples(const void *a, const void *b) {
    const struct budget_service *one = *(const struct budget_service *const *)a;
    const struct budget_service *two = *(const struct budget_service *const *)b;
    int order = compare(recent_of(two), recent_of(one));
    return order ? order : strcmp(one->name, two->name);
}

static int by_name(const void *a, const void *b) {
    const struct budget_service *one = *(const struct budget_service *const *)a;
    const struct budget_service *two = *(const struct budget_service *const *)b;
    return strcmp(one->name, two->name);
}

static void put_report(struct budget *budget, size_t at, const struct budget_service *service) {
    Sonde__V1__FleetBudget *row = &budget->report[at];
    const struct budget_line *line = budget_line_of(budget, service);
    sonde__v1__fleet_budget__init(row);
    row->service = service->name;
    row->samples_per_hour = budget_line_is_tuned(line) ? line->samples_per_hour : 0;
    row->recent_samples_per_hour = (uint64_t)(recent_of(service) + 0.5);
    row->probability = service->probability;
    row->processes = service->recent_per_hour >= 0 || !service->processes
                         ? service->recent_processes
                         : distinct_count(service->processes);
    budget->report_pointers[at] = row;
}

Sonde__V1__FleetBudget **budget_report(struct budget *budget, size_t *count) {
    size_t found = 0;
    for (uint32_t i = 0; i < budget->count; i++)
        if (budget_line_is_tuned(budget_line_of(budget, &budget->services[i])) ||
            budget->services[i].probability < 1)
            budget->sorted[found++] = &budget->services[i];
    if (found > BUDGET_MAX_REPORT) {
        qsort(budget->sorted, found, sizeof budget->sorted[0], by_samples);
        found = BUDGET_MAX_REPORT;
    }
    qsort(budget->sorted, found, sizeof budget->sorted[0], by_name);
    for (size_t i = 0; i < found; i++)
        put_report(budget, i, budget->sorted[i]);
    *count = found;
    return budget->report_pointers;
}
