/* SPDX-License-Identifier: Apache-2.0
 *
 * Services are an array, found by name. They are only removed by budget_tune, which then builds the
 * index again. */
#include "clients/collect/policy/budget.h"

#include "clients/collect/policy/budget_state.h"

#include <stdlib.h>
#include <string.h>

sonde_err budget_create(const char *text, const char *name, struct budget **budget,
                        struct sonde_diag *diag) {
    struct budget *created = calloc(1, sizeof *created);
    *budget = NULL;
    if (created)
        created->services = calloc(BUDGET_MAX_TRACKED, sizeof *created->services);
    if (!created || !created->services) {
        free(created);
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "not enough memory for %.200s", name);
    }
    created->share = 1;
    hash_index_init(&created->index);
    sonde_err err = budget_lines_read(text, name, &created->lines, diag);
    if (err)
        budget_destroy(created);
    else
        *budget = created;
    return err;
}

static void finish_service(struct budget_service *service) {
    free(service->name);
    free(service->processes);
}

void budget_destroy(struct budget *budget) {
    if (!budget)
        return;
    for (uint32_t i = 0; i < budget->count; i++)
        finish_service(&budget->services[i]);
    hash_index_finish(&budget->index);
    free(budget->services);
    free(budget);
}

void budget_set_share(struct budget *budget, double share) {
    budget->share = share > 1e-6 && share <= 1 ? share : budget->share;
}

static struct budget_service *find(const struct budget *budget, const char *name, uint32_t hash) {
    struct hash_probe probe = hash_probe(hash);
    uint32_t number;
    while ((number = hash_index_next(&budget->index, &probe)) != HASH_INDEX_NONE)
        if (strcmp(budget->services[number].name, name) == 0)
            return &budget->services[number];
    return NULL;
}

static struct budget_service *add(struct budget *budget, const char *name, uint32_t hash) {
    if (budget->count == BUDGET_MAX_TRACKED)
        return NULL;
    struct budget_service *service = &budget->services[budget->count];
    size_t line = budget_lines_find(&budget->lines, name);
    *service = (struct budget_service){
        .name = strdup(name),
        .line = line,
        .probability = budget_line_start(&budget->lines.lines[line]),
        .recent_per_hour = -1,
    };
    if (!service->name || !hash_index_add(&budget->index, hash, budget->count)) {
        finish_service(service);
        return NULL;
    }
    if (budget_line_is_tuned(&budget->lines.lines[line]))
        service->processes = calloc(1, sizeof *service->processes);
    budget->count++;
    return service;
}

/* A name that can be a rule which matches nothing else. */
static bool is_plain(const char *name) {
    return *name && strnlen(name, BUDGET_MAX_NAME + 1) <= BUDGET_MAX_NAME && !strchr(name, '*');
}

static void start(struct budget *budget, int64_t now_s) {
    if (!budget->is_started || now_s < budget->tuned_s)
        budget->tuned_s = now_s;
    budget->is_started = true;
}

void budget_count(struct budget *budget, const char *name, const char *instance, uint64_t samples,
                  int64_t now_s) {
    start(budget, now_s);
    if (!is_plain(name))
        return;
    uint32_t hash = hash_index_data(&budget->index, name, strlen(name));
    struct budget_service *service = find(budget, name, hash);
    if (!service)
        service = add(budget, name, hash);
    if (!service)
        return;
    if (__builtin_add_overflow(service->samples, samples, &service->samples))
        service->samples = UINT64_MAX;
    service->seen_s = now_s;
    service->is_seen = true;
    if (service->processes)
        distinct_add(service->processes,
                     hash_index_data(&budget->index, instance, strlen(instance)));
}

/* The formula of budget.h. */
static double tuned(double probability, double measured, double allowed) {
    if (measured >= BUDGET_LOW * allowed && measured <= allowed)
        return probability;
    double factor = measured > 0 ? BUDGET_AIM * allowed / measured : 2;
    factor = factor > 2 ? 2 : factor < 0.5 ? 0.5 : factor;
    probability *= factor;
    return probability > 1 ? 1 : probability < BUDGET_MIN_P ? BUDGET_MIN_P : probability;
}

