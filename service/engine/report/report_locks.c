/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/report/report_locks.h"

#include "api/base/array.h"
#include "api/draw/names/readable_name.h"
#include "api/text/utf8.h"
#include "service/host/futex.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEAR_FRAMES 32u  /* of a stack, in which the functions of a lock and their caller are */
#define MAX_MODULES 16u  /* of a stack, in which the variable is looked for */
#define MAX_NAME    160u /* bytes of the name of a variable or function */
#define OTHERS      "futex: other locks"

/* A lock as one entry of counts shows it. */
struct seen {
    const struct stack_lock *lock;
    enum sonde_wait_kind kind;
    enum sonde_lock_layout layout;
    const char *function;
    uint64_t start;
};

/* A function that waits for a lock. */
struct lock_user {
    uint32_t lock;        /* index of report_locks.items */
    const char *function; /* of the profile, which has each name once; "" = unknown */
    double weight;        /* of all its entries of counts */
    uint32_t part, stack; /* of one of them */
};

struct lock_users {
    struct lock_user *items;
    uint32_t count, capacity;
    struct hash_index index;
};

static sonde_err intern(struct report_locks *locks, const char *text, uint32_t *id) {
    return sonde_profile_string(locks->profile, text, strlen(text), id);
}

/* --- one entry -------------------------------------------------------------------------------- */

static uint32_t near_frames(const struct report_locks *locks, uint32_t part, uint32_t stack,
                            const struct report_frame *frames[NEAR_FRAMES]) {
    const struct stacks *stacks = locks->input->parts[part].stacks;
    uint32_t count = 0;
    for (uint32_t id = stack; id != 0 && count < NEAR_FRAMES; id = stacks_node(stacks, id)->parent)
        frames[count++] = &locks->frames->items[locks->frame_of_node[part][id] - 1];
    return count;
}

static uint64_t start_of(const struct seen *seen) {
    uint64_t address = seen->lock->address;
    switch (seen->layout) {
    case SONDE_LOCK_PTHREAD_RWLOCK:
        return host_futex_rwlock_start(address);
    case SONDE_LOCK_PTHREAD_CONDITION:
        return host_futex_condition_start(address);
    default:
        return address;
    }
}

/* Inside of pthread_cond_wait, a stripped libc has no name for the function that waits for the
 * mutex. Since 2.25, glibc never waits for the condition with a plain FUTEX_WAIT. musl does, with a
 * word on the waiter's stack. */
static void correct_condition(struct seen *seen) {
    if (seen->kind != SONDE_WAIT_CONDITION || !seen->lock->is_plain_wait)
        return;
    if (seen->lock->address % 8 == 4) {
        seen->layout = SONDE_LOCK_PLAIN;
    } else {
        seen->kind = SONDE_WAIT_MUTEX;
        seen->layout = SONDE_LOCK_PTHREAD_MUTEX;
    }
}

static struct seen look_at(const struct report_locks *locks, uint32_t part,
                           const struct count_key *key) {
    const struct report_frame *frames[NEAR_FRAMES];
    uint32_t locations[NEAR_FRAMES];
    uint32_t count = near_frames(locks, part, key->stack, frames);
    for (uint32_t i = 0; i < count; i++)
        locations[i] = frames[i]->location;
    struct sonde_wait wait = sonde_wait_of_stack(locks->profile, locations, count);
    struct seen seen = {.lock = stacks_lock(locks->input->parts[part].stacks, key->lock),
                        .kind = wait.kind ? wait.kind : SONDE_WAIT_FUTEX,
                        .layout = wait.layout,
                        .function = wait.function};
    correct_condition(&seen);
    seen.start = start_of(&seen);
    return seen;
}

static uint32_t owner_of(const struct seen *seen) {
    const uint32_t owners[] = {
        [SONDE_LOCK_PLAIN] = 0,
        [SONDE_LOCK_PTHREAD_MUTEX] = seen->lock->mutex_owner,
        [SONDE_LOCK_PTHREAD_RWLOCK] = seen->lock->rwlock_owner,
        [SONDE_LOCK_PTHREAD_CONDITION] = 0,
    };
    return owners[seen->layout];
}

/* --- the distinct locks ----------------------------------------------------------------------- */

static uint32_t hash_of(const struct report_locks *locks, const struct seen *seen) {
    return hash_index_words(&locks->index, seen->start,
                            (uint64_t)seen->lock->pid << 8 | (uint64_t)seen->kind);
}

