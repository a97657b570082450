/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of a budget file (budget.h). Thread safety: any thread. */
#ifndef SONDE_CLIENTS_COLLECT_POLICY_BUDGET_LINES_H
#define SONDE_CLIENTS_COLLECT_POLICY_BUDGET_LINES_H

#include "clients/collect/policy/budget.h"

#define BUDGET_UNLIMITED   UINT64_MAX
#define BUDGET_MAX_SAMPLES 1000000000000ull
#define BUDGET_MAX_HZ      999
#define BUDGET_MAX_LINE    1023
#define BUDGET_MAX_TEXT    (1u << 20)

struct budget_line {
    char pattern[BUDGET_MAX_NAME + 1];
    uint64_t samples_per_hour; /* BUDGET_UNLIMITED = none */
    uint32_t frequency_hz;     /* 0 = that of the settings */
    double start;
};

struct budget_lines {
    struct budget_line lines[BUDGET_MAX_LINES + 1]; /* the last one is "*" without a limit */
    size_t count;
};

/* SONDE_INVALID_ARGUMENT: the text has name and line. */
SONDE_MUST_USE sonde_err budget_lines_read(const char *text, const char *name,
                                           struct budget_lines *lines, struct sonde_diag *diag);
/* The first line that matches. */
size_t budget_lines_find(const struct budget_lines *lines, const char *name);

#endif
