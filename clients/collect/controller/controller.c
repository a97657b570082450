/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/controller/controller.h"

#include "api/base/clock.h"
#include "clients/collect/controller/controller_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STOP_WAIT_MS 5000

int64_t now_monotonic_ms(void) {
    return clock_ms(CLOCK_MONOTONIC);
}

int64_t now_unix_ns(void) {
    return clock_ns(CLOCK_REALTIME);
}

void log_line(struct controller *controller, const char *format, ...) {
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    controller->options.log(line);
}

void log_host(struct controller *controller, const struct host *host, const char *text) {
    int64_t now_ms = now_monotonic_ms();
    if (now_ms - controller->lines_ms > 60000) {
        controller->lines_ms = now_ms;
        controller->line_count = 0;
    }
    if (controller->line_count < CONTROLLER_LINES)
        log_line(controller, "host %s (%s): %s", host->name, host->address, text);
    else if (controller->line_count == CONTROLLER_LINES)
        log_line(controller, "more hosts change; they are not listed for a minute");
    controller->line_count++;
}

/* ---- Life ---- */

sonde_err controller_create(const struct controller_options *options, struct controller **created,
                            struct sonde_diag *diag) {
    struct controller *controller = calloc(1, sizeof *controller);
    *created = NULL;
    if (!controller)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for the controller");
    controller->options = *options;
    controller->budget = options->budget;
    controller->settings_version = 1;
    controller->start_unix_ns = now_unix_ns();
    pthread_mutex_init(&controller->lock, NULL);
    passed_init(&controller->passed);
    controller->breaker = breaker_create(options->breaker_percent);
    sonde_err err = controller->breaker
                        ? pause_open(options->pause_dir, &controller->pause, diag)
                        : sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for the controller");
    if (err) {
        controller_destroy(controller);
        return err;
    }
    *created = controller;
    return SONDE_OK;
}

void controller_set_deliver(struct controller *controller, struct deliver *deliver) {
    lock(controller);
    controller->deliver = deliver;
    unlock(controller);
}

void controller_set_budget(struct controller *controller, struct budget *budget) {
    lock(controller);
    budget_adopt(budget, controller->budget);
    budget_destroy(controller->budget);
    controller->budget = budget;
    controller->settings_version++;
    sharing_apply(controller);
    log_line(controller, "audit: the budget file was read again");
    unlock(controller);
}

void controller_ask_stacks(struct controller *controller, const uint64_t *sources,
                           size_t source_count, const uint64_t *stacks, size_t stack_count) {
    lock(controller);
    passed_clear(&controller->passed);
    for (size_t i = 0; i < controller->host_count; i++) {
        struct link *link = controller->hosts[i]->link;
        bool is_asked = false;
        for (size_t k = 0; k < source_count && link && link->has_hello; k++)
            is_asked = is_asked || sources[k] == link->decoder.source;
        uint64_t *copy = is_asked ? malloc((stack_count + 1) * sizeof *copy) : NULL;
        if (!copy)
            continue;
        memcpy(copy, stacks, stack_count * sizeof *copy);
        free(link->resend);
        link->resend = copy;
        link->resend_count = stack_count < MAX_RESEND_STACKS ? stack_count : MAX_RESEND_STACKS;
        link_send(link);
    }
    unlock(controller);
}

/* ---- What is due ---- */

void controller_watch_pause(struct controller *controller) {
    char reason[sizeof controller->pause_reason];
    bool is_paused = pause_is_set(controller->pause, reason, sizeof reason);
    if (is_paused == controller->is_paused)
        return;
    controller->is_paused = is_paused;
    snprintf(controller->pause_reason, sizeof controller->pause_reason, "%s", reason);
    controller->settings_version++;
    if (is_paused)
        log_line(controller, "audit: recording is paused: %s",
                 reason[0] ? reason : "no reason was given");
    else
        log_line(controller, "audit: recording is resumed");
}

static void watch_breaker(struct controller *controller, int64_t now_ms) {
    char text[128];
    bool is_open = breaker_is_open(controller->breaker, now_ms);
    if (is_open != controller->was_open)
        log_line(controller, "%s: %s",
                 is_open ? "too many hosts fail, so that no others are tried"
                         : "hosts are tried again",
                 breaker_text(controller->breaker, now_ms, text, sizeof text));
    controller->was_open = is_open;
}

