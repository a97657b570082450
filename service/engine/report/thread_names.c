/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/report/thread_names.h"

#include <string.h>

void thread_names_finish(struct thread_names *names) {
    free(names->slots);
    free(names->labels);
    memset(names, 0, sizeof *names);
}

/* The slot that holds the tid, or else the one to replace. NULL when out of memory. */
static struct name_slot *slot_of(struct thread_names *names, uint32_t tid) {
    if (!names->slots)
        names->slots = calloc(THREAD_NAMES_SETS * THREAD_NAMES_WAYS, sizeof *names->slots);
    if (!names->slots)
        return NULL;
    uint32_t set = tid * 2654435761u / (UINT32_MAX / THREAD_NAMES_SETS + 1);
    struct name_slot *slots = &names->slots[set * THREAD_NAMES_WAYS], *oldest = slots;
    for (uint32_t i = 0; i < THREAD_NAMES_WAYS; i++) {
        if (slots[i].tid == tid)
            return &slots[i];
        if (slots[i].used_at < oldest->used_at)
            oldest = &slots[i];
    }
    return oldest;
}

static void learn_label(struct thread_names *names, const struct ring_thread *thread) {
    if (thread->label == 0 || thread->label >= STACKS_MAX_LABELS || thread->label_len == 0)
        return;
    if (!names->labels)
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
    struct name_slot *slot = tid ? slot_of(names, tid) : NULL;
    if (!slot)
        return;
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
    if (slot && slot->tid == tid)
        *slot = (struct name_slot){0};
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
