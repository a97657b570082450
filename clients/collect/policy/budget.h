/* SPDX-License-Identifier: Apache-2.0
 *
 * Budgets: how many samples per hour each service may use, over all hosts. A service with more
 * processes than its budget allows is recorded in a random fraction of them, with a weight, so that
 * sums stay unbiased: probability p, weight 1/p (CollectSettings.rules). If a process has the value
 * x, its recorded value is x/p with probability p and otherwise 0, so its expectation is x (Horvitz
 * and Thompson, 1952). The sum over processes has the variance sum(x^2) * (1 - p) / p.
 *
 * p is tuned every BUDGET_TUNE_S, as Strobelight tunes its run probabilities:
 *
 *     measured = samples * 3600 / seconds since the last tuning
 *     p'       = p * BUDGET_AIM * budget / measured
 *
 * because the expected number of samples is proportional to p. p' is at most doubled or halved in a
 * step, and between BUDGET_MIN_P and 1. Between BUDGET_LOW and 1 of its budget a service is left
 * alone, so that rules do not change for noise; it aims at the middle of that range. A service that
 * was never seen starts at its line's `start`. A load that is k times the budget is back inside it
 * after log2(k) steps.
 *
 * A budget file has one line per service:
 *
 *     # SERVICE          SAMPLES_PER_HOUR [hz=N] [start=P]
 *     checkout           400000 hz=49
 *     batch-*            40000  start=0.1
 *     "Web Content"      none
 *     kworker*           0
 *
 * SERVICE is a name with * for any characters; the first match decides. A name with spaces, # or
 * quotes is in double quotes, with \" and \\. 0 = the service is not recorded; "none" = without a
 * limit, at the probability `start`. Each service that matches has the budget for itself. A service
 * that no line matches has no limit. At most BUDGET_MAX_LINES lines with a service.
 *
 * Bounds: BUDGET_MAX_TRACKED services are measured. When there are more, those that were not seen
 * for BUDGET_TUNE_S make room; further ones use their line's `start`. A service that was not seen
 * for BUDGET_FORGET_S is forgotten. Only services whose probability differs from their line's
 * `start` need a rule of their own; if there are more than BUDGET_MAX_SERVICES of them, those that
 * were seen least recently, and among those of the same BUDGET_TUNE_S the ones with the smallest
 * load, use `start`. A service whose name has a * or more than BUDGET_MAX_NAME bytes is not tuned:
 * its name would match others.
 *
 * Processes are counted as distinct instances of a tuning period: exactly up to DISTINCT_EXACT,
 * then estimated (distinct.h).
 *
 * Thread safety: one thread. */
#ifndef SONDE_CLIENTS_COLLECT_POLICY_BUDGET_H
#define SONDE_CLIENTS_COLLECT_POLICY_BUDGET_H

#include "api/error.h"
#include "proto/sonde/v1/controller.pb-c.h"
#include "proto/sonde/v1/profiler.pb-c.h"

#include <stdbool.h>

#define BUDGET_TUNE_S   300
#define BUDGET_FORGET_S 3600
#define BUDGET_MIN_P    0.0001
#define BUDGET_LOW      0.8
#define BUDGET_AIM      0.9
#define BUDGET_MAX_SERVICES \
    900                       /* with a rule of their own; the other rules are those of the file */
#define BUDGET_MAX_LINES   99 /* with a service; the last rule is "*" */
#define BUDGET_MAX_TRACKED 10000
#define BUDGET_MAX_NAME    255
#define BUDGET_MAX_RULES   (BUDGET_MAX_SERVICES + BUDGET_MAX_LINES + 1)

struct budget;

/* text: a budget file's contents; NULL or "" = no limits: one rule, "*" with probability 1. name:
 * for messages. SONDE_INVALID_ARGUMENT with line and what is wrong. */
SONDE_MUST_USE sonde_err budget_create(const char *text, const char *name, struct budget **budget,
                                       struct sonde_diag *diag);
void budget_destroy(struct budget *budget); /* NULL is fine */
/* Takes over what was measured from `old`, for a file that has changed. */
void budget_adopt(struct budget *budget, const struct budget *old);
/* With several controllers: the share of the fleet's hosts that this one has, above 0 and at most 1
 * (the default). It may use that share of each budget. */
void budget_set_share(struct budget *budget, double share);
/* A window arrived. instance: for counting processes. */
void budget_count(struct budget *budget, const char *service, const char *instance,
                  uint64_t samples, int64_t now_s);
/* Tunes what is due; true if rules have changed. */
bool budget_tune(struct budget *budget, int64_t now_s);
/* The rules for hosts, valid until the next call of budget_tune, budget_adopt or budget_count;
 * count <= BUDGET_MAX_RULES. In the order of the file: the services of a line, then the line. */
Sonde__V1__CollectRule **budget_rules(struct budget *budget, size_t *count);
/* For Fleet.budgets: services with a budget or a probability below 1, by name, valid like the
 * rules. At most 1,000: those with the most samples. samples_per_hour is the file's, for the whole
 * fleet; the other numbers are this controller's. */
Sonde__V1__FleetBudget **budget_report(struct budget *budget, size_t *count);

#endif