/* Ends the service's period; true if its probability has changed. */
static bool tune_service(struct budget *budget, struct budget_service *service, int64_t seconds) {
    const struct budget_line *line = budget_line_of(budget, service);
    double before = service->probability;
    service->recent_per_hour = (double)service->samples * 3600 / (double)seconds;
    service->samples = 0;
    service->idle = service->is_seen ? 0 : service->idle + 1;
    service->is_seen = false;
    if (service->processes) {
        service->recent_processes = distinct_count(service->processes);
        service->processes->count = 0;
    }
    if (budget_line_is_tuned(line))
        service->probability =
            tuned(before, service->recent_per_hour, (double)line->samples_per_hour * budget->share);
    return service->probability != before;
}

/* Forgets services that were not seen; true if one had a rule of its own. */
static bool forget(struct budget *budget, int64_t now_s) {
    int64_t oldest =
        now_s - (budget->count == BUDGET_MAX_TRACKED ? BUDGET_TUNE_S : BUDGET_FORGET_S);
    uint32_t kept = 0;
    bool has_changed = false;
    for (uint32_t i = 0; i < budget->count; i++) {
        struct budget_service *service = &budget->services[i];
        if (service->seen_s >= oldest) {
            budget->services[kept++] = *service;
            continue;
        }
        has_changed |= service->probability != budget_line_start(budget_line_of(budget, service));
        finish_service(service);
    }
    if (kept == budget->count)
        return false;
    budget->count = kept;
    hash_index_clear(&budget->index);
    for (uint32_t i = 0; i < kept; i++) { /* the slots were enough for more: this does not fail */
        const char *name = budget->services[i].name;
        (void)hash_index_add(&budget->index, hash_index_data(&budget->index, name, strlen(name)),
                             i);
    }
    return has_changed;
}

bool budget_tune(struct budget *budget, int64_t now_s) {
    start(budget, now_s);
    int64_t seconds = now_s - budget->tuned_s;
    if (seconds < BUDGET_TUNE_S)
        return false;
    bool has_changed = forget(budget, now_s);
    for (uint32_t i = 0; i < budget->count; i++)
        has_changed |= tune_service(budget, &budget->services[i], seconds);
    budget->tuned_s = now_s;
    return has_changed;
}

/* The probability goes on, unless one of the two lines fixes it. */
static void adopt_service(struct budget *budget, const struct budget *old,
                          const struct budget_service *from) {
    uint32_t hash = hash_index_data(&budget->index, from->name, strlen(from->name));
    struct budget_service *service =
        find(budget, from->name, hash) ? NULL : add(budget, from->name, hash);
    if (!service)
        return;
    const struct budget_line *line = budget_line_of(budget, service);
    const struct budget_line *before = budget_line_of(old, from);
    if (budget_line_is_tuned(line) && budget_line_is_tuned(before) &&
        from->probability != before->start)
        service->probability = from->probability;
    service->samples = from->samples;
    service->recent_per_hour = from->recent_per_hour;
    service->recent_processes = from->recent_processes;
    service->seen_s = from->seen_s;
    service->is_seen = from->is_seen;
    service->idle = from->idle;
    if (service->processes && from->processes)
        *service->processes = *from->processes;
}

void budget_adopt(struct budget *budget, const struct budget *old) {
    /* The same seed, because hashes of instances are taken over. */
    if (budget->count == 0) {
        budget->index.seed[0] = old->index.seed[0];
        budget->index.seed[1] = old->index.seed[1];
    }
    budget->share = old->share;
    budget->tuned_s = old->tuned_s;
    budget->is_started = old->is_started;
    for (uint32_t i = 0; i < old->count; i++)
        adopt_service(budget, old, &old->services[i]);
}
