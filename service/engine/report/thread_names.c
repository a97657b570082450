/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/report/thread_names.h"

#include <stdlib.h>
#include <string.h>

void thread_names_finish(struct thread_names *names) {
    free(names->slots);
    free(names->labels);
    memory_share_finish(&names->share);
    memset(names, 0, sizeof *names);
}

static struct name_slot *set_of(struct name_slot *slots, uint32_t sets, uint32_t tid) {
    uint32_t set = tid * 2654435761u / (UINT32_MAX / sets + 1);
    return &slots[set * THREAD_NAMES_WAYS];
}

/* The slot that holds the tid, or else the one to replace. */
static struct name_slot *slot_in(struct name_slot *slots, uint32_t sets, uint32_t tid) {
    struct name_slot *set = set_of(slots, sets, tid), *oldest = set;
    for (uint32_t i = 0; i < THREAD_NAMES_WAYS; i++) {
        if (set[i].tid == tid)
            return &set[i];
        if (set[i].used_at < oldest->used_at)
            oldest = &set[i];
    }
    return oldest;
}

/* Doubles the cache, or makes the first one. Without memory it stays as it is. */
static void grow(struct thread_names *names) {
    uint32_t sets = names->sets ? 2 * names->sets : THREAD_NAMES_FIRST;
    size_t old_bytes = names->sets * THREAD_NAMES_WAYS * sizeof *names->slots;
    size_t bytes = sets * THREAD_NAMES_WAYS * sizeof *names->slots;
    if (sets > THREAD_NAMES_SETS || !memory_share_take(&names->share, bytes))
        return;
    struct name_slot *slots = calloc(sets * THREAD_NAMES_WAYS, sizeof *slots);
    if (!slots) {
        memory_share_give(&names->share, bytes);
        return;
    }
    for (uint32_t i = 0; i < names->sets * THREAD_NAMES_WAYS; i++) {
        if (names->slots[i].tid != 0)
            *slot_in(slots, sets, names->slots[i].tid) = names->slots[i];
    }
    free(names->slots);
    memory_share_give(&names->share, old_bytes);
    names->slots = slots;
    names->sets = sets;
}

/* NULL when there is no memory. */
static struct name_slot *slot_of(struct thread_names *names, uint32_t tid) {
    return names->sets ? slot_in(names->slots, names->sets, tid) : NULL;
}

static void learn_label(struct thread_names *names, const struct ring_thread *thread) {
    if (thread->label == 0 || thread->label >= STACKS_MAX_LABELS || thread->label_len == 0)
        return;
    if (!names->labels &&
        memory_share_take(&names->share, STACKS_MAX_LABELS * sizeof *names->labels))
        names->labels = calloc(STACKS_MAX_LABELS, sizeof *names->labels);
    if (!names->labels)
        return;
    char *text = names->labels[thread->label];
    memset(text, 0, sizeof names->labels[0]);
    memcpy(text, thread->text, strnlen(thread->text, thread->label_len));
}

void thread_names_learn(struct thread_names *names, const struct ring_thread *thread) {
    learn_label(names, thread);
    uint32_t tid = thread->record.tid;
    if (names->used >= names->sets * THREAD_NAMES_WAYS / 2)
        grow(names);
    struct name_slot *slot = tid ? slot_of(names, tid) : NULL;
    if (!slot)
        return;
    names->used += slot->tid == 0;
    *slot = (struct name_slot){.tid = tid, .used_at = ++names->uses};
    memcpy(slot->name, thread->name, sizeof thread->name);
}

const char *thread_names_get(struct thread_names *names, uint32_t tid) {
    struct name_slot *slot = tid ? slot_of(names, tid) : NULL;
    if (!slot || slot->tid != tid)
        return NULL;
    slot->used_at = ++names->uses;
    return slot->name;
}

void thread_names_forget(struct thread_names *names, uint32_t tid) {
    struct name_slot *slot = tid ? slot_of(names, tid) : NULL;
    if (!slot || slot->tid != tid)
        return;
    *slot = (struct name_slot){0};
    names->used--;
}

uint32_t thread_names_number(struct thread_names *names, struct stacks *stacks, uint32_t tid) {
    struct name_slot *slot = tid ? slot_of(names, tid) : NULL;
    if (!slot || slot->tid != tid)
        return stacks_add_thread(stacks, 0, tid, "");
    slot->used_at = ++names->uses;
    if (slot->stacks_serial == stacks->serial)
        return slot->stacks_id;
    uint32_t id = stacks_add_thread(stacks, 0, tid, slot->name);
    if (id != STACKS_FULL) {
        slot->stacks_serial = stacks->serial;
        slot->stacks_id = id;
    }
    return id;
}

uint32_t thread_names_label(struct thread_names *names, struct stacks *stacks, uint32_t label) {
    if (label == 0 || label >= STACKS_MAX_LABELS || !names->labels)
        return 0;
    return stacks_add_label(stacks, label, names->labels[label]);
}
