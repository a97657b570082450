/* SPDX-License-Identifier: Apache-2.0
 *
 * What a guest calls its threads and labels, as its THREAD records say. Bounded: 65,536 threads, of
 * which the one not seen for longest makes room; 4,096 labels. Thread safety: engine thread only.
 */
#ifndef SONDE_SERVICE_ENGINE_REPORT_THREAD_NAMES_H
#define SONDE_SERVICE_ENGINE_REPORT_THREAD_NAMES_H

#include "service/engine/report/stacks.h"

#define THREAD_NAMES_SETS 8192u
#define THREAD_NAMES_WAYS 8u

struct name_slot {
    uint32_t tid; /* 0 = free */
    uint32_t used_at;
    uint32_t stacks_serial, stacks_id; /* its number in the stacks of that serial */
    char name[17];
};

struct thread_names {
    struct name_slot *slots;
    char (*labels)[65];
    uint32_t uses;
};

void thread_names_finish(struct thread_names *names);
/* Takes a THREAD record over; bytes that are no text are made safe later, by the profile. */
void thread_names_learn(struct thread_names *names, const struct ring_thread *thread);
/* The thread's number in stacks, STACKS_FULL when there is no room. */
uint32_t thread_names_number(struct thread_names *names, struct stacks *stacks, uint32_t tid);
uint32_t thread_names_label(struct thread_names *names, struct stacks *stacks, uint32_t label);

#endif
