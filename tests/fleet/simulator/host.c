/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fleet/simulator/host.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SAMPLES 4096

static void write_uuid(char text[33], uint64_t a, uint64_t b) {
    snprintf(text, 33, "%016llx%016llx", (unsigned long long)pool_mix(a, b),
             (unsigned long long)pool_mix(b, a + 1));
}

static void start_processes(struct host *host) {
    struct host_fleet *fleet = host->fleet;
    for (size_t i = 0; i < fleet->processes; i++) {
        struct host_process *process = &host->processes[i];
        uint64_t seed = pool_mix(fleet->seed + host->index, 1000 * host->epoch + i);
        process->service = (host->index + i) % fleet->pool.service_count;
        process->pid = 1000 * host->epoch + (uint32_t)i;
        process->dropped = 0;
        write_uuid(process->instance, seed, 7);
        if (!process->stacks)
            process->stacks = calloc(fleet->pool.stack_count, 1);
    }
}

void host_init(struct host *host, struct host_fleet *fleet, size_t index, int64_t now_unix_s) {
    *host = (struct host){.fleet = fleet,
                          .index = index,
                          .epoch = 1,
                          .next_seq = 1,
                          .keep_bytes = fleet->keep_bytes,
                          .start_unix_s = now_unix_s,
                          .recorded_until_unix_s = now_unix_s};
    snprintf(host->name, sizeof host->name, "host-%05zu", index);
    write_uuid(host->instance, fleet->seed + index, 3);
    host->source = pool_mix(fleet->seed + index, 11);
    start_processes(host);
}

void host_finish(struct host *host) {
    while (host->first) {
        struct host_window *window = host->first;
        host->first = window->next;
        free(window);
    }
    for (size_t i = 0; i < HOST_MAX_PROCESSES; i++)
        free(host->processes[i].stacks);
    if (host->settings)
        sonde__v1__collect_settings__free_unpacked(host->settings, NULL);
}

void host_restart(struct host *host, int64_t now_unix_s) {
    host_disconnect(host);
    kept_drop_all(host);
    if (host->settings)
        sonde__v1__collect_settings__free_unpacked(host->settings, NULL);
    host->settings = NULL;
    host->epoch++;
    host->next_seq = 1;
    host->acked_seq = host->windows = host->merged = host->lost = host->lost_samples =
        host->reported_lost = 0;
    host->start_unix_s = host->recorded_until_unix_s = now_unix_s;
    start_processes(host);
}

void host_lie(struct host *host, int lie) {
    host->lies += lie;
}

static int by_stack(const void *left, const void *right) {
    const struct host_row *a = left, *b = right;
    if (a->stack != b->stack)
        return a->stack < b->stack ? -1 : 1;
    return (a->thread > b->thread) - (a->thread < b->thread);
}

static struct host_window *sample(const struct host *host, uint32_t process, uint64_t random,
                                  uint32_t samples) {
    struct host_row rows[MAX_SAMPLES];
    uint32_t count = 0;
    for (uint32_t i = 0; i < samples; i++) {
        uint64_t drawn = pool_random(&random);
        rows[i] = (struct host_row){pool_draw(&host->fleet->pool, drawn),
                                    pool_random(&random) % 4 == 0, 1};
    }
    qsort(rows, samples, sizeof rows[0], by_stack);
    for (uint32_t i = 0; i < samples; i++) {
        if (count && by_stack(&rows[count - 1], &rows[i]) == 0)
            rows[count - 1].samples++;
        else
            rows[count++] = rows[i];
    }
    struct host_window *window = malloc(sizeof *window + count * sizeof rows[0]);
    if (!window)
        abort();
    *window = (struct host_window){.process = process, .row_count = count, .weight = 1};
    memcpy(window->rows, rows, count * sizeof rows[0]);
    return window;
}

/* Whether the process is drawn for this term. */
static bool is_drawn(const struct host *host, uint32_t process, double probability,
                     int64_t begin_unix_s) {
    uint64_t term = (uint64_t)begin_unix_s / host->settings->draw_s;
    uint64_t hash = pool_mix(pool_mix(host->settings->seed, host->source + process), term);
    return (double)(hash >> 11) * 0x1p-53 < probability;
}

