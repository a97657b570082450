/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/select/wait_kind.h"

#include <ctype.h>
#include <string.h>

/* A lock's function calls a few others before it blocks; its callers are far from the leaf. */
#define LOCK_DEPTH 8u

#define WAITS_FOR_CPU "[waiting for a CPU]" /* the leaf of such a sample */

struct row {
    const char *text;
    enum sonde_wait_kind kind;
    enum sonde_lock_layout layout;
};

/* Beginnings of names, without leading underscores. */
static const struct row prefixes[] = {
    {"pthread_mutex_", SONDE_WAIT_MUTEX, SONDE_LOCK_PTHREAD_MUTEX},
    {"pthread_rwlock_", SONDE_WAIT_RWLOCK, SONDE_LOCK_PTHREAD_RWLOCK},
    {"lll_lock_wait", SONDE_WAIT_MUTEX, SONDE_LOCK_PLAIN},
    {"pthread_cond_", SONDE_WAIT_CONDITION, SONDE_LOCK_PTHREAD_CONDITION},
    {"sem_wait", SONDE_WAIT_SEMAPHORE, SONDE_LOCK_PLAIN},
    {"sem_timedwait", SONDE_WAIT_SEMAPHORE, SONDE_LOCK_PLAIN},
    {"sem_clockwait", SONDE_WAIT_SEMAPHORE, SONDE_LOCK_PLAIN},
    {"new_sem_wait", SONDE_WAIT_SEMAPHORE, SONDE_LOCK_PLAIN},
    {"pthread_barrier_wait", SONDE_WAIT_FUTEX, SONDE_LOCK_PLAIN},
    {"pthread_join", SONDE_WAIT_FUTEX, SONDE_LOCK_PLAIN},
    {"pthread_clockjoin", SONDE_WAIT_FUTEX, SONDE_LOCK_PLAIN},
};

/* Parts of names, of languages and libraries that call the kernel themselves. A letter before them
 * makes another word: "block_slow". */
static const struct row parts[] = {
    {"lock_contended", SONDE_WAIT_MUTEX, SONDE_LOCK_PLAIN},        /* Rust's Mutex */
    {"read_contended", SONDE_WAIT_RWLOCK, SONDE_LOCK_PLAIN},       /* and RwLock */
    {"write_contended", SONDE_WAIT_RWLOCK, SONDE_LOCK_PLAIN},      /* likewise */
    {"lock_slow", SONDE_WAIT_MUTEX, SONDE_LOCK_PLAIN},             /* parking_lot, jemalloc */
    {"lock_shared_slow", SONDE_WAIT_RWLOCK, SONDE_LOCK_PLAIN},     /* parking_lot */
    {"lock_exclusive_slow", SONDE_WAIT_RWLOCK, SONDE_LOCK_PLAIN},  /* likewise */
    {"lock_upgradable_slow", SONDE_WAIT_RWLOCK, SONDE_LOCK_PLAIN}, /* likewise */
    {"LockSlow", SONDE_WAIT_MUTEX, SONDE_LOCK_PLAIN},              /* Abseil */
    {"lockSlow", SONDE_WAIT_MUTEX, SONDE_LOCK_PLAIN},              /* Go's sync.Mutex, WebKit */
    {"runtime.lock2", SONDE_WAIT_MUTEX, SONDE_LOCK_PLAIN},
};

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

static const char *const kind_names[SONDE_WAIT_KINDS] = {
    [SONDE_WAIT_OTHER] = "",
    [SONDE_WAIT_MUTEX] = "mutex",
    [SONDE_WAIT_RWLOCK] = "read-write lock",
    [SONDE_WAIT_CONDITION] = "condition variable",
    [SONDE_WAIT_SEMAPHORE] = "semaphore",
    [SONDE_WAIT_FUTEX] = "futex",
};

const char *sonde_wait_kind_name(enum sonde_wait_kind kind) {
    return kind_names[kind];
}

bool sonde_wait_is_contention(enum sonde_wait_kind kind) {
    return kind == SONDE_WAIT_MUTEX || kind == SONDE_WAIT_RWLOCK;
}

static bool begins_with(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool has_part(const char *name, const char *part) {
    for (const char *at = strstr(name, part); at; at = strstr(at + 1, part)) {
        if (at == name || !isalpha((unsigned char)at[-1]))
            return true;
    }
    return false;
}

static const struct row *find(const char *name) {
    const char *plain = name + strspn(name, "_");
    for (size_t i = 0; i < COUNT_OF(prefixes); i++) {
        if (begins_with(plain, prefixes[i].text))
            return &prefixes[i];
    }
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        if (has_part(name, parts[i].text))
            return &parts[i];
    }
    return NULL;
}