static struct report_lock *find(const struct report_locks *locks, const struct seen *seen) {
    struct hash_probe probe = hash_probe(hash_of(locks, seen));
    uint32_t number;
    while ((number = hash_index_next(&locks->index, &probe)) != HASH_INDEX_NONE) {
        struct report_lock *item = &locks->items[number];
        if (item->start == seen->start && item->pid == seen->lock->pid && item->kind == seen->kind)
            return item;
    }
    return NULL;
}

static struct report_lock *add(struct report_locks *locks, const struct seen *seen) {
    if (!array_room(&locks->items, &locks->capacity, locks->count, 1) ||
        !hash_index_add(&locks->index, hash_of(locks, seen), locks->count))
        return NULL;
    struct report_lock *item = &locks->items[locks->count++];
    *item = (struct report_lock){.start = seen->start, .pid = seen->lock->pid, .kind = seen->kind};
    return item;
}

/* The user of that lock and function, which is added if it is new; NULL: out of memory. */
static struct lock_user *find_user(struct lock_users *users, uint32_t lock, const char *function) {
    uint32_t hash = hash_index_words(&users->index, lock, (uintptr_t)function), number;
    struct hash_probe probe = hash_probe(hash);
    while ((number = hash_index_next(&users->index, &probe)) != HASH_INDEX_NONE) {
        if (users->items[number].lock == lock && users->items[number].function == function)
            return &users->items[number];
    }
    if (!array_room(&users->items, &users->capacity, users->count, 1) ||
        !hash_index_add(&users->index, hash, users->count))
        return NULL;
    struct lock_user *user = &users->items[users->count++];
    *user = (struct lock_user){.lock = lock, .function = function};
    return user;
}

static sonde_err collect(struct report_locks *locks, uint32_t part, struct lock_users *users) {
    const struct counts *counts = &locks->input->parts[part].counts;
    for (uint32_t i = 0; i < counts->used; i++) {
        const struct count_entry *entry = &counts->entries[i];
        if (!entry->key.lock)
            continue;
        struct seen seen = look_at(locks, part, &entry->key);
        if (!seen.lock->address) {
            locks->others += entry->count;
            continue;
        }
        struct report_lock *item = find(locks, &seen);
        if (!item)
            item = add(locks, &seen);
        struct lock_user *user =
            item ? find_user(users, (uint32_t)(item - locks->items), seen.function) : NULL;
        if (!user)
            return SONDE_OUT_OF_MEMORY;
        user->weight += (double)entry->count + entry->waits / 1e6;
        user->part = part;
        user->stack = entry->key.stack;
    }
    return SONDE_OK;
}

/* Fills in the locks, each with the function that waits most for it. */
static sonde_err collect_all(struct report_locks *locks) {
    struct lock_users users = {0};
    sonde_err err = SONDE_OK;
    hash_index_init(&users.index);
    for (uint32_t i = 0; i < locks->input->part_count && !err; i++)
        err = collect(locks, i, &users);
    for (uint32_t i = 0; i < users.count; i++) {
        const struct lock_user *user = &users.items[i];
        struct report_lock *item = &locks->items[user->lock];
        if (item->function && user->weight <= item->weight)
            continue;
        item->weight = user->weight;
        item->part = user->part;
        item->stack = user->stack;
        item->function = user->function;
    }
    free(users.items);
    hash_index_finish(&users.index);
    return err;
}

/* --- names ------------------------------------------------------------------------------------ */

/* The file that has the variable is probably one whose code uses it. */
static uint32_t add_queries(const struct report_locks *locks, const struct report_lock *lock,
                            struct symbol_query queries[MAX_MODULES]) {
    const struct report_frame *frames[NEAR_FRAMES];
    uint32_t count = near_frames(locks, lock->part, lock->stack, frames), used = 0;
    const struct mapping *last = NULL;
    for (uint32_t i = 0; i < count && used < MAX_MODULES; i++) {
        const struct mapping *mapping = frames[i]->mapping;
        if (!mapping || mapping == last || !frames[i]->query ||
            symbol_module_is_memory(mapping_module(mapping)))
            continue;
        last = mapping;
        queries[used++] = (struct symbol_query){.module = mapping_module(mapping),
                                                .vaddr = lock->start - mapping->bias};
    }
    return used;
}

