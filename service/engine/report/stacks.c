/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/report/stacks.h"

#include <string.h>

static const char *const note_texts[STACK_NOTE_COUNT] = {
    [STACK_NOTE_TRUNCATED] = "[truncated]",
    [STACK_NOTE_NO_TABLE] = "[no unwind table]",
    [STACK_NOTE_RULE] = "[complex unwind rule]",
    [STACK_NOTE_BAD_STACK] = "[bad stack]",
    [STACK_NOTE_EMPTY] = "[no stack]",
    [STACK_NOTE_BLOCKED] = "[blocked signals]",
    [STACK_NOTE_NO_CLOCK] = "[no clock]",
    [STACK_NOTE_SHORT] = "[short-lived thread]",
    [STACK_NOTE_ASLEEP] = "[blocked, not seen]",
    [STACK_NOTE_WAITING] = "[waiting for a CPU]",
    [STACK_NOTE_KERNEL] = "[in the kernel]",
    [STACK_NOTE_COPY_SHORT] = "[stack copy too short]",
    [STACK_NOTE_32BIT] = "[32-bit program]",
    [STACK_NOTE_GONE] = "[process ended]",
    [STACK_NOTE_NO_TABLE_YET] = "[unwind table not loaded yet]",
    [STACK_NOTE_BEFORE] = "[before sampling]",
    [STACK_NOTE_UNSAMPLED] = "[not sampled]",
    [STACK_NOTE_ANONYMOUS] = "[anonymous memory]",
    [STACK_NOTE_FILE] = "[file pages]",
    [STACK_NOTE_SHARED] = "[shared memory]",
    [STACK_NOTE_NO_FAULT] = "[no page fault seen]",
};

const char *stack_note_text(uint64_t note) {
    return note < STACK_NOTE_COUNT ? note_texts[note] : "[unknown]";
}

enum stack_note stack_unseen_note(uint32_t cause) {
    static const enum stack_note notes[] = {
        [RING_UNSEEN_BLOCKED] = STACK_NOTE_BLOCKED, [RING_UNSEEN_NO_CLOCK] = STACK_NOTE_NO_CLOCK,
        [RING_UNSEEN_SHORT] = STACK_NOTE_SHORT,     [RING_UNSEEN_ASLEEP] = STACK_NOTE_ASLEEP,
        [RING_UNSEEN_WAITING] = STACK_NOTE_WAITING, [RING_UNSEEN_KERNEL] = STACK_NOTE_KERNEL,
        [RING_UNSEEN_BEFORE] = STACK_NOTE_BEFORE,
    };
    bool is_known = cause >= RING_UNSEEN_BLOCKED && cause <= RING_UNSEEN_LAST;
    return is_known ? notes[cause] : STACK_NOTE_NO_CLOCK;
}

int stack_end_note(enum stack_end end) {
    static const int8_t notes[STACK_ENDS] = {
        [STACK_END_ROOT] = -1,
        [STACK_END_DEPTH] = STACK_NOTE_TRUNCATED,
        [STACK_END_NO_TABLE] = STACK_NOTE_NO_TABLE,
        [STACK_END_RULE] = STACK_NOTE_RULE,
        [STACK_END_BAD_STACK] = STACK_NOTE_BAD_STACK,
        [STACK_END_SHORT] = STACK_NOTE_COPY_SHORT,
        [STACK_END_GONE] = STACK_NOTE_GONE,
        [STACK_END_NO_TABLE_YET] = STACK_NOTE_NO_TABLE_YET,
    };
    return notes[end];
}

static const char other_processes[] = "[other processes]";

/* Whether the user has room for what another item takes. `index` may be NULL. */
static bool may_grow(struct stacks *stacks, const struct stable_vector *vector,
                     const struct hash_index *index) {
    size_t bytes = stable_vector_growth(vector) + (index ? hash_index_growth(index) : 0);
    if (bytes == 0)
        return true;
    stacks->lacks_memory = !memory_share_take(&stacks->share, bytes);
    return !stacks->lacks_memory;
}

/* Adds an item whose hash the index gets. NULL when there is no room. */
static void *add_item(struct stacks *stacks, struct stable_vector *vector, struct hash_index *index,
                      uint32_t hash, uint32_t *id) {
    void *item = may_grow(stacks, vector, index) ? stable_vector_add(vector, id) : NULL;
    return item && hash_index_add(index, hash, *id) ? item : NULL;
}

