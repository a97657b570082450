/* SPDX-License-Identifier: Apache-2.0
 *
 * Heap commands to the guest. Answers arrive in the order of the commands. */
#include "service/engine/guest/guest_link.h"
#include "service/engine/heap/find_mallctl.h"
#include "service/engine/heap/heap_state.h"
#include "service/engine/targets/find_target.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct heap *heap_of(struct target *target) {
    struct heap *heap = target->heap;
    if (heap)
        return heap;
    heap = calloc(1, sizeof *heap);
    if (!heap)
        return NULL;
    heap->target = target;
    heap->last = &heap->calls;
    heap->state.epoch = 1;
    heap->state.keep_dumps = target->engine->heap_dumps;
    heap->keep_bytes = HEAP_KEEP_BYTES;
    char *dir = heap_directory(target);
    sonde_err err = heap_dumps_open(&heap->dumps, dir);
    free(dir);
    if (err) {
        heap_destroy(heap);
        return NULL;
    }
    target->heap = heap;
    target->heap_destroy = heap_destroy;
    return heap;
}

void heap_destroy(struct heap *heap) {
    if (!heap)
        return;
    heap_dumps_finish(&heap->dumps);
    heap_forget_totals(heap);
    alloc_view_release(heap->table);
    free(heap);
}

sonde_err heap_call_create(struct engine *engine, const struct engine_selector *selector,
                           struct heap_call **created, struct sonde_diag *diag) {
    struct target *target = NULL;
    if (atomic_load(&engine->is_ending))
        return sonde_fail(diag, SONDE_UNAVAILABLE, "the service is shutting down");
    struct heap_call *call = calloc(1, sizeof *call);
    if (!call)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    sonde_err err = find_guest(engine, selector, "heap profiles", &target, diag);
    call->target = target;
    if (err)
        free(call);
    *created = err ? NULL : call;
    return err;
}

void heap_call_free(struct heap_call *call) {
    target_release(call->target);
    free(call);
}

static struct heap_call *take_first(struct heap *heap) {
    struct heap_call *call = heap->calls;
    heap->calls = call->next;
    if (!heap->calls)
        heap->last = &heap->calls;
    heap->call_count--;
    call->next = NULL;
    return call;
}

/* Rounds to the nearest power of two; 0 stays 0. */
static uint32_t log2_of(uint64_t bytes) {
    uint32_t low = bytes > 1 ? 63u - (uint32_t)__builtin_clzll(bytes) : 0;
    return bytes > 1 && bytes - (1ull << low) > (1ull << low) / 2 ? low + 1 : low;
}

void heap_send(struct heap *heap, struct heap_call *call) {
    struct target *target = heap->target;
    frames_to_guest message = sonde_guest_v1_ToGuest_init_zero;
    sonde_guest_v1_HeapCommand *command = &message.message.heap_command;
    if (!target->is_attached || target->guest->fd < 0 || heap->call_count >= HEAP_MAX_CALLS) {
        call->done(call, NULL, -1);
        return;
    }
    call->sequence = ++heap->sequence;
    call->epoch = heap->state.epoch;
    call->deadline_ns = now_monotonic_ns() + HEAP_ANSWER_NS;
    *heap->last = call;
    heap->last = &call->next;
    heap->call_count++;
    target_wake_now(target);
    message.which_message = sonde_guest_v1_ToGuest_heap_command_tag;
    command->sequence = call->sequence;
    command->verb = call->verb;
    command->mallctl = heap->mallctl;
    command->knows_places = true;
    command->lg_sample = log2_of(call->request.sample_bytes);
    command->backend = (sonde_guest_v1_HeapBackend)call->request.backend;
    command->searched = call->is_searched = heap->is_searched;
    command->sample_bytes = call->sample_bytes;
    command->probability = call->probability;
    command->table = alloc_view_number(heap->table);
    link_send(target, &message, -1);
}

/* The guest found no jemalloc and did nothing. The call waits until the program's symbol table has
 * been searched and is then sent again with the result. Calls that arrive meanwhile wait, too, in
 * order. */
struct search {
    struct job job;
    struct target *target; /* retained */
    struct found_mallctl found;
};

static void search(struct job *base) {
    struct search *job = container_of(base, struct search, job);
    heap_find_mallctl(base->engine, &job->target->process, &job->found);
}

static void on_searched(struct engine *engine, struct job *base) {
    struct search *job = container_of(base, struct search, job);
    struct heap *heap = job->target->heap;
    heap->is_searched = true;
    heap->mallctl = job->found.address;
    heap->mallctl_name = job->found.address ? job->found.name : NULL;
    heap->is_stripped = job->found.is_stripped;
    while (heap->unsearched) {
        struct heap_call *call = heap->unsearched;
        heap->unsearched = call->next;
        call->next = NULL;
        heap_send(heap, call);
    }
    target_release(job->target);
    free(job);
}