static void record(struct host *host, uint32_t process, int event, int64_t begin_unix_s) {
    double probability;
    uint32_t hz;
    struct host_process *of = &host->processes[process];
    const char *service = host->fleet->pool.services[of->service].name;
    if (!settings_rule(host->settings, service, &probability, &hz) ||
        !is_drawn(host, process, probability, begin_unix_s))
        return;
    uint64_t random = pool_mix(pool_mix(host->source, host->epoch),
                               (uint64_t)begin_unix_s * 32 + process * 2 + (uint32_t)event);
    uint64_t mean = (uint64_t)host->fleet->samples * hz * host->settings->window_s / 190;
    uint64_t samples = 1 + pool_random(&random) % (2 * mean + 1);
    struct host_window *window =
        sample(host, process, random, samples > MAX_SAMPLES ? MAX_SAMPLES : (uint32_t)samples);
    window->event = event;
    window->begin_unix_s = begin_unix_s + host->clock_step_s;
    window->length_s = host->settings->window_s;
    window->period_ns = 1000000000 / hz;
    window->weight = probability < 1 ? 1 / probability : 1;
    window->dropped = of->dropped;
    of->dropped = 0;
    kept_add(host, window);
}

void host_advance(struct host *host, int64_t now_unix_s) {
    int64_t length = host->settings ? host->settings->window_s : 0;
    if (!length || host->settings->is_paused) {
        host->recorded_until_unix_s = now_unix_s;
        return;
    }
    int64_t begin = (host->recorded_until_unix_s + length - 1) / length * length;
    for (; begin + length <= now_unix_s; begin += length) {
        for (uint32_t i = 0; i < host->fleet->processes; i++) {
            record(host, i, TRUTH_ON_CPU, begin);
            if (host->settings->off_cpu_ms)
                record(host, i, TRUTH_OFF_CPU, begin);
        }
        host->recorded_until_unix_s = begin + length;
    }
}

void host_connect(struct host *host) {
    host_disconnect(host);
    host->has_call = true;
    host->unsent = host->first;
    for (size_t i = 0; i < host->fleet->processes; i++) {
        struct host_process *process = &host->processes[i];
        memset(process->stacks, 0, host->fleet->pool.stack_count);
        memset(process->functions, 0, sizeof process->functions);
        process->is_defined = false;
    }
}

void host_disconnect(struct host *host) {
    host->has_call = host->has_said_hello = host->has_new_settings = host->is_resending = false;
    host->messages = host->call_windows = 0;
}

void host_repeat(struct host *host) {
    host->unsent = host->first;
}

static void take_ack(struct host *host, const Sonde__V1__CollectAck *ack) {
    if (ack && ack->epoch == host->epoch)
        kept_acknowledge(host, ack->seq);
}

static void take_settings(struct host *host, const Sonde__V1__CollectSettings *settings) {
    if (!settings)
        return;
    if (host->settings)
        sonde__v1__collect_settings__free_unpacked(host->settings, NULL);
    host->settings = settings_dup(settings);
    host->has_new_settings = true;
}

static void mark_again(struct host *host, uint64_t id) {
    for (size_t i = 0; i < host->fleet->processes; i++) {
        size_t stack = pool_find(&host->fleet->pool, host->processes[i].service, id);
        if (stack == SIZE_MAX)
            continue;
        host->processes[i].stacks[stack] = 2;
        host->is_resending = true;
        return;
    }
}

sonde_err host_receive(struct host *host, const Sonde__V1__CollectRequest *request, bool is_first,
                       struct sonde_diag *diag) {
    if (is_first != (request->start != NULL))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "the first request, and no other, must have `start`");
    if (request->n_resend_stacks > 10000)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "resend_stacks: at most 10000");
    take_settings(host, request->settings);
    if (request->start)
        take_ack(host, request->start->ack);
    take_ack(host, request->ack);
    for (size_t i = 0; i < request->n_resend_stacks; i++)
        mark_again(host, request->resend_stacks[i]);
    return SONDE_OK;
}
