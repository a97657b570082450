/* SPDX-License-Identifier: Apache-2.0
 *
 * What budget.c and budget_rules.c share. */
#ifndef SONDE_CLIENTS_COLLECT_POLICY_BUDGET_STATE_H
#define SONDE_CLIENTS_COLLECT_POLICY_BUDGET_STATE_H

#include "api/hash_index.h"
#include "clients/collect/policy/budget_lines.h"
#include "clients/collect/policy/distinct.h"

#define BUDGET_MAX_REPORT 1000

/* A service that was seen. */
struct budget_service {
    char *name;
    size_t line;
    double probability;
    uint64_t samples;       /* since the last tuning */
    double recent_per_hour; /* of the period before; negative = there was none */
    uint32_t recent_processes;
    int64_t seen_s;
    bool is_seen;               /* since the last tuning */
    uint32_t idle;              /* tuning periods since it was seen */
    struct distinct *processes; /* NULL when out of memory, or if the line has no limit */
};

struct budget {
    struct budget_lines lines;
    double share;
    struct hash_index index; /* by name; its seed also hashes instances */
    struct budget_service *services;
    uint32_t count;
    int64_t tuned_s;
    bool is_started; /* tuned_s is set */
    Sonde__V1__CollectRule rules[BUDGET_MAX_RULES], *rule_pointers[BUDGET_MAX_RULES];
    Sonde__V1__FleetBudget report[BUDGET_MAX_REPORT], *report_pointers[BUDGET_MAX_REPORT];
    const struct budget_service *sorted[BUDGET_MAX_TRACKED];
};

static inline const struct budget_line *budget_line_of(const struct budget *budget,
                                                       const struct budget_service *service) {
    return &budget->lines.lines[service->line];
}

/* Whether the line's probability is tuned. */
static inline bool budget_line_is_tuned(const struct budget_line *line) {
    return line->samples_per_hour != 0 && line->samples_per_hour != BUDGET_UNLIMITED;
}

static inline double budget_line_start(const struct budget_line *line) {
    return line->samples_per_hour == 0 ? 0 : line->start;
}

#endif
