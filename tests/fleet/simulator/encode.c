/* SPDX-License-Identifier: Apache-2.0
 *
 * A simulated host's answers. Definitions are in the message that first refers to them. */
#include "tests/fleet/simulator/host.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A growing message. */
struct answer {
    struct host *host;
    struct sonde_arena *arena;
    Sonde__V1__CollectResponse *response;
    size_t bytes; /* about */
};

static void *make(struct answer *answer, size_t size, const void *init) {
    void *message = sonde_arena_alloc(answer->arena, size);
    if (!message)
        abort();
    memcpy(message, init, size);
    return message;
}
#define MAKE(answer, type, init) ((type *)make(answer, sizeof(type), &(type)init))

/* Appends to a repeated field; the arrays double. */
static void push(struct answer *answer, void *field, size_t *count, void *item) {
    void ***items = field;
    if ((*count & (*count - 1)) == 0) {
        void **grown = sonde_arena_alloc(answer->arena, (*count ? 2 * *count : 1) * sizeof *grown);
        if (!grown)
            abort();
        if (*count)
            memcpy(grown, *items, *count * sizeof *grown);
        *items = grown;
    }
    (*items)[(*count)++] = item;
}

static char *text_of(struct answer *answer, const char *text) {
    char *copy = sonde_arena_dup(answer->arena, text, strlen(text));
    if (!copy)
        abort();
    return copy;
}

static void add_text(struct answer *answer, uint32_t number, const char *value) {
    Sonde__V1__CollectText *text =
        MAKE(answer, Sonde__V1__CollectText, SONDE__V1__COLLECT_TEXT__INIT);
    text->number = number;
    text->text = text_of(answer, value);
    push(answer, &answer->response->texts, &answer->response->n_texts, text);
    answer->bytes += strlen(value) + 8;
}

static void define_process(struct answer *answer, uint32_t index) {
    struct host *host = answer->host;
    struct host_process *process = &host->processes[index];
    if (process->is_defined)
        return;
    process->is_defined = true;
    const struct pool_service *service = &host->fleet->pool.services[process->service];
    char file[48];
    snprintf(file, sizeof file, "%s.c", service->name);
    add_text(answer, pool_text_number(index, 0), service->build_id);
    add_text(answer, pool_text_number(index, 1), service->module);
    add_text(answer, pool_text_number(index, 2), file);
    Sonde__V1__CollectMapping *mapping =
        MAKE(answer, Sonde__V1__CollectMapping, SONDE__V1__COLLECT_MAPPING__INIT);
    mapping->build_id = (char *)service->build_id;
    mapping->path = (char *)service->module;
    mapping->start = 0x400000;
    mapping->end = 0x500000;
    Sonde__V1__CollectProcess *sent =
        MAKE(answer, Sonde__V1__CollectProcess, SONDE__V1__COLLECT_PROCESS__INIT);
    sent->number = index + 1;
    sent->service = (char *)service->name;
    sent->instance = process->instance;
    sent->pid = process->pid;
    sent->start_unix_ns = host->start_unix_s * 1000000000;
    push(answer, &sent->mappings, &sent->n_mappings, mapping);
    push(answer, &answer->response->processes, &answer->response->n_processes, sent);
    answer->bytes += 200;
}

static void define_frame(struct answer *answer, uint32_t index, uint32_t function) {
    struct host_process *process = &answer->host->processes[index];
    const struct pool_service *service = &answer->host->fleet->pool.services[process->service];
    char name[64];
    process->functions[function] = 1;
    snprintf(name, sizeof name, "%s::handle_%03u", service->name, function);
    add_text(answer, pool_text_number(index, 3 + function), name);
    Sonde__V1__CollectLine *line =
        MAKE(answer, Sonde__V1__CollectLine, SONDE__V1__COLLECT_LINE__INIT);
    line->function = pool_text_number(index, 3 + function);
    line->file = pool_text_number(index, 2);
    line->line = 10 * function + 1;
    Sonde__V1__CollectFrame *frame =
        MAKE(answer, Sonde__V1__CollectFrame, SONDE__V1__COLLECT_FRAME__INIT);
    frame->number = pool_frame_number(index, function);
    frame->id = service->frame_ids[function];
    frame->build_id = pool_text_number(index, 0);
    frame->module = pool_text_number(index, 1);
    frame->address = 0x1000 + 64 * function;
    frame->kind = SONDE__V1__FRAME_KIND__APPLICATION;
    frame->version = 1;
    push(answer, &frame->lines, &frame->n_lines, line);
    push(answer, &answer->response->frames, &answer->response->n_frames, frame);
    answer->bytes += 40;
}

