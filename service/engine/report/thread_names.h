/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of a target's threads and the texts of its labels, from the guest's THREAD records.
 *
 * Thread names are in a set-associative cache of sets of eight, of which a new thread replaces the
 * least recently used. So a guest that sends colliding thread ids only loses names, and a lookup
 * never takes more than eight comparisons. The cache doubles when it is half full, up to 8,192 sets
 * and as long as the guest's user has memory. Thread safety: engine thread only. */
#ifndef SONDE_SERVICE_ENGINE_REPORT_THREAD_NAMES_H
#define SONDE_SERVICE_ENGINE_REPORT_THREAD_NAMES_H

#include "service/engine/report/stacks.h"

#define THREAD_NAMES_FIRST 16u /* sets */
#define THREAD_NAMES_SETS  8192u
#define THREAD_NAMES_WAYS  8u

struct name_slot {
    uint32_t tid; /* 0 = free */
    uint32_t used_at;
    uint32_t stacks_serial, stacks_id; /* the thread's number in the stacks with that serial */
    char name[17];
};

struct thread_names {
    struct name_slot *slots;
    uint32_t sets, used; /* used: slots that are not free */
    char (*labels)[65];
    uint32_t uses;
    struct memory_share share; /* set its uid to the guest's user */
};

void thread_names_finish(struct thread_names *names);
/* Stores what a THREAD record says. The profile replaces bytes that are not valid UTF-8. */
void thread_names_learn(struct thread_names *names, const struct ring_thread *thread);
/* The name of a thread, "" if it has none; NULL = nothing is known. Valid until the next call. */
const char *thread_names_get(struct thread_names *names, uint32_t tid);
/* The thread has ended; another one may get its tid. */
void thread_names_forget(struct thread_names *names, uint32_t tid);
/* The number of the thread, or of the label, in `stacks`; STACKS_FULL when there is no room. */
uint32_t thread_names_number(struct thread_names *names, struct stacks *stacks, uint32_t tid);
uint32_t thread_names_label(struct thread_names *names, struct stacks *stacks, uint32_t label);

#endif
