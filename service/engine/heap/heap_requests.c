/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests that change or report the state. */
#include "service/engine/heap/heap_state.h"

#include "api/text/time_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- The guest's answers ---- */

/* The environment variable that a jemalloc with this name of mallctl reads. */
static const char *variable_of(const char *symbol) {
    if (strcmp(symbol, "je_mallctl") == 0)
        return "JE_MALLOC_CONF";
    return strcmp(symbol, "_rjem_mallctl") == 0 ? "_RJEM_MALLOC_CONF" : "MALLOC_CONF";
}

/* The setting that makes jemalloc's profiling possible. */
static void line_to_set(const struct heap *heap, const sonde_guest_v1_HeapAnswer *answer,
                        char line[128]) {
    const char *symbol = heap->mallctl_name ? heap->mallctl_name : answer->symbol;
    snprintf(line, 128, "%s%s=prof:true,prof_active:false",
             answer->symbol[0] ? "" : "LD_PRELOAD=libjemalloc.so.2 ", variable_of(symbol));
}

/* What Sonde's sampler can do here. */
static void explain_ours(const sonde_guest_v1_HeapAnswer *answer, char *text, size_t size) {
    if (answer->interposable)
        snprintf(text, size,
                 "; or activate with backend=interposed: Sonde's sampler wraps the malloc of %s "
                 "without a restart and sees allocations made from then on",
                 answer->allocator);
}

/* A malloc that is part of the program and has no mallctl. */
static bool explain_own_malloc(struct heap *heap, const sonde_guest_v1_HeapAnswer *answer) {
    struct engine_heap_state *state = &heap->state;
    const char *name = heap->target->info.name;
    if (heap->is_stripped)
        snprintf(state->note, sizeof state->note,
                 "%s contains jemalloc, but its symbols were stripped, so Sonde cannot find "
                 "mallctl; keep them to profile its memory (strip -g removes only debug "
                 "information)",
                 name);
    else if (answer->in_program)
        snprintf(state->note, sizeof state->note,
                 "%s does not use jemalloc, and its malloc is part of the program, so Sonde's "
                 "sampler cannot wrap it; link it with jemalloc, or without a malloc",
                 name);
    return heap->is_stripped || answer->in_program;
}

/* The allocator has no profiling of its own. */
static void explain_ready(struct heap *heap, const sonde_guest_v1_HeapAnswer *answer,
                          const char *line) {
    snprintf(heap->state.note, sizeof heap->state.note,
             "Sonde's sampler is ready (backend=interposed): it wraps the malloc of %s without a "
             "restart and sees allocations made from then on; only jemalloc's own profiling needs "
             "a start with %s",
             answer->allocator, line);
}

static void explain(struct heap *heap, const sonde_guest_v1_HeapAnswer *answer) {
    struct engine_heap_state *state = &heap->state;
    char line[128], ours[224] = "";
    state->note[0] = 0;
    if (answer->interposed && answer->program_imports == 0)
        snprintf(state->note, sizeof state->note,
                 "%s itself imports no malloc, so only allocations of its libraries are seen",
                 heap->target->info.name);
    if (answer->interposed || answer->profiling ||
        (!answer->symbol[0] && explain_own_malloc(heap, answer)))
        return;
    line_to_set(heap, answer, line);
    if (!answer->symbol[0] && answer->interposable) {
        explain_ready(heap, answer, line);
        return;
    }
    explain_ours(answer, ours, sizeof ours);
    snprintf(state->note, sizeof state->note, "%s %s; start it with %s%s", heap->target->info.name,
             answer->symbol[0] ? "was started without prof:true" : "does not use jemalloc", line,
             ours);
}

static enum engine_heap_backend backend_of(const sonde_guest_v1_HeapAnswer *answer) {
    if (answer->interposed)
        return ENGINE_HEAP_INTERPOSED;
    if (answer->profiling)
        return ENGINE_HEAP_JEMALLOC;
    if (answer->interposable)
        return ENGINE_HEAP_INTERPOSED;
    return answer->symbol[0] ? ENGINE_HEAP_JEMALLOC : ENGINE_HEAP_NONE;
}

static uint64_t mean_of(const sonde_guest_v1_HeapAnswer *answer) {
    if (answer->interposed)
        return answer->sample_bytes;
    return answer->profiling && answer->lg_sample < 64 ? 1ull << answer->lg_sample : 0;
}

