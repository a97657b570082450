/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages from guests, one function per message. An error disconnects the guest and has no other
 * effect. */
#include "service/engine/capture/budget.h"
#include "service/engine/capture/clock.h"
#include "service/engine/heap/heap_state.h"
#include "service/engine/loop/loop.h"

#include "api/os/shared_memory.h"

#include <fcntl.h>
#include <unistd.h>

#define DUMP_SEALS  (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
#define TABLE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

static sonde_err on_hello(struct target *target, const frames_from_guest *message) {
    if (target->guest->has_hello)
        return SONDE_PROTOCOL;
    target_attach(target, &message->message.hello);
    return SONDE_OK;
}

static sonde_err on_rings(struct target *target, const frames_from_guest *message) {
    int fd = frames_take_fd(&target->guest->frames);
    if (fd < 0)
        return SONDE_PROTOCOL;
    struct sonde_diag diag = {0};
    sonde_err err = guest_rings_map(target, fd, &diag);
    close(fd);
    return err == SONDE_CORRUPT ? SONDE_PROTOCOL
                                : SONDE_OK; /* other errors are reported at CpuState */
}

static sonde_err on_maps(struct target *target, const frames_from_guest *message) {
    const sonde_guest_v1_Maps *maps = &message->message.maps;
    struct symbol_mapping mappings[sizeof maps->mappings / sizeof maps->mappings[0]];
    uint64_t born[sizeof maps->mappings / sizeof maps->mappings[0]];
    for (size_t i = 0; i < maps->mappings_count; i++) {
        const sonde_guest_v1_Mapping *from = &maps->mappings[i];
        mappings[i] = (struct symbol_mapping){
            .start = from->start,
            .end = from->end,
            .offset = from->offset,
            .device_major = from->device_major,
            .device_minor = from->device_minor,
            .inode = from->inode,
            .path = from->path,
        };
        born[i] = from->born;
    }
    struct space_part part = {.generation = maps->generation,
                              .last = maps->last,
                              .mappings = mappings,
                              .born = born,
                              .count = maps->mappings_count};
    struct generation *complete;
    sonde_err err = space_add_part(&target->space, &part, &complete);
    if (!err && complete) {
        bool keeps_gone = target->heap || target->windows;
        mapping_lives_update(&target->lives, complete, maps->closes, keeps_gone);
        tables_begin(target, complete);
    }
    return err;
}

static sonde_err on_cpu_state(struct target *target, const frames_from_guest *message) {
    const sonde_guest_v1_CpuState *state = &message->message.cpu_state;
    if (state->running && target->clock != CLOCK_IDLE && !target->guest->rings) {
        clock_fail(target, SONDE_PROTOCOL, "the target's clock runs without rings to read");
        return SONDE_PROTOCOL;
    }
    struct clock_answer answer = {
        .sequence = state->sequence,
        .is_running = state->running,
        .clock = state->clock,
        .note = state->note,
        .os_error = state->os_error,
        .threads = state->threads,
    };
    clock_on_answer(target, &answer);
    return SONDE_OK;
}

/* The growth of one of the guest's sums. A leap of more than a day is an error and counts as 0. */
static uint64_t growth(uint64_t *seen, uint64_t now) {
    uint64_t more = now > *seen && now - *seen < DRAIN_MAX_WEIGHT ? now - *seen : 0;
    *seen = now;
    return more;
}

static sonde_err on_cpu_account(struct target *target, const frames_from_guest *message) {
    const sonde_guest_v1_CpuAccount *account = &message->message.cpu_account;
    target_read_cpu(target);
    (void)guest_rings_drain(target, now_monotonic_ns(),
                            ENGINE_DRAIN_BYTES); /* the handlers' sums up to now */
    target->totals.account_ns += growth(&target->guest->account_seen_ns, account->guest_cpu_ns);
    target->totals.control_ns += growth(&target->guest->control_seen_ns, account->control_cpu_ns);
    if (target->clock == CLOCK_RUNNING && budget_on_account(target))
        clock_adjust(target);
    struct engine *engine = target->engine;
    lock_take(&engine->targets_lock);
    target->info.threads = account->threads;
    lock_drop(&engine->targets_lock);
    return SONDE_OK;
}

/* A dump must not grow either: its new part would be a hole. Its size is checked where it is read,
 * which has a message for users. */
static bool is_dump(int fd) {
    uint64_t bytes;
    return shared_memory_is_sealed(fd, DUMP_SEALS, 1, UINT64_MAX, &bytes) &&
           shared_memory_is_whole(fd, bytes);
}

/* The guest writes its table only as it fills. */
static bool is_table(int fd) {
    uint64_t bytes;
    return shared_memory_is_sealed(fd, TABLE_SEALS, 1, UINT64_MAX, &bytes);
}

static sonde_err on_heap_answer(struct target *target, const frames_from_guest *message) {
    const sonde_guest_v1_HeapAnswer *answer = &message->message.heap_answer;
    bool has_fd = answer->has_dump || answer->has_table;
    int fd = has_fd ? frames_take_fd(&target->guest->frames) : -1;
    if (has_fd && !(answer->has_table ? is_table(fd) : is_dump(fd))) {
        if (fd >= 0)
            close(fd);
        return SONDE_PROTOCOL;
    }
    return heap_on_answer(target, answer, fd);
}

static sonde_err on_heap_gdump(struct target *target, const frames_from_guest *message) {
    int fd = frames_take_fd(&target->guest->frames);
    if (!is_dump(fd)) {
        if (fd >= 0)
            close(fd);
        return SONDE_PROTOCOL;
    }
    heap_on_gdump(target, message->message.heap_gdump.skipped, fd);
    return SONDE_OK;
}

static sonde_err on_uses_labels(struct target *target, const frames_from_guest *message) {
    atomic_store_explicit(&target->uses_labels, true, memory_order_relaxed);
    return SONDE_OK;
}

sonde_err guest_on_message(void *context, const frames_from_guest *message) {
    static sonde_err (*const handlers[])(struct target *, const frames_from_guest *) = {
        [sonde_guest_v1_FromGuest_hello_tag] = on_hello,
        [sonde_guest_v1_FromGuest_rings_tag] = on_rings,
        [sonde_guest_v1_FromGuest_maps_tag] = on_maps,
        [sonde_guest_v1_FromGuest_cpu_state_tag] = on_cpu_state,
        [sonde_guest_v1_FromGuest_cpu_account_tag] = on_cpu_account,
        [sonde_guest_v1_FromGuest_heap_answer_tag] = on_heap_answer,
        [sonde_guest_v1_FromGuest_heap_gdump_tag] = on_heap_gdump,
        [sonde_guest_v1_FromGuest_uses_labels_tag] = on_uses_labels,
    };
    struct target *target = context;
    size_t tag = message->which_message;
    if (target->guest->is_broken)
        return SONDE_PROTOCOL;
    if (tag >= sizeof handlers / sizeof handlers[0] || !handlers[tag])
        return SONDE_OK; /* unknown: from a newer guest */
    if (!target->guest->has_hello && tag != sonde_guest_v1_FromGuest_hello_tag)
        return SONDE_PROTOCOL;
    sonde_err err = handlers[tag](target, message);
    struct guest_link *link = target->guest;
    link->frames.is_paused = link->turn_end_ns != 0 && thread_cpu_ns() >= link->turn_end_ns;
    return err;
}
