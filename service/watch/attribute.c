/* SPDX-License-Identifier: Apache-2.0 */
#include "service/watch/attribute.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_HOSTS 3
#define LEAST_MOVED (1.0 / 3) /* of the CPU time */
#define MAX_VALUES  100       /* of a label; one with more is no version */
#define ONE_HOST    0.7       /* its part of the change */

/* What a series has on both sides of the change. */
struct both {
    double before, after;
};

static struct both sum_points(const struct attribution *attribution,
                              const struct store_series *series) {
    struct both sums = {0};
    for (size_t i = 0; i < series->point_count; i++)
        *(series->points[i].time_unix_s < attribution->change_unix_s ? &sums.before
                                                                     : &sums.after) +=
            (double)series->points[i].value;
    return sums;
}

static sonde_err ask(const struct attribution *attribution, const char *const *name, uint32_t limit,
                     const uint64_t *stacks, size_t stack_count, struct store_series_result *result,
                     struct sonde_diag *diag) {
    const struct explaining *explaining = attribution->explaining;
    const struct store_series_query query = {.query = {.service = explaining->slots->service,
                                                       .event = SLOTS_EVENT,
                                                       .from_unix_s = attribution->before_unix_s,
                                                       .until_unix_s = attribution->until_unix_s,
                                                       .stop = explaining->stop},
                                             .step_s = LEVEL_SLOT_S,
                                             .group_by = name,
                                             .group_count = 1,
                                             .limit = limit,
                                             .stacks = stacks,
                                             .stack_count = stack_count};
    return explaining->store->ops->series(explaining->store, &query, explaining->arena, result,
                                          diag);
}

/* ---- Hosts ---- */

static const struct store_series *find_host(const struct store_series_result *result,
                                            const char *host) {
    for (size_t i = 0; i < result->series_count; i++)
        if (strcmp(result->series[i].values[0], host) == 0)
            return &result->series[i];
    return NULL;
}

/* By how much each host has more of the function than the share before lets expect. */
struct excess {
    const char *host;
    double change, whole;
};

static size_t find_excesses(const struct attribution *attribution,
                            const struct store_series_result *wholes,
                            const struct store_series_result *parts, struct excess *excesses) {
    struct both part = {0}, whole = {0};
    for (size_t i = 0; i < wholes->series_count; i++) {
        struct both one = sum_points(attribution, &wholes->series[i]);
        whole.before += one.before;
    }
    for (size_t i = 0; i < parts->series_count; i++)
        part.before += sum_points(attribution, &parts->series[i]).before;
    double share = whole.before > 0 ? part.before / whole.before : 0;
    for (size_t i = 0; i < wholes->series_count; i++) {
        const char *host = wholes->series[i].values[0];
        const struct store_series *of_host = find_host(parts, host);
        double all = sum_points(attribution, &wholes->series[i]).after;
        double after = of_host ? sum_points(attribution, of_host).after : 0;
        excesses[i] = (struct excess){host, after - share * all, share * all};
    }
    return wholes->series_count;
}

/* The others' cost changed by less than is worth a finding. */
static const char *find_one(const struct excess *excesses, size_t count) {
    double change = 0, expected = 0;
    size_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        change += excesses[i].change;
        expected += excesses[i].whole;
        if (fabs(excesses[i].change) > fabs(excesses[largest].change))
            largest = i;
    }
    if (count < LEAST_HOSTS || excesses[largest].change / change < ONE_HOST)
        return NULL;
    double rest = change - excesses[largest].change;
    return fabs(rest) < LEVEL_LEAST_CHANGE * (expected - excesses[largest].whole)
               ? excesses[largest].host
               : NULL;
}