void heap_update(struct heap *heap, const sonde_guest_v1_HeapAnswer *answer) {
    struct engine_heap_state *state = &heap->state;
    bool is_known = answer->profiling || answer->interposed;
    bool active = is_known && answer->active;
    if (active && !state->active)
        snprintf(state->owner, sizeof state->owner,
                 "target"); /* unless an activation gives a longer text */
    state->backend = backend_of(answer);
    state->available = answer->profiling || answer->interposable;
    state->active = active;
    state->was_active = answer->was_active;
    state->gdump = answer->profiling && answer->gdump;
    state->accumulates = is_known && answer->accumulates;
    uint64_t before = state->sample_bytes;
    state->sample_bytes = mean_of(answer);
    /* A changed sampling interval means that somebody has reset the profile. */
    state->epoch += before != 0 && state->sample_bytes != 0 && state->sample_bytes != before;
    state->dropped =
        answer->interposed ? alloc_view_dropped(heap->table) - heap->dropped_before : 0;
    explain(heap, answer);
}

/* ---- Answers ---- */

static struct engine_heap_dump *list_dumps(const struct heap *heap, size_t *count) {
    const struct heap_dumps *dumps = &heap->dumps;
    struct engine_heap_dump *list = calloc(dumps->count + 1, sizeof *list);
    *count = list ? dumps->count : 0;
    for (uint32_t i = 0; i < *count; i++) {
        const struct heap_dump *dump = &dumps->items[dumps->count - 1 - i];
        heap_dumps_name(dump->number, list[i].name);
        list[i].unix_ns = dump->unix_ns;
        list[i].bytes = dump->bytes;
        list[i].epoch = dump->epoch;
    }
    return list;
}

void heap_answer(struct heap_call *call, sonde_err err, const struct sonde_diag *diag) {
    struct heap *heap = call->target->heap;
    size_t count = 0;
    struct engine_heap_dump *dumps = NULL;
    if (!err && heap) {
        dumps = list_dumps(heap, &count);
        heap->state.dumps = heap->dumps.count;
        heap->state.dump_bytes = heap->dumps.bytes;
    }
    if (call->on_answer)
        call->on_answer(call->context, err, diag, err ? NULL : &heap->state, dumps, count);
    free(dumps);
    heap_call_free(call);
}

static sonde_err refuse_second(const struct heap *heap, struct sonde_diag *diag) {
    const struct engine_heap_state *state = &heap->state;
    char since[SONDE_TIME_BYTES];
    sonde_time_utc(state->active_since_unix_ns, since);
    const char *who = strcmp(state->owner, "target") == 0 ? "its own configuration" : state->owner;
    return sonde_fail(diag, SONDE_SESSION_BUSY,
                      "heap profiling of %s is on%s%s%s%s; switch it off first (`sonde heap off`, "
                      "heap_deactivate)",
                      heap->target->info.name, since[0] ? " since " : "", since,
                      who[0] ? ", switched on by " : "", who);
}

/* What only jemalloc's profiling can do. */
static sonde_err check_backend(const struct heap *heap, enum engine_heap_verb verb,
                               const sonde_guest_v1_HeapAnswer *answer, struct sonde_diag *diag) {
    const char *name = heap->target->info.name;
    bool is_gdump = verb == ENGINE_HEAP_GDUMP_ON || verb == ENGINE_HEAP_GDUMP_OFF;
    if (answer->profiling || (!is_gdump && verb != ENGINE_HEAP_RESET))
        return SONDE_OK;
    if (is_gdump)
        return sonde_fail(diag, SONDE_NOT_AVAILABLE, "%s", heap->state.note);
    if (!answer->interposed)
        return sonde_fail(diag, SONDE_NOT_ACTIVE, "heap profiling of %s is not activated", name);
    return SONDE_OK;
}