/* A call that says nothing for too long has probably lost its host. */
static void watch_link(struct link *link, int64_t now_ms) {
    if (!link->has_hello && now_ms - link->begin_ms > CONTROLLER_HELLO_S * 1000)
        link_break(link, SONDE_DEADLINE_EXCEEDED, "the host did not answer");
    else if (link->is_reading && now_ms - link->heard_ms > CONTROLLER_SILENT_S * 1000)
        link_break(link, SONDE_DEADLINE_EXCEEDED, "the host has been silent for too long");
}

static bool is_due(const struct host *host, int64_t now_ms) {
    return !host->link && host->is_own && !host->is_registered && now_ms >= host->next_try_ms;
}

/* How many calls may start now. On a busy machine, calls to all hosts of a large fleet at once
 * would be answered too late, all of them, again and again. */
static size_t allowed_starts(const struct controller *controller) {
    size_t waiting = 0;
    for (size_t i = 0; i < controller->host_count; i++) {
        const struct link *link = controller->hosts[i]->link;
        waiting += link && link->client && !link->has_hello;
    }
    size_t left = waiting < CONTROLLER_MAX_WAITING ? CONTROLLER_MAX_WAITING - waiting : 0;
    return left < CONTROLLER_MAX_STARTS ? left : CONTROLLER_MAX_STARTS;
}

/* Settings go to a part of the hosts at a time. */
static void visit_hosts(struct controller *controller, int64_t now_ms) {
    size_t starts = 0, sends = 0, allowed = allowed_starts(controller);
    for (size_t i = 0; i < controller->host_count; i++) {
        struct host *host = controller->hosts[i];
        struct link *link = host->link;
        if (is_due(host, now_ms) && starts < allowed &&
            breaker_allows(controller->breaker, now_ms)) {
            starts++;
            link_start(controller, host);
        }
        if (!link)
            continue;
        watch_link(link, now_ms);
        sharing_leave(link, now_ms);
        link_retry(link);
        if (link->settings_version != controller->settings_version &&
            sends++ < CONTROLLER_MAX_STARTS)
            link_send(link);
    }
}

/* Clients cannot be destroyed in callbacks. */
static void destroy_ended(struct controller *controller) {
    lock(controller);
    struct link *ended = controller->ended;
    controller->ended = NULL;
    unlock(controller);
    for (struct link *next; ended; ended = next) {
        next = ended->next_ended;
        client_destroy(ended->client);
        lock(controller);
        host_drop(ended->host);
        controller->link_count--;
        unlock(controller);
        free(ended);
    }
}

void controller_tick(struct controller *controller) {
    int64_t now_ms = now_monotonic_ms();
    lock(controller);
    controller_watch_pause(controller);
    passed_expire(&controller->passed, now_ms);
    watch_breaker(controller, now_ms);
    if (budget_tune(controller->budget, now_unix_ns() / 1000000000))
        controller->settings_version++;
    visit_hosts(controller, now_ms);
    registered_sweep(controller, now_ms);
    unlock(controller);
    destroy_ended(controller);
}

/* ---- The end ---- */

static size_t count_open(struct controller *controller) {
    size_t open = 0;
    lock(controller);
    for (size_t i = 0; i < controller->host_count; i++)
        open += controller->hosts[i]->link != NULL;
    unlock(controller);
    return open;
}

void controller_stop(struct controller *controller) {
    lock(controller);
    controller->is_stopping = true;
    for (size_t i = 0; i < controller->host_count; i++)
        if (controller->hosts[i]->link)
            link_break(controller->hosts[i]->link, SONDE_CANCELLED, "the controller is stopping");
    unlock(controller);
    for (int64_t end_ms = now_monotonic_ms() + STOP_WAIT_MS;
         count_open(controller) > 0 && now_monotonic_ms() < end_ms; usleep(10000))
        destroy_ended(controller);
}

void controller_destroy(struct controller *controller) {
    if (!controller)
        return;
    destroy_ended(controller);
    for (size_t i = 0; i < controller->host_count; i++)
        host_drop(controller->hosts[i]);
    free(controller->hosts);
    sharing_finish(controller);
    budget_destroy(controller->budget);
    breaker_destroy(controller->breaker);
    pause_close(controller->pause);
    passed_finish(&controller->passed);
    pthread_mutex_destroy(&controller->lock);
    free(controller);
}
