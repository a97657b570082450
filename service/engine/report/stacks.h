/* SPDX-License-Identifier: Apache-2.0
 *
 * The distinct stacks of one target: a prefix tree of frames, root first, in which equal prefixes
 * share their nodes. A stack is the number of its leaf node; following the parents yields the
 * frames leaf first. A target of several processes has a node for each of them below the root, so
 * that a process is the outermost frame. Threads and label texts are numbered, too. Everything is
 * bounded: the caller counts what does not fit as a drop, "stack_table_full", or "memory" if the
 * target's user has no more room (service/process/memory_share.h).
 *
 * Thread safety: only the engine thread adds. A report on a worker reads what was added before the
 * report was started. Reference-counted. */
#ifndef SONDE_SERVICE_ENGINE_REPORT_STACKS_H
#define SONDE_SERVICE_ENGINE_REPORT_STACKS_H

#include "api/hash_index.h"
#include "service/engine/report/address_space.h"
#include "service/engine/report/stable_vector.h"
#include "service/guest/ring.h"
#include "service/process/memory_share.h"

#define STACKS_MAX_NODES     (1u << 20)
#define STACKS_MAX_THREADS   (1u << 16)
#define STACKS_THREAD_NAMES  4096u /* of these, reserved for entries that threads share */
#define STACKS_MAX_MAPPINGS  (1u << 16)
#define STACKS_MAX_LABELS    4096u
#define STACKS_MAX_PROCESSES 4096u
#define STACKS_MAX_SPANS     65536u
#define STACKS_MAX_LOCKS     16384u /* with each of their owners */
#define STACKS_FULL          UINT32_MAX
#define STACKS_NOTE          UINT32_MAX       /* instead of a mapping: pc is an enum stack_note */
#define STACKS_PROCESS       (UINT32_MAX - 1) /* likewise: pc is a number in `processes` */

/* Frames that are not code: why a stack is missing or incomplete. */
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
    STACK_NOTE_COPY_SHORT,
    STACK_NOTE_32BIT,
    STACK_NOTE_GONE,
    STACK_NOTE_NO_TABLE_YET,
    STACK_NOTE_BEFORE,
    STACK_NOTE_UNSAMPLED, /* counted events that the kernel took no sample of */
    STACK_NOTE_ANONYMOUS, /* the outermost frame of growth, by kind of memory */
    STACK_NOTE_FILE,
    STACK_NOTE_SHARED,
    STACK_NOTE_NO_FAULT, /* growth that no sampled page fault explains */
    STACK_NOTE_COUNT
};
const char *stack_note_text(uint64_t note);
/* The note for time without a stack; cause: enum ring_unseen_cause. */
enum stack_note stack_unseen_note(uint32_t cause);

/* How a stack ended. The first are enum ring_stack_end. */
enum stack_end {
    STACK_END_ROOT = RING_END_ROOT,
    STACK_END_DEPTH = RING_END_DEPTH,
    STACK_END_NO_TABLE = RING_END_NO_TABLE,
    STACK_END_RULE = RING_END_RULE,
    STACK_END_BAD_STACK = RING_END_BAD_STACK,
    STACK_END_SHORT = RING_END_COUNT, /* the kernel copied too little of the stack */
    STACK_END_GONE,                   /* the process had ended before its mappings were read */
    STACK_END_NO_TABLE_YET,           /* its tables were not loaded in time */
    STACK_ENDS
};
/* The note that stands for the missing frames; -1 = none is missing. */
int stack_end_note(enum stack_end end);

/* Node 0 is the root of the tree, not a frame. */
struct stack_node {
    uint64_t pc; /* interrupted code if RING_PC_EXACT is set, otherwise a return address */
    uint32_t parent;
    uint32_t mapping; /* number in `mappings`, 0 = none, or STACKS_NOTE, STACKS_PROCESS */
};