static void on_done(struct heap_call *call, const sonde_guest_v1_HeapAnswer *answer, int fd) {
    struct heap *heap = call->target->heap;
    struct sonde_diag diag = {0};
    enum engine_heap_verb verb = call->request.verb;
    sonde_err err = heap_check_answer(heap, answer, &diag);
    if (verb == ENGINE_HEAP_ACTIVATE && answer && answer->os_error == EALREADY)
        err = refuse_second(heap, &diag);
    if (err == SONDE_NOT_AVAILABLE && answer && !heap->state.available &&
        (verb == ENGINE_HEAP_STATUS || verb == ENGINE_HEAP_DEACTIVATE))
        err = SONDE_OK; /* the state reports it */
    if (!err)
        err = check_backend(heap, verb, answer, &diag);
    if (!err && answer->interposed && (verb == ENGINE_HEAP_ACTIVATE || verb == ENGINE_HEAP_RESET))
        heap_begin_totals(heap);
    if (!err && verb == ENGINE_HEAP_ACTIVATE && answer->interposed && heap->was_interposed)
        heap->state.epoch++; /* its table was cleared */
    heap->was_interposed |= !err && answer && answer->interposed;
    if (!err && verb == ENGINE_HEAP_ACTIVATE)
        heap_begin_activity(heap, call);
    if (!err && verb == ENGINE_HEAP_RESET && heap->state.epoch == call->epoch)
        heap->state.epoch++; /* with the same interval */
    if (!err && !heap->state.active)
        heap_end_activity(heap, verb == ENGINE_HEAP_DEACTIVATE && call->request.delete_dumps);
    else if (!err && verb == ENGINE_HEAP_RESET)
        heap_save_state(heap);
    if (fd >= 0)
        close(fd);
    heap_answer(call, err, err ? &diag : NULL);
}

/* ---- Requests ---- */

static const sonde_guest_v1_HeapVerb verbs[ENGINE_HEAP_VERBS] = {
    [ENGINE_HEAP_STATUS] = sonde_guest_v1_HeapVerb_HEAP_STATUS,
    [ENGINE_HEAP_ACTIVATE] = sonde_guest_v1_HeapVerb_HEAP_ACTIVATE,
    [ENGINE_HEAP_DEACTIVATE] = sonde_guest_v1_HeapVerb_HEAP_DEACTIVATE,
    [ENGINE_HEAP_RESET] = sonde_guest_v1_HeapVerb_HEAP_RESET,
    [ENGINE_HEAP_GDUMP_ON] = sonde_guest_v1_HeapVerb_HEAP_GDUMP_ON,
    [ENGINE_HEAP_GDUMP_OFF] = sonde_guest_v1_HeapVerb_HEAP_GDUMP_OFF,
};

static void on_begin(struct engine *engine, struct message *message) {
    struct heap_call *call = container_of(message, struct heap_call, message);
    struct heap *heap = heap_of(call->target);
    struct sonde_diag diag = {0};
    sonde_err err = heap ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    if (!err && call->request.interval_s > 0)
        err = heap_dumps_prepare(&heap->dumps, &diag);
    if (err)
        heap_answer(call, err, &diag);
    else if (call->request.verb == ENGINE_HEAP_LIST)
        heap_answer(call, SONDE_OK, NULL);
    else
        heap_send(heap, call);
}

static sonde_err check(const struct engine_heap_request *request, struct sonde_diag *diag) {
    if (request->interval_s > ENGINE_HEAP_MAX_INTERVAL_S)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "interval_s: \"%u\" is not a whole number from 0 to %u",
                          request->interval_s, ENGINE_HEAP_MAX_INTERVAL_S);
    if (request->keep_dumps > ENGINE_HEAP_MAX_DUMPS)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "keep_dumps: \"%u\" is not a whole number from 0 to %u",
                          request->keep_dumps, ENGINE_HEAP_MAX_DUMPS);
    if (request->sample_bytes != 0 && (request->sample_bytes < ENGINE_HEAP_MIN_SAMPLE ||
                                       request->sample_bytes > ENGINE_HEAP_MAX_SAMPLE))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "sample_bytes: \"%llu\" is not a whole number from %u to %llu",
                          (unsigned long long)request->sample_bytes, ENGINE_HEAP_MIN_SAMPLE,
                          ENGINE_HEAP_MAX_SAMPLE);
    return SONDE_OK;
}

sonde_err engine_heap(struct engine *engine, const struct engine_heap_request *request,
                      engine_on_heap *on_answer, void *context, struct sonde_diag *diag) {
    sonde_err err = check(request, diag);
    struct heap_call *call = NULL;
    if (!err)
        err = heap_call_create(engine, &request->target, &call, diag);
    if (err)
        return err;
    call->request = *request;
    call->request.target = (struct engine_selector){0};
    call->request.owner = NULL;
    if (request->owner)
        memcpy(call->owner, request->owner, strnlen(request->owner, sizeof call->owner - 1));
    call->verb = verbs[request->verb];
    call->done = on_done;
    call->on_answer = on_answer;
    call->context = context;
    call->message.run = on_begin;
    engine_post(engine, &call->message);
    return SONDE_OK;
}