/* Demanglers print the return type of a template before its name: "void std::f<int>(int)". Returns
 * the name from the template's own name on; without such a type, all of it. */
static const char *after_return_type(const char *name) {
    const char *start = name;
    int depth = 0;
    for (const char *at = name; *at; at++) {
        bool is_parameters = *at == '(' && depth == 0 && at > name;
        if (is_parameters && at[-1] == '>')
            return start;
        if (is_parameters && (isalnum((unsigned char)at[-1]) || at[-1] == '_'))
            return name;
        depth += (*at == '<' || *at == '(') - (*at == '>' || *at == ')');
        if (*at == ' ' && depth == 0)
            start = at + 1;
    }
    return name;
}

/* C++'s classes of locks are between the function that locks and pthread's. */
static bool is_wrapper(const char *name) {
    const char *plain = after_return_type(name);
    return begins_with(plain, "std::") || begins_with(plain, "__gthread_");
}

/* Of two functions of locks, the one nearer to the leaf shows the kind. But a lock may be built of
 * a condition variable: then a thread that waits for the condition waits for the lock's holder. */
static bool replaces(const struct row *row, const struct sonde_wait *wait) {
    return wait->kind == SONDE_WAIT_OTHER ||
           (sonde_wait_is_contention(row->kind) && !sonde_wait_is_contention(wait->kind));
}

/* Adds the next function of a stack, from its leaf on. is_near: it may be one of a lock. */
static void add_function(struct sonde_wait *wait, const char *name, bool is_near,
                         const char **wrapper) {
    const struct row *row = is_near ? find(name) : NULL;
    if (row && replaces(row, wait))
        *wait = (struct sonde_wait){row->kind, wait->kind ? wait->layout : row->layout, ""};
    else if (row && wait->kind == row->kind && wait->layout == SONDE_LOCK_PLAIN)
        wait->layout = row->layout;
    if (row) {
        wait->function = *wrapper = "";
        return;
    }
    if (wait->kind == SONDE_WAIT_OTHER || wait->function[0])
        return;
    if (!is_wrapper(name))
        wait->function = name;
    else if (!(*wrapper)[0])
        *wrapper = name;
}

/* The thread could have run: it has what it waited for, or was preempted. */
static bool waits_for_cpu(const struct sonde_profile *profile, uint32_t leaf) {
    const struct sonde_location *location = sonde_profile_location(profile, leaf);
    const struct sonde_function *function =
        location->line_count ? sonde_profile_function(profile, location->lines[0].function) : NULL;
    return function && strcmp(sonde_profile_text(profile, function->name), WAITS_FOR_CPU) == 0;
}

struct sonde_wait sonde_wait_of_stack(const struct sonde_profile *profile,
                                      const uint32_t *locations, uint32_t count) {
    struct sonde_wait wait = {.function = ""};
    const char *wrapper = "";
    if (count && waits_for_cpu(profile, locations[0]))
        return wait;
    for (uint32_t i = 0; i < count; i++) {
        const struct sonde_location *location = sonde_profile_location(profile, locations[i]);
        bool is_near = i < LOCK_DEPTH;
        if (!is_near && (wait.kind == SONDE_WAIT_OTHER || wait.function[0]))
            break;
        for (uint32_t k = 0; k < location->line_count; k++) {
            const struct sonde_function *function =
                sonde_profile_function(profile, location->lines[k].function);
            add_function(&wait, sonde_profile_text(profile, function->name), is_near, &wrapper);
        }
    }
    if (!wait.function[0])
        wait.function = wrapper;
    return wait;
}

struct sonde_wait sonde_wait_of_names(const char *const *names, uint32_t count) {
    struct sonde_wait wait = {.function = ""};
    const char *wrapper = "";
    for (uint32_t i = 0; i < count; i++)
        add_function(&wait, names[i], i < LOCK_DEPTH, &wrapper);
    if (!wait.function[0])
        wait.function = wrapper;
    return wait;
}

enum sonde_wait_kind sonde_wait_of_label(const char *text, const char **name) {
    for (int kind = SONDE_WAIT_MUTEX; kind < SONDE_WAIT_KINDS; kind++) {
        size_t len = strlen(kind_names[kind]);
        if (strncmp(text, kind_names[kind], len) != 0 || text[len] != ' ')
            continue;
        *name = text + len + 1;
        return (enum sonde_wait_kind)kind;
    }
    *name = text;
    return SONDE_WAIT_OTHER;
}