sonde_err attribute_host(const struct attribution *attribution, Sonde__V1__Change *change,
                         struct sonde_diag *diag) {
    static const char *const name = "host";
    const struct explaining *explaining = attribution->explaining;
    const struct level_change *first = &explaining->result->changes[0];
    struct store_series_result wholes, parts;
    uint64_t *stacks;
    size_t count;
    if (first->kind == LEVEL_MOVED || first->moved_from != LEVEL_NONE)
        return SONDE_OK;
    sonde_err err = slots_stacks_of(explaining->slots, first->function, &stacks, &count);
    if (!err)
        err = ask(attribution, &name, EXPLAIN_HOSTS, NULL, 0, &wholes, diag);
    if (!err && count)
        err = ask(attribution, &name, EXPLAIN_HOSTS, stacks, count, &parts, diag);
    free(stacks);
    if (err || count == 0)
        return err;
    struct excess *excesses =
        sonde_arena_alloc(explaining->arena, (wholes.series_count + 1) * sizeof *excesses);
    if (!excesses)
        return SONDE_OUT_OF_MEMORY;
    const char *host = find_one(excesses, find_excesses(attribution, &wholes, &parts, excesses));
    if (host)
        change->host = (char *)host;
    return SONDE_OK;
}

/* ---- Labels ---- */

/* They change with every process, or are shown by themselves. */
static bool is_asked(const char *name) {
    static const char *const others[] = {"service", "host",   "instance", "pid",
                                         "event",   "thread", "pod_name", "pod"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(name, others[i]) == 0)
            return false;
    return true;
}

/* Adds the label if enough of the time has other values. */
static sonde_err compare_values(const struct attribution *attribution, const char *name,
                                const struct store_series_result *result,
                                Sonde__V1__Change *change) {
    struct both whole = {0}, largest = {0};
    const char *before = "", *after = "";
    double moved = 0;
    for (size_t i = 0; i < result->series_count; i++) {
        struct both sums = sum_points(attribution, &result->series[i]);
        whole.before += sums.before;
        whole.after += sums.after;
        if (sums.before > largest.before) {
            largest.before = sums.before;
            before = result->series[i].values[0];
        }
        if (sums.after > largest.after) {
            largest.after = sums.after;
            after = result->series[i].values[0];
        }
    }
    for (size_t i = 0; i < result->series_count && whole.before > 0 && whole.after > 0; i++) {
        struct both sums = sum_points(attribution, &result->series[i]);
        moved += fabs(sums.after / whole.after - sums.before / whole.before) / 2;
    }
    if (moved < LEAST_MOVED || strcmp(before, after) == 0)
        return SONDE_OK;
    Sonde__V1__ChangedLabel *label =
        sonde_arena_alloc(attribution->explaining->arena, sizeof *label);
    if (!label)
        return SONDE_OUT_OF_MEMORY;
    sonde__v1__changed_label__init(label);
    label->name = (char *)name;
    label->before = (char *)before;
    label->after = (char *)after;
    change->labels[change->n_labels++] = label;
    return SONDE_OK;
}

static sonde_err add_label(const struct attribution *attribution, const char *name,
                           Sonde__V1__Change *change, struct sonde_diag *diag) {
    struct store_series_result result;
    sonde_err err = ask(attribution, &name, MAX_VALUES, NULL, 0, &result, diag);
    if (err || result.omitted)
        return err;
    return compare_values(attribution, name, &result, change);
}

sonde_err attribute_labels(const struct attribution *attribution, Sonde__V1__Change *change,
                           struct sonde_diag *diag) {
    const struct explaining *explaining = attribution->explaining;
    const struct store_query query = {.service = explaining->slots->service,
                                      .event = SLOTS_EVENT,
                                      .from_unix_s = attribution->before_unix_s,
                                      .until_unix_s = attribution->until_unix_s,
                                      .stop = explaining->stop};
    const char **names = NULL;
    size_t count = 0;
    bool is_cut;
    sonde_err err =
        explaining->store->ops->labels(explaining->store, &query, NULL, EXPLAIN_ASKED_LABELS,
                                       explaining->arena, &names, &count, &is_cut, diag);
    change->labels =
        sonde_arena_alloc(explaining->arena, (EXPLAIN_LABELS + 1) * sizeof *change->labels);
    if (!err && !change->labels)
        err = SONDE_OUT_OF_MEMORY;
    for (int pass = 0; pass < 2; pass++) /* the version first */
        for (size_t i = 0; i < count && !err && change->n_labels < EXPLAIN_LABELS; i++)
            if (is_asked(names[i]) && (strcmp(names[i], "version") == 0) == (pass == 0))
                err = add_label(attribution, names[i], change, diag);
    return err;
}