static void put_cut(struct sonde_buf *out, const struct sonde_buf *name) {
    size_t len = name->len < MAX_NAME ? name->len : MAX_NAME;
    while (len && len < name->len && sonde_utf8_continues(name->data[len]))
        len--;
    sonde_buf_append(out, name->data, len);
}

static void put_readable(struct sonde_buf *out, const char *name) {
    struct sonde_buf readable = {0};
    draw_readable_name(&readable, name, false);
    if (readable.failed)
        out->failed = true;
    else if (readable.len)
        put_cut(out, &readable);
    sonde_buf_finish(&readable);
}

static bool put_variable(struct sonde_buf *out, const struct symbol_answer *answers,
                         uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const struct symbol_frame *frame = answers[i].frame_count ? answers[i].frames : NULL;
        if (!frame || !frame->name[0])
            continue;
        put_readable(out, frame->name);
        if (frame->offset)
            sonde_buf_printf(out, "+0x%llx", (unsigned long long)frame->offset);
        return true;
    }
    return false;
}

static sonde_err name(struct report_locks *locks, struct symbol_store *symbols,
                      struct sonde_arena *arena, struct report_lock *lock) {
    struct symbol_query queries[MAX_MODULES];
    struct symbol_answer answers[MAX_MODULES] = {0};
    struct sonde_buf text = {0};
    uint32_t count = symbols ? add_queries(locks, lock, queries) : 0;
    sonde_err err = count ? symbol_resolve(symbols, queries, count, arena, answers) : SONDE_OK;
    sonde_buf_printf(&text, "%s ", sonde_wait_kind_name(lock->kind));
    if (!err && !put_variable(&text, answers, count)) {
        sonde_buf_printf(&text, "0x%llx", (unsigned long long)lock->start);
        if (lock->function[0]) {
            sonde_buf_puts(&text, " of ");
            put_readable(&text, lock->function);
        }
    }
    if (!err)
        err = text.failed ? SONDE_OUT_OF_MEMORY : intern(locks, text.data, &lock->text);
    sonde_buf_finish(&text);
    return err;
}

static sonde_err add_comment(const struct report_locks *locks) {
    char text[120];
    snprintf(text, sizeof text,
             "locks: %llu samples are of locks beyond the limit of %u locks and owners",
             (unsigned long long)locks->others, STACKS_MAX_LOCKS);
    return locks->others ? sonde_profile_add_comment(locks->profile, text) : SONDE_OK;
}

sonde_err report_locks_init(struct report_locks *locks, struct symbol_store *symbols) {
    struct sonde_arena arena = {0};
    hash_index_init(&locks->index);
    sonde_err err = collect_all(locks);
    for (uint32_t i = 0; i < locks->count && !err; i++)
        err = name(locks, symbols, &arena, &locks->items[i]);
    if (!err)
        err = add_comment(locks);
    sonde_arena_finish(&arena);
    return err;
}

void report_locks_finish(struct report_locks *locks) {
    free(locks->items);
    hash_index_finish(&locks->index);
    *locks = (struct report_locks){0};
}

/* "4712 worker-2" */
static sonde_err label_owner(struct report_locks *locks, const struct stack_thread *owner,
                             struct sonde_label *label) {
    char text[48];
    snprintf(text, sizeof text, "%u%s%s", owner->tid, owner->name[0] ? " " : "", owner->name);
    sonde_err err = intern(locks, "lock_owner", &label->key);
    return err ? err : intern(locks, text, &label->str);
}

sonde_err report_locks_label(struct report_locks *locks, uint32_t part, const struct count_key *key,
                             struct sonde_label *labels, uint32_t *count) {
    if (!key->lock)
        return SONDE_OK;
    struct seen seen = look_at(locks, part, key);
    const struct report_lock *lock = seen.lock->address ? find(locks, &seen) : NULL;
    struct sonde_label *label = &labels[(*count)++];
    sonde_err err = intern(locks, "lock", &label->key);
    if (lock)
        label->str = lock->text;
    else if (!err)
        err = intern(locks, OTHERS, &label->str);
    uint32_t owner = owner_of(&seen);
    if (err || !owner)
        return err;
    return label_owner(locks, stable_vector_at(&locks->input->parts[part].stacks->threads, owner),
                       &labels[(*count)++]);
}