static void define_stack(struct answer *answer, uint32_t index, uint32_t stack) {
    struct host *host = answer->host;
    struct host_process *process = &host->processes[index];
    if (process->stacks[stack] == 1)
        return;
    bool again = process->stacks[stack] == 2;
    process->stacks[stack] = 1;
    const struct pool_stack *known = &host->fleet->pool.services[process->service].stacks[stack];
    define_process(answer, index);
    Sonde__V1__CollectStack *sent =
        MAKE(answer, Sonde__V1__CollectStack, SONDE__V1__COLLECT_STACK__INIT);
    sent->number = pool_stack_number(&host->fleet->pool, index, stack);
    sent->id = known->id;
    sent->process = index + 1;
    sent->n_frames = known->depth;
    sent->frames = sonde_arena_alloc(answer->arena, known->depth * sizeof *sent->frames);
    if (!sent->frames)
        abort();
    for (uint32_t i = 0; i < known->depth; i++) {
        if (again || !process->functions[known->functions[i]])
            define_frame(answer, index, known->functions[i]);
        sent->frames[i] = pool_frame_number(index, known->functions[i]);
    }
    push(answer, &answer->response->stacks, &answer->response->n_stacks, sent);
    answer->bytes += 16 + 3 * known->depth;
}

static void send_again(struct answer *answer) {
    struct host *host = answer->host;
    host->is_resending = false;
    for (uint32_t i = 0; i < host->fleet->processes; i++) {
        for (uint32_t stack = 0; stack < host->fleet->pool.stack_count; stack++) {
            if (host->processes[i].stacks[stack] != 2)
                continue;
            define_stack(answer, i, stack);
            if (answer->bytes > HOST_MESSAGE_BYTES) {
                host->is_resending = true;
                return;
            }
        }
    }
}

static void fill_rows(struct answer *answer, Sonde__V1__CollectWindow *sent,
                      const struct host_window *window) {
    const struct host *host = answer->host;
    size_t count = window->row_count;
    uint32_t before = 0;
    sent->n_stack = sent->n_thread = sent->n_value = count;
    sent->stack = sonde_arena_alloc(answer->arena, count * sizeof *sent->stack);
    sent->thread = sonde_arena_alloc(answer->arena, count * sizeof *sent->thread);
    sent->value = sonde_arena_alloc(answer->arena, count * sizeof *sent->value);
    if (!sent->stack || !sent->thread || !sent->value)
        abort();
    for (size_t i = 0; i < count; i++) {
        const struct host_row *row = &window->rows[i];
        uint32_t number = pool_stack_number(&host->fleet->pool, window->process, row->stack);
        sent->stack[i] = number - before;
        before = number;
        sent->thread[i] = row->thread;
        sent->value[i] = (int64_t)(row->samples * window->period_ns);
        sent->samples += row->samples;
    }
}

static void add_window(struct answer *answer, struct host_window *window) {
    static const uint32_t threads[] = {TEXT_NONE, TEXT_WORKER};
    define_process(answer, window->process);
    for (uint32_t i = 0; i < window->row_count; i++)
        define_stack(answer, window->process, window->rows[i].stack);
    Sonde__V1__CollectWindow *sent =
        MAKE(answer, Sonde__V1__CollectWindow, SONDE__V1__COLLECT_WINDOW__INIT);
    sent->seq = window->seq;
    sent->process = window->process + 1;
    sent->event = window->event == TRUTH_ON_CPU ? TEXT_ON_CPU : TEXT_OFF_CPU;
    sent->clock = TEXT_CLOCK;
    sent->begin_unix_s = window->begin_unix_s;
    sent->length_s = window->length_s;
    sent->period_ns = window->period_ns;
    sent->weight = window->weight;
    sent->dropped = window->dropped;
    sent->merged = window->merged;
    sent->n_threads = 2;
    sent->threads = (uint32_t *)threads;
    fill_rows(answer, sent, window);
    push(answer, &answer->response->windows, &answer->response->n_windows, sent);
    answer->bytes += 64 + 12 * window->row_count;
    window->was_sent = true;
}