static bool launch_search(struct heap *heap) {
    struct search *job = calloc(1, sizeof *job);
    if (!job)
        return false;
    *job = (struct search){.job = {.perform = search, .complete = on_searched},
                           .target = target_retain(heap->target)};
    target_start_job(heap->target, heap->target->engine->builders, &job->job);
    return true;
}

/* False if there is nothing to search for. */
static bool start_search(struct heap *heap, struct heap_call *call,
                         const sonde_guest_v1_HeapAnswer *answer) {
    struct heap_call **last = &heap->unsearched;
    if (answer->symbol[0] || answer->has_dump || call->is_searched)
        return false;
    if (heap->is_searched) { /* it was sent before the search */
        heap_send(heap, call);
        return true;
    }
    if (!heap->unsearched && !launch_search(heap))
        return false;
    while (*last)
        last = &(*last)->next;
    *last = call;
    return true;
}

/* Ignores the answer to a call that was given up. An answer without a call is a protocol error. */
sonde_err heap_on_answer(struct target *target, const sonde_guest_v1_HeapAnswer *answer, int fd) {
    struct heap *heap = target->heap;
    bool known = heap && (int32_t)(heap->sequence - answer->sequence) >= 0;
    if (known && heap->calls && heap->calls->sequence == answer->sequence) {
        struct heap_call *call = take_first(heap);
        if (start_search(heap, call, answer)) {
            if (fd >= 0)
                close(fd);
            return SONDE_OK;
        }
        heap_update_table(heap, answer, answer->has_table ? fd : -1);
        heap_update(heap, answer);
        if (answer->has_table && fd >= 0)
            close(fd);
        call->done(call, answer, answer->has_table ? -1 : fd);
        return SONDE_OK;
    }
    if (fd >= 0)
        close(fd);
    return known ? SONDE_OK : SONDE_PROTOCOL;
}

void heap_detach(struct target *target) {
    struct heap *heap = target->heap;
    if (heap && heap->dumps.count > 0 && !target->engine->is_shutting_down)
        heap_start_sweep(target->engine);
    while (heap && heap->calls) {
        struct heap_call *call = take_first(heap);
        call->done(call, NULL, -1);
    }
}

uint64_t heap_tick(struct target *target, uint64_t now_ns) {
    struct heap *heap = target->heap;
    if (!heap)
        return 0;
    while (heap->calls && now_ns >= heap->calls->deadline_ns) {
        struct heap_call *call = take_first(heap);
        call->done(call, NULL, -1);
    }
    uint64_t wake_ns = heap_periodic_tick(heap, now_ns);
    uint64_t answer_ns = heap->calls ? heap->calls->deadline_ns : 0;
    return earlier(wake_ns, answer_ns);
}

static sonde_err no_answer(const struct heap *heap, struct sonde_diag *diag) {
    if (heap->target->engine->is_shutting_down)
        return sonde_fail(diag, SONDE_UNAVAILABLE, "the service is shutting down");
    if (heap->target->guest->fd < 0)
        return sonde_fail(diag, SONDE_TARGET_GONE, "%s has ended", heap->target->info.name);
    return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                      "%s did not answer within %llu s; is the process stopped?",
                      heap->target->info.name, HEAP_ANSWER_NS / 1000000000ull);
}

sonde_err heap_check_answer(const struct heap *heap, const sonde_guest_v1_HeapAnswer *answer,
                            struct sonde_diag *diag) {
    if (!answer)
        return no_answer(heap, diag);
    if (!heap->state.available)
        return sonde_fail(diag, SONDE_NOT_AVAILABLE, "%s", heap->state.note);
    if (answer->os_error == ENOTSUP)
        return sonde_fail(diag, SONDE_NOT_AVAILABLE, "%s", heap->state.note);
    if (answer->os_error == EBUSY)
        return sonde_fail(
            diag, SONDE_NOT_AVAILABLE,
            "a thread of %s has been inside an allocation for too long; try again later",
            heap->target->info.name);
    if (answer->reason[0] && (answer->os_error == ENOMEM || answer->os_error == ENOENT))
        return sonde_fail(diag, SONDE_NOT_AVAILABLE, "%.200s cannot be sampled: %s",
                          heap->target->info.name, answer->reason);
    if (answer->os_error != 0)
        return sonde_fail_os(diag, answer->os_error, "the allocator of %s refused %.47s",
                             heap->target->info.name, answer->failed);
    return SONDE_OK;
}