struct stack_thread {
    uint32_t tid, pid; /* pid 0: the target's only process */
    char name[20];
};

struct stack_process {
    char text[80];
};

struct stack_label {
    char text[68];
};

struct stack_span {
    uint64_t request; /* of the samples' keys */
    uint8_t trace_id[16], span_id[8];
};

/* A lock that threads wait for. Its kind is known when its functions have names: a mutex and a
 * read-write lock have their owner in different places. */
struct stack_lock {
    uint64_t address; /* of the futex; 0: all those beyond STACKS_MAX_LOCKS */
    uint32_t pid;
    uint32_t mutex_owner, rwlock_owner; /* numbers in `threads`; 0 = unknown */
    bool is_plain_wait;                 /* not for a condition variable */
};

struct stacks {
    _Atomic uint32_t refs;
    uint32_t serial;
    /* Item 0 means "none". */
    struct stable_vector nodes, threads, mappings, labels, processes, spans, locks;
    struct hash_index node_index, thread_index, process_index, mapping_index, span_index,
        lock_index;
    struct memory_share share;
    bool lacks_memory;                    /* the share has refused the last item */
    uint16_t label_of[STACKS_MAX_LABELS]; /* the guest's label id -> number, 0 = none */
};

/* node_limit 0 = STACKS_MAX_NODES. uid: the target's user. NULL when out of memory, or when the
 * user has no more room. */
struct stacks *stacks_create(uint32_t node_limit, uid_t uid);
struct stacks *stacks_retain(struct stacks *stacks);
void stacks_release(struct stacks *stacks);

/* These functions return a number, or STACKS_FULL when there is no room. */
uint32_t stacks_add_frame(struct stacks *stacks, uint32_t parent, uint32_t mapping, uint64_t pc);
/* When there is no room for further tids, threads with the same name share one entry. */
uint32_t stacks_add_thread(struct stacks *stacks, uint32_t pid, uint32_t tid, const char *name);
/* The node of a process, for the functions below as `parent`. Equal texts share a node; those
 * beyond STACKS_MAX_PROCESSES share "[other processes]". */
uint32_t stacks_add_process(struct stacks *stacks, const char *text);
uint32_t stacks_add_mapping(struct stacks *stacks, struct mapping *mapping);
/* The first text of a label id is final. */
uint32_t stacks_add_label(struct stacks *stacks, uint32_t guest_id, const char *text);
/* Those beyond STACKS_MAX_LOCKS share a number. */
uint32_t stacks_add_lock(struct stacks *stacks, const struct stack_lock *lock);
/* Keeps what a request number stands for. Spans beyond STACKS_MAX_SPANS stay numbers. */
void stacks_add_span(struct stacks *stacks, const struct ring_span *span);

/* The stack of a sample, with notes where it was cut or where frames were left out. Its outermost
 * frame is below `parent`: the node of a process, or 0. */
uint32_t stacks_add_sample(struct stacks *stacks, uint32_t parent, struct space *space,
                           const struct ring_sample *sample);
/* A stack that consists of one note. */
uint32_t stacks_add_note(struct stacks *stacks, uint32_t parent, enum stack_note note);

static inline const struct stack_node *stacks_node(const struct stacks *stacks, uint32_t id) {
    return stable_vector_at(&stacks->nodes, id);
}

static inline const struct stack_lock *stacks_lock(const struct stacks *stacks, uint32_t id) {
    return stable_vector_at(&stacks->locks, id);
}

static inline const char *stacks_process(const struct stacks *stacks, uint64_t id) {
    const struct stack_process *process = stable_vector_at(&stacks->processes, (uint32_t)id);
    return process->text;
}

static inline struct mapping *stacks_mapping(const struct stacks *stacks, uint32_t id) {
    return id == 0 || id >= STACKS_PROCESS
               ? NULL
               : *(struct mapping **)stable_vector_at(&stacks->mappings, id);
}

#endif