static void add_hello(struct answer *answer, int64_t now_unix_s) {
    struct host *host = answer->host;
    static const char *const capabilities[] = {"on-cpu", "off-cpu", "resend"};
    Sonde__V1__CollectHello *hello =
        MAKE(answer, Sonde__V1__CollectHello, SONDE__V1__COLLECT_HELLO__INIT);
    hello->instance = host->instance;
    hello->source = host->source;
    hello->epoch = host->epoch;
    hello->first_seq = host->first ? host->first->seq : host->next_seq;
    hello->host = host->name;
    hello->unix_ns = (now_unix_s + host->clock_step_s) * 1000000000;
    hello->monotonic_ns = (now_unix_s - host->start_unix_s) * 1000000000;
    hello->boot_id = "00000000-0000-4000-8000-000000000000";
    hello->version = "simulator";
    hello->api_min = hello->api_max = 1;
    hello->n_capabilities = sizeof capabilities / sizeof capabilities[0];
    hello->capabilities = (char **)capabilities;
    answer->response->hello = hello;
    add_text(answer, TEXT_ON_CPU, truth_event_names[TRUTH_ON_CPU]);
    add_text(answer, TEXT_OFF_CPU, truth_event_names[TRUTH_OFF_CPU]);
    add_text(answer, TEXT_CLOCK, "perf");
    add_text(answer, TEXT_WORKER, "worker");
    host->has_said_hello = true;
    host->status_unix_s = 0;
}

static void add_status(struct answer *answer, int64_t now_unix_s) {
    struct host *host = answer->host;
    Sonde__V1__CollectStatus *status =
        MAKE(answer, Sonde__V1__CollectStatus, SONDE__V1__COLLECT_STATUS__INIT);
    status->targets = (uint32_t)host->fleet->processes;
    status->windows = host->windows;
    status->acked_seq = host->acked_seq;
    status->next_seq = host->next_seq;
    status->kept_bytes = host->kept_bytes;
    status->merged_windows = host->merged;
    status->lost_samples = host->lost_samples;
    if (host->lost) {
        Sonde__V1__Drop *drop = MAKE(answer, Sonde__V1__Drop, SONDE__V1__DROP__INIT);
        drop->cause = "memory";
        drop->count = host->lost;
        push(answer, &status->lost, &status->n_lost, drop);
    }
    answer->response->status = status;
    host->reported_lost = host->lost;
    host->status_unix_s = now_unix_s;
}

static void add_windows(struct answer *answer) {
    struct host *host = answer->host;
    while (host->unsent && answer->response->n_windows < HOST_MAX_WINDOWS &&
           answer->bytes < HOST_MESSAGE_BYTES) {
        add_window(answer, host->unsent);
        host->unsent = host->unsent->next;
        host->call_windows++;
    }
}

Sonde__V1__CollectResponse *host_next(struct host *host, struct sonde_arena *arena,
                                      int64_t now_unix_s) {
    struct answer answer = {.host = host, .arena = arena};
    if (!host->has_call)
        return NULL;
    bool is_status_due = !host->status_unix_s || host->lost != host->reported_lost ||
                         now_unix_s - host->status_unix_s >= HOST_STATUS_S;
    if (host->has_said_hello && !host->has_new_settings && !host->is_resending && !host->unsent &&
        !is_status_due)
        return NULL;
    answer.response = MAKE(&answer, Sonde__V1__CollectResponse, SONDE__V1__COLLECT_RESPONSE__INIT);
    if (!host->has_said_hello) {
        add_hello(&answer, now_unix_s);
        is_status_due = true;
    }
    if (host->has_new_settings)
        answer.response->settings = host->settings;
    host->has_new_settings = false;
    if (is_status_due)
        add_status(&answer, now_unix_s);
    if (host->is_resending)
        send_again(&answer);
    add_windows(&answer);
    host->messages++;
    return answer.response;
}
