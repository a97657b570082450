/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks of one target, told apart once: a prefix tree of frames from the root to the leaf, in
 * which equal prefixes are one node. A stack is the number of its leaf node; walking the parents
 * gives it leaf first. Threads and label texts are numbered beside it. All of it is bounded: what
 * does not fit is the caller's drop "stack_table_full".
 *
 * Thread safety: adding by the engine thread; a report reads on a worker what was added before it
 * was asked for. The object is shared by reference count. */
#ifndef SONDE_SERVICE_ENGINE_REPORT_STACKS_H
#define SONDE_SERVICE_ENGINE_REPORT_STACKS_H

#include "api/hash_index.h"
#include "service/engine/report/address_space.h"
#include "service/engine/report/stable_vector.h"
#include "service/guest/ring.h"

#define STACKS_MAX_NODES    (1u << 20)
#define STACKS_MAX_THREADS  (1u << 16)
#define STACKS_THREAD_NAMES 4096u /* of them kept for threads that share an entry */
#define STACKS_MAX_MAPPINGS (1u << 16)
#define STACKS_MAX_LABELS   4096u
#define STACKS_FULL         UINT32_MAX
#define STACKS_NOTE         UINT32_MAX /* in place of a mapping: pc is an enum stack_note */

/* Frames that are not code. */
enum stack_note {
    STACK_NOTE_TRUNCATED = 0,
    STACK_NOTE_NO_TABLE,
    STACK_NOTE_RULE,
    STACK_NOTE_BAD_STACK,
    STACK_NOTE_EMPTY,
    STACK_NOTE_BLOCKED,
    STACK_NOTE_NO_CLOCK,
    STACK_NOTE_SHORT,
    STACK_NOTE_ASLEEP,
    STACK_NOTE_WAITING,
    STACK_NOTE_KERNEL,
    STACK_NOTE_COUNT
};
const char *stack_note_text(uint64_t note);

/* Node 0 is the root above all stacks and no frame itself. */
struct stack_node {
    uint64_t pc; /* RING_PC_EXACT set: interrupted code; otherwise a return address */
    uint32_t parent;
    uint32_t mapping; /* number in `mappings`, 0 = none, STACKS_NOTE */
};

struct stack_thread {
    uint32_t tid;
    char name[20];
};

struct stack_label {
    char text[68];
};

struct stacks {
    _Atomic uint32_t refs;
    uint32_t serial;
    struct chunks nodes, threads, mappings, labels; /* numbers 0 are "none" */
    struct hash_index node_index, thread_index;
    uint16_t label_of[STACKS_MAX_LABELS]; /* guest's label id -> number, 0 = none */
};

/* node_limit 0 = STACKS_MAX_NODES. NULL when out of memory. */
struct stacks *stacks_create(uint32_t node_limit);
struct stacks *stacks_retain(struct stacks *stacks);
void stacks_release(struct stacks *stacks);

/* All of these give STACKS_FULL when it does not fit. */
uint32_t stacks_add_frame(struct stacks *stacks, uint32_t parent, uint32_t mapping, uint64_t pc);
/* Past the bound threads of one name share an entry without a tid. */
uint32_t stacks_add_thread(struct stacks *stacks, uint32_t tid, const char *name);
uint32_t stacks_add_mapping(struct stacks *stacks, struct mapping *mapping);
/* A label's text is fixed: the first one counts. */
uint32_t stacks_add_label(struct stacks *stacks, uint32_t guest_id, const char *text);

/* A whole sample: notes where it was cut, the gap of one that was too deep. */
uint32_t stacks_add_sample(struct stacks *stacks, struct space *space,
                           const struct ring_sample *sample);
/* A stack of one note. */
uint32_t stacks_add_note(struct stacks *stacks, enum stack_note note);

static inline const struct stack_node *stacks_node(const struct stacks *stacks, uint32_t id) {
    return chunks_at(&stacks->nodes, id);
}

static inline struct mapping *stacks_mapping(const struct stacks *stacks, uint32_t id) {
    return id == 0 || id == STACKS_NOTE ? NULL
                                        : *(struct mapping **)chunks_at(&stacks->mappings, id);
}

#endif