/* Item 0 of each table means "none", so that zeroed fields are valid. */
static bool add_zeroth(struct stacks *stacks, struct stable_vector *vector, size_t item_bytes,
                       uint32_t limit) {
    uint32_t zeroth;
    vector->item_bytes = item_bytes;
    vector->limit = limit;
    return may_grow(stacks, vector, NULL) && stable_vector_add(vector, &zeroth) != NULL;
}

struct stacks *stacks_create(uint32_t node_limit, uid_t uid) {
    static _Atomic uint32_t serials;
    struct stacks *stacks = calloc(1, sizeof *stacks);
    if (!stacks)
        return NULL;
    stacks->refs = 1;
    stacks->share.uid = uid;
    stacks->serial = ++serials;
    hash_index_init(&stacks->node_index);
    hash_index_init(&stacks->thread_index);
    hash_index_init(&stacks->process_index);
    hash_index_init(&stacks->mapping_index);
    hash_index_init(&stacks->span_index);
    hash_index_init(&stacks->lock_index);
    if (node_limit == 0 || node_limit > STACKS_MAX_NODES)
        node_limit = STACKS_MAX_NODES;
    bool ok =
        add_zeroth(stacks, &stacks->nodes, sizeof(struct stack_node), node_limit) &&
        add_zeroth(stacks, &stacks->threads, sizeof(struct stack_thread), STACKS_MAX_THREADS) &&
        add_zeroth(stacks, &stacks->mappings, sizeof(struct mapping *), STACKS_MAX_MAPPINGS) &&
        add_zeroth(stacks, &stacks->labels, sizeof(struct stack_label), STACKS_MAX_LABELS) &&
        add_zeroth(stacks, &stacks->processes, sizeof(struct stack_process),
                   STACKS_MAX_PROCESSES) &&
        add_zeroth(stacks, &stacks->spans, sizeof(struct stack_span), STACKS_MAX_SPANS) &&
        add_zeroth(stacks, &stacks->locks, sizeof(struct stack_lock), STACKS_MAX_LOCKS) &&
        memory_share_take(&stacks->share, sizeof *stacks);
    if (!ok) {
        stacks_release(stacks);
        return NULL;
    }
    return stacks;
}

struct stacks *stacks_retain(struct stacks *stacks) {
    atomic_fetch_add_explicit(&stacks->refs, 1, memory_order_relaxed);
    return stacks;
}

