/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples are sorted by lock. Within those of one lock, sums by thread, function and owner come
 * from sorting them again by each. */
#include "api/profile/select/locks.h"

#include "api/profile/select/contentions.h"

#include <stdlib.h>
#include <string.h>

/* One sample. */
struct wait {
    const char *lock; /* the label; "" = none */
    enum sonde_wait_kind kind;
    const char *name; /* in `lock`, behind its kind */
    int64_t pid, tid;
    const char *thread, *function, *owner;
    int64_t waits, ns;
};

static int compare_numbers(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

static int by_lock(const void *left, const void *right) {
    const struct wait *a = left, *b = right;
    int order = compare_numbers(a->pid, b->pid);
    if (!order)
        order = (int)a->kind - (int)b->kind;
    return order ? order : strcmp(a->name, b->name);
}

static int by_thread(const void *left, const void *right) {
    const struct wait *a = left, *b = right;
    int order = compare_numbers(a->tid, b->tid);
    return order || a->tid ? order : strcmp(a->thread, b->thread);
}

static int by_function(const void *left, const void *right) {
    return strcmp(((const struct wait *)left)->function, ((const struct wait *)right)->function);
}

/* "TID NAME": a thread may have another name later. */
static int by_owner(const void *left, const void *right) {
    long a = strtol(((const struct wait *)left)->owner, NULL, 10);
    long b = strtol(((const struct wait *)right)->owner, NULL, 10);
    return compare_numbers(a, b);
}

static int by_time(const void *left, const void *right) {
    const struct sonde_lock *a = left, *b = right;
    int order = compare_numbers(b->ns, a->ns);
    return order ? order : strcmp(a->name, b->name);
}

static int64_t label_number(const struct sonde_profile *profile, const struct sonde_sample *sample,
                            const char *key) {
    for (uint32_t i = 0; i < sample->label_count; i++) {
        const struct sonde_label *label = &sample->labels[i];
        if (!label->str && strcmp(sonde_profile_text(profile, label->key), key) == 0)
            return label->num;
    }
    return 0;
}

static struct wait read_wait(const struct sonde_profile *profile, size_t index) {
    struct sonde_sample sample = sonde_profile_sample(profile, index);
    struct sonde_wait found = sonde_wait_of_stack(profile, sample.locations, sample.location_count);
    struct wait wait = {.lock = sonde_sample_label(profile, &sample, "lock"),
                        .kind = found.kind,
                        .name = "",
                        .pid = label_number(profile, &sample, "pid"),
                        .tid = label_number(profile, &sample, "tid"),
                        .thread = sonde_sample_label(profile, &sample, "thread"),
                        .function = found.function,
                        .owner = sonde_sample_label(profile, &sample, "lock_owner"),
                        .waits = sample.values[0],
                        .ns = sample.values[1]};
    if (wait.lock[0])
        wait.kind = sonde_wait_of_label(wait.lock, &wait.name);
    if (wait.lock[0] && wait.kind == SONDE_WAIT_OTHER)
        wait.kind = SONDE_WAIT_FUTEX; /* locks beyond the limit share a label */
    return wait;
}

/* --- the sums of one lock -------------------------------------------------------------------- */

/* Sorts the waits, and returns the end of those that equal the first; *ns is their sum. */
static size_t find_end(const struct wait *waits, size_t first, size_t count,
                       int (*order)(const void *, const void *), int64_t *ns) {
    size_t end = first;
    for (*ns = 0; end < count && order(&waits[first], &waits[end]) == 0; end++)
        *ns += waits[end].ns;
    return end;
}

static void count_threads(struct wait *waits, size_t count, struct sonde_lock *lock) {
    int64_t ns;
    qsort(waits, count, sizeof *waits, by_thread);
    for (size_t at = 0; at < count; lock->threads++)
        at = find_end(waits, at, count, by_thread, &ns);
}

static void find_function(struct wait *waits, size_t count, struct sonde_lock *lock) {
    qsort(waits, count, sizeof *waits, by_function);
    for (size_t at = 0, end; at < count; at = end) {
        int64_t ns;
        end = find_end(waits, at, count, by_function, &ns);
        if (ns <= lock->function_ns || !waits[at].function[0])
            continue;
        lock->function = waits[at].function;
        lock->function_ns = ns;
    }
}

static const char *longest_owner(const struct wait *waits, size_t count) {
    const char *longest = waits->owner;
    for (size_t i = 1; i < count; i++)
        longest = strlen(waits[i].owner) > strlen(longest) ? waits[i].owner : longest;
    return longest;
}

/* Keeps the owners sorted by time. */
static void add_owner(struct sonde_lock *lock, const char *name, int64_t ns) {
    uint32_t at = 0;
    while (at < lock->owner_count && lock->owners[at].ns >= ns)
        at++;
    if (at == SONDE_LOCK_OWNERS)
        return;
    lock->owner_count += lock->owner_count < SONDE_LOCK_OWNERS;
    memmove(&lock->owners[at + 1], &lock->owners[at],
            (lock->owner_count - at - 1) * sizeof *lock->owners);
    lock->owners[at] = (struct sonde_lock_owner){name, ns};
}

static void find_owners(struct wait *waits, size_t count, struct sonde_lock *lock) {
    qsort(waits, count, sizeof *waits, by_owner);
    for (size_t at = 0, end; at < count; at = end) {
        int64_t ns;
        end = find_end(waits, at, count, by_owner, &ns);
        if (!waits[at].owner[0])
            continue;
        lock->owned_ns += ns;
        add_owner(lock, longest_owner(&waits[at], end - at), ns);
    }
}

static struct sonde_lock sum_lock(struct wait *waits, size_t count) {
    struct sonde_lock lock = {
        .name = waits->name, .kind = waits->kind, .pid = waits->pid, .function = ""};
    for (size_t i = 0; i < count; i++) {
        lock.waits += waits[i].waits;
        lock.ns += waits[i].ns;
    }
    count_threads(waits, count, &lock);
    find_function(waits, count, &lock);
    find_owners(waits, count, &lock);
    return lock;
}

/* --- the table -------------------------------------------------------------------------------- */

static void add_lock(struct sonde_lock_table *table, struct wait *waits, size_t count,
                     bool all_waits) {
    struct sonde_lock lock = sum_lock(waits, count);
    bool is_listed = sonde_wait_is_contention(lock.kind) || all_waits;
    struct sonde_lock_rest *rest = &table->work;
    if (lock.kind == SONDE_WAIT_OTHER) {
        is_listed = false;
        rest = &table->rest;
    }
    if (is_listed) {
        table->waits += lock.waits;
        table->ns += lock.ns;
        table->locks[table->count++] = lock;
        return;
    }
    rest->waits += lock.waits;
    rest->ns += lock.ns;
}

sonde_err sonde_lock_table_init(struct sonde_lock_table *table, const struct sonde_profile *profile,
                                bool all_waits) {
    size_t count = sonde_profile_sample_count(profile);
    *table = (struct sonde_lock_table){0};
    if (sonde_profile_find_type(profile, sonde_contention_types[0].type) != 0 ||
        sonde_profile_find_type(profile, sonde_contention_types[1].type) != 1)
        return SONDE_INVALID_ARGUMENT;
    struct wait *waits = calloc(count + 1, sizeof *waits);
    table->locks = calloc(count + 1, sizeof *table->locks);
    if (!waits || !table->locks) {
        free(waits);
        sonde_lock_table_finish(table);
        return SONDE_OUT_OF_MEMORY;
    }
    for (size_t i = 0; i < count; i++)
        waits[i] = read_wait(profile, i);
    qsort(waits, count, sizeof *waits, by_lock);
    for (size_t at = 0, end; at < count; at = end) {
        int64_t ns;
        end = find_end(waits, at, count, by_lock, &ns);
        add_lock(table, &waits[at], end - at, all_waits);
    }
    qsort(table->locks, table->count, sizeof *table->locks, by_time);
    free(waits);
    return SONDE_OK;
}

void sonde_lock_table_finish(struct sonde_lock_table *table) {
    free(table->locks);
    *table = (struct sonde_lock_table){0};
}
