/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/rpc/recording.h"

#include "api/bytes.h"
#include "service/store/ids.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST      8192 /* windows, stacks, frames, or totals */
#define MOST_ROWS 4096
#define MOST_DEEP 64

struct recording {
    struct sonde_arena arena;
    Sonde__V1__WriteRequest request;
    uint64_t seq;
};

static char *text(struct recording *recording, const char *from) {
    return sonde_arena_dup(&recording->arena, from, strlen(from));
}

struct recording *recording_create(void) {
    static uint64_t next_seq = 1;
    struct recording *recording = calloc(1, sizeof *recording);
    Sonde__V1__WriteRequest *request = &recording->request;
    sonde__v1__write_request__init(request);
    request->windows = sonde_arena_alloc(&recording->arena, MOST * sizeof(void *));
    request->stacks = sonde_arena_alloc(&recording->arena, MOST * sizeof(void *));
    request->frames = sonde_arena_alloc(&recording->arena, MOST * sizeof(void *));
    request->totals = sonde_arena_alloc(&recording->arena, MOST * sizeof(void *));
    recording->seq = next_seq;
    next_seq += MOST;
    return recording;
}

void recording_destroy(struct recording *recording) {
    sonde_arena_finish(&recording->arena);
    free(recording);
}

static void add_pod(struct recording *recording, Sonde__V1__StoredWindow *window, const char *pod) {
    Sonde__V1__Label *label = sonde_arena_alloc(&recording->arena, sizeof *label);
    sonde__v1__label__init(label);
    label->name = "pod";
    label->value = text(recording, pod);
    window->labels = sonde_arena_alloc(&recording->arena, sizeof(void *));
    window->labels[window->n_labels++] = label;
}

Sonde__V1__StoredWindow *recording_window(struct recording *recording,
                                          const struct recorded *what) {
    Sonde__V1__StoredWindow *window = sonde_arena_alloc(&recording->arena, sizeof *window);
    char instance[33];
    sonde__v1__stored_window__init(window);
    window->source = window->epoch = 1;
    window->seq = what->seq ? what->seq : recording->seq++;
    window->event = text(recording, what->event ? what->event : "on-cpu");
    window->service = text(recording, what->service ? what->service : "redis");
    window->host = text(recording, what->host ? what->host : "alpha");
    window->pid = what->pid ? what->pid : 1;
    snprintf(instance, sizeof instance, "%032x", window->pid);
    window->instance = text(recording, instance);
    window->begin_unix_s = what->begin_unix_s ? what->begin_unix_s : 3600;
    window->length_s = 10;
    window->period_ns = 1000;
    window->weight = what->weight;
    window->clock = "fake";
    window->threads = sonde_arena_alloc(&recording->arena, 255 * sizeof(char *));
    window->stack = sonde_arena_alloc(&recording->arena, MOST_ROWS * sizeof *window->stack);
    window->thread = sonde_arena_alloc(&recording->arena, MOST_ROWS * sizeof *window->thread);
    window->value = sonde_arena_alloc(&recording->arena, MOST_ROWS * sizeof *window->value);
    if (what->pod)
        add_pod(recording, window, what->pod);
    recording->request.windows[recording->request.n_windows++] = window;
    return window;
}

/* Equal names have equal addresses, in every request. */
static uint64_t address_of(const char *function) {
    uint64_t address = 0;
    for (; *function; function++)
        address = address * 31 + (unsigned char)*function;
    return address;
}

static uint64_t add_frame(struct recording *recording, const char *service, const char *function) {
    Sonde__V1__WriteRequest *request = &recording->request;
    Sonde__V1__StoredFrame *frame = sonde_arena_alloc(&recording->arena, sizeof *frame);
    Sonde__V1__StoredLine *line = sonde_arena_alloc(&recording->arena, sizeof *line);
    char module[64];
    snprintf(module, sizeof module, "/bin/%s", service);
    sonde__v1__stored_frame__init(frame);
    sonde__v1__stored_line__init(line);
    frame->module = text(recording, module);
    frame->address = address_of(function);
    frame->kind = SONDE__V1__FRAME_KIND__APPLICATION;
    frame->version = 1;
    frame->id = store_frame_id("", module, frame->address, function);
    for (size_t i = 0; i < request->n_frames; i++)
        if (request->frames[i]->id == frame->id)
            return frame->id;
    line->function = text(recording, function);
    line->file = "main.c";
    line->line = 7;
    frame->lines = sonde_arena_alloc(&recording->arena, sizeof(void *));
    frame->lines[frame->n_lines++] = line;
    request->frames[request->n_frames++] = frame;
    return frame->id;
}

static uint64_t add_stack(struct recording *recording, const char *service, const char *functions) {
    Sonde__V1__WriteRequest *request = &recording->request;
    Sonde__V1__StoredStack *stack = sonde_arena_alloc(&recording->arena, sizeof *stack);
    char *names = text(recording, functions), *rest, *name;
    uint64_t frames[MOST_DEEP];
    size_t at = MOST_DEEP;
    for (name = strtok_r(names, ";", &rest); name && at > 0; name = strtok_r(NULL, ";", &rest))
        frames[--at] = add_frame(recording, service, name);
    sonde__v1__stored_stack__init(stack);
    stack->service = text(recording, service);
    stack->n_frames = MOST_DEEP - at;
    stack->frames = sonde_arena_alloc(&recording->arena, sizeof frames);
    memcpy(stack->frames, frames + at, stack->n_frames * sizeof *frames);
    stack->id = store_stack_id(service, stack->frames, stack->n_frames);
    for (size_t i = 0; i < request->n_stacks; i++)
        if (request->stacks[i]->id == stack->id)
            return stack->id;
    request->stacks[request->n_stacks++] = stack;
    return stack->id;
}

static uint32_t add_thread(struct recording *recording, Sonde__V1__StoredWindow *window,
                           const char *thread) {
    for (uint32_t i = 0; i < window->n_threads; i++)
        if (strcmp(window->threads[i], thread) == 0)
            return i;
    window->threads[window->n_threads] = text(recording, thread);
    return (uint32_t)window->n_threads++;
}

void recording_row(struct recording *recording, const char *stack, const char *thread,
                   int64_t value) {
    Sonde__V1__WriteRequest *request = &recording->request;
    Sonde__V1__StoredWindow *window = request->windows[request->n_windows - 1];
    window->stack[window->n_stack++] = add_stack(recording, window->service, stack);
    window->thread[window->n_thread++] = add_thread(recording, window, thread);
    window->value[window->n_value++] = value;
    window->samples++;
}

void recording_total(struct recording *recording, const char *host, int64_t begin_unix_s,
                     const char *process, const char *thread, int64_t cpu_ns) {
    Sonde__V1__WriteRequest *request = &recording->request;
    Sonde__V1__StoredTotal *total = sonde_arena_alloc(&recording->arena, sizeof *total);
    sonde__v1__stored_total__init(total);
    total->source = total->epoch = 1;
    total->seq = recording->seq;
    total->host = text(recording, host);
    total->begin_unix_s = begin_unix_s;
    total->length_s = 10;
    total->process = text(recording, process);
    total->thread = text(recording, thread);
    total->cpu_ns = cpu_ns;
    request->totals[request->n_totals++] = total;
}

Sonde__V1__WriteRequest *recording_request(struct recording *recording) {
    return &recording->request;
}