void stacks_release(struct stacks *stacks) {
    if (!stacks || atomic_fetch_sub_explicit(&stacks->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (uint32_t i = 1; i < stacks->mappings.count; i++)
        mapping_release(*(struct mapping **)stable_vector_at(&stacks->mappings, i));
    stable_vector_finish(&stacks->nodes);
    stable_vector_finish(&stacks->threads);
    stable_vector_finish(&stacks->mappings);
    stable_vector_finish(&stacks->labels);
    stable_vector_finish(&stacks->processes);
    stable_vector_finish(&stacks->spans);
    stable_vector_finish(&stacks->locks);
    hash_index_finish(&stacks->node_index);
    hash_index_finish(&stacks->thread_index);
    hash_index_finish(&stacks->process_index);
    hash_index_finish(&stacks->mapping_index);
    hash_index_finish(&stacks->span_index);
    hash_index_finish(&stacks->lock_index);
    memory_share_finish(&stacks->share);
    free(stacks);
}

uint32_t stacks_add_frame(struct stacks *stacks, uint32_t parent, uint32_t mapping, uint64_t pc) {
    struct hash_index *index = &stacks->node_index;
    uint32_t hash = hash_index_words(index, pc, (uint64_t)parent << 32 | mapping), id;
    struct hash_probe probe = hash_probe(hash);
    while ((id = hash_index_next(index, &probe)) != HASH_INDEX_NONE) {
        const struct stack_node *node = stacks_node(stacks, id);
        if (node->pc == pc && node->parent == parent && node->mapping == mapping)
            return id;
    }
    struct stack_node *node = add_item(stacks, &stacks->nodes, index, hash, &id);
    if (!node)
        return STACKS_FULL;
    *node = (struct stack_node){.pc = pc, .parent = parent, .mapping = mapping};
    return id;
}

uint32_t stacks_add_thread(struct stacks *stacks, uint32_t pid, uint32_t tid, const char *name) {
    struct stack_thread wanted = {.tid = tid, .pid = pid};
    struct hash_index *index = &stacks->thread_index;
    memcpy(wanted.name, name, strnlen(name, sizeof wanted.name - 1));
    uint32_t hash = hash_index_data(index, &wanted, sizeof wanted), id;
    struct hash_probe probe = hash_probe(hash);
    while ((id = hash_index_next(index, &probe)) != HASH_INDEX_NONE)
        if (memcmp(stable_vector_at(&stacks->threads, id), &wanted, sizeof wanted) == 0)
            return id;
    if (tid != 0 && stacks->threads.count >= STACKS_MAX_THREADS - STACKS_THREAD_NAMES)
        return stacks_add_thread(stacks, pid, 0, name);
    struct stack_thread *thread = add_item(stacks, &stacks->threads, index, hash, &id);
    if (!thread)
        return STACKS_FULL;
    *thread = wanted;
    return id;
}

static uint32_t add_process_text(struct stacks *stacks, const char *text) {
    struct stack_process wanted = {0};
    struct hash_index *index = &stacks->process_index;
    memcpy(wanted.text, text, strnlen(text, sizeof wanted.text - 1));
    uint32_t hash = hash_index_data(index, &wanted, sizeof wanted), id;
    struct hash_probe probe = hash_probe(hash);
    while ((id = hash_index_next(index, &probe)) != HASH_INDEX_NONE)
        if (memcmp(stable_vector_at(&stacks->processes, id), &wanted, sizeof wanted) == 0)
            return id;
    bool is_last = stacks->processes.count == STACKS_MAX_PROCESSES - 1;
    if (is_last && strcmp(text, other_processes) != 0)
        return add_process_text(stacks, other_processes);
    bool has_room = may_grow(stacks, &stacks->processes, index);
    struct stack_process *process = has_room ? stable_vector_add(&stacks->processes, &id) : NULL;
    if (process)
        *process = wanted;
    /* When the table is full, its last item is that of the other processes. */
    if (!process)
        return stacks->processes.count == STACKS_MAX_PROCESSES ? STACKS_MAX_PROCESSES - 1
                                                               : STACKS_FULL;
    return hash_index_add(index, hash, id) ? id : STACKS_FULL;
}

uint32_t stacks_add_process(struct stacks *stacks, const char *text) {
    uint32_t id = add_process_text(stacks, text);
    return id == STACKS_FULL ? id : stacks_add_frame(stacks, 0, STACKS_PROCESS, id);
}

uint32_t stacks_add_mapping(struct stacks *stacks, struct mapping *mapping) {
    if (mapping->stacks_serial == stacks->serial)
        return mapping->stacks_id;
    /* The stacks of several targets may take turns with a mapping. */
    struct hash_index *index = &stacks->mapping_index;
    uint32_t hash = hash_index_words(index, (uintptr_t)mapping, 0), id;
    struct hash_probe probe = hash_probe(hash);
    while ((id = hash_index_next(index, &probe)) != HASH_INDEX_NONE &&
           stacks_mapping(stacks, id) != mapping)
        continue;
    if (id == HASH_INDEX_NONE) {
        bool has_room = may_grow(stacks, &stacks->mappings, index);
        struct mapping **slot = has_room ? stable_vector_add(&stacks->mappings, &id) : NULL;
        if (!slot)
            return STACKS_FULL;
        *slot = mapping_retain(mapping);
        if (!hash_index_add(index, hash, id))
            return STACKS_FULL;
    }
    mapping->stacks_serial = stacks->serial;
    mapping->stacks_id = id;
    return id;
}

uint32_t stacks_add_label(struct stacks *stacks, uint32_t guest_id, const char *text) {
    if (guest_id == 0 || guest_id >= STACKS_MAX_LABELS || text[0] == 0)
        return 0;
    if (stacks->label_of[guest_id] != 0)
        return stacks->label_of[guest_id];
    uint32_t id;
    bool has_room = may_grow(stacks, &stacks->labels, NULL);
    struct stack_label *label = has_room ? stable_vector_add(&stacks->labels, &id) : NULL;
    if (!label)
        return STACKS_FULL;
    memcpy(label->text, text, strnlen(text, sizeof label->text - 1));
    stacks->label_of[guest_id] = (uint16_t)id;
    return id;
}

void stacks_add_span(struct stacks *stacks, const struct ring_span *span) {
    struct hash_index *index = &stacks->span_index;
    uint32_t hash = hash_index_words(index, span->request, 0), id;
    struct hash_probe probe = hash_probe(hash);
    while ((id = hash_index_next(index, &probe)) != HASH_INDEX_NONE)
        if (((struct stack_span *)stable_vector_at(&stacks->spans, id))->request == span->request)
            return;
    bool has_room = span->request && may_grow(stacks, &stacks->spans, index);
    struct stack_span *added = has_room ? stable_vector_add(&stacks->spans, &id) : NULL;
    if (!added)
        return;
    added->request = span->request;
    memcpy(added->trace_id, span->trace_id, sizeof added->trace_id);
    memcpy(added->span_id, span->span_id, sizeof added->span_id);
    (void)hash_index_add(index, hash, id); /* out of memory: the span may be added twice */
}

static bool is_same_lock(const struct stack_lock *a, const struct stack_lock *b) {
    return a->address == b->address && a->pid == b->pid && a->mutex_owner == b->mutex_owner &&
           a->rwlock_owner == b->rwlock_owner && a->is_plain_wait == b->is_plain_wait;
}

uint32_t stacks_add_lock(struct stacks *stacks, const struct stack_lock *lock) {
    struct hash_index *index = &stacks->lock_index;
    uint64_t owners = (uint64_t)lock->mutex_owner << 32 | lock->rwlock_owner;
    uint32_t hash = hash_index_words(index, lock->address ^ (uint64_t)lock->pid << 48, owners), id;
    struct hash_probe probe = hash_probe(hash);
    while ((id = hash_index_next(index, &probe)) != HASH_INDEX_NONE)
        if (is_same_lock(stacks_lock(stacks, id), lock))
            return id;
    static const struct stack_lock others;
    bool is_last = stacks->locks.count == STACKS_MAX_LOCKS - 1;
    if (stacks->locks.count == STACKS_MAX_LOCKS)
        return STACKS_MAX_LOCKS - 1;
    struct stack_lock *added = add_item(stacks, &stacks->locks, index, hash, &id);
    if (!added)
        return STACKS_FULL;
    *added = is_last ? others : *lock;
    return id;
}

uint32_t stacks_add_note(struct stacks *stacks, uint32_t parent, enum stack_note note) {
    return parent == STACKS_FULL ? parent : stacks_add_frame(stacks, parent, STACKS_NOTE, note);
}

/* Adds pcs[from..to), outermost frame first. */
static uint32_t add_run(struct stacks *stacks, struct space *space,
                        const struct ring_sample *sample, uint32_t from, uint32_t to,
                        uint32_t parent) {
    for (uint32_t i = to; i-- > from && parent != STACKS_FULL;) {
        uint64_t pc = sample->pcs[i];
        if (i == 0)
            pc |= RING_PC_EXACT;
        uint64_t address = pc & ~RING_PC_EXACT;
        /* A call that never returns may be the last instruction of a mapping. Its return address is
         * outside of the mapping, so look the call itself up. */
        uint64_t inside = pc & RING_PC_EXACT || address == 0 ? address : address - 1;
        struct mapping *mapping = space_find(space, sample->record.generation, inside);
        uint32_t number = mapping ? stacks_add_mapping(stacks, mapping) : 0;
        parent = stacks_add_frame(stacks, parent, number == STACKS_FULL ? 0 : number, pc);
    }
    return parent;
}

uint32_t stacks_add_sample(struct stacks *stacks, uint32_t parent, struct space *space,
                           const struct ring_sample *sample) {
    uint32_t depth = sample->record.depth, gap = depth;
    if (parent == STACKS_FULL || depth == 0)
        return stacks_add_note(stacks, parent, STACK_NOTE_EMPTY);
    if (sample->end == RING_END_DEPTH && sample->gap_at > 0 && sample->gap_at < depth) {
        gap = sample->gap_at;
        parent = add_run(stacks, space, sample, gap, depth, parent);
    }
    int note = stack_end_note((enum stack_end)sample->end);
    if (note >= 0 && parent != STACKS_FULL)
        parent = stacks_add_frame(stacks, parent, STACKS_NOTE, (uint64_t)note);
    return add_run(stacks, space, sample, 0, gap, parent);
}
