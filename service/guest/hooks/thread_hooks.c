/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/guest.h"
#include "service/guest/held.h"
#include "service/guest/hooks/hooks.h"
#include "service/guest/libc.h"
#include "service/guest/process/chroot.h"
#include "service/guest/raw.h"
#include "service/guest/sampling/thread_scan.h"
#include "service/machine/own/here.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define NEW_THREADS 256u
#define TRIES       16u

typedef void *thread_start(void *argument);
typedef int create_function(pthread_t *, const pthread_attr_t *, thread_start *, void *);

struct new_thread {
    thread_start *start;
    void *argument;
    struct walk_stack stack; /* chosen by the caller; high 0 = allocated by glibc, low = its size */
    unsigned filters;        /* held_own of its creator, whose filters it inherits */
    _Atomic bool in_use;
};

/* Usually not from malloc: the first free in a thread sets up its allocator's cache, a cost that a
 * thread which never allocates would not have without us. */
static struct new_thread new_threads[NEW_THREADS];

static struct new_thread *take_new_thread(void) {
    static _Atomic uint32_t next;
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        struct new_thread *created = &new_threads[atomic_fetch_add(&next, 1) % NEW_THREADS];
        if (!atomic_load(&created->in_use) && !atomic_exchange(&created->in_use, true))
            return created;
    }
    return malloc(sizeof(struct new_thread));
}

static void release_new_thread(struct new_thread *created) {
    if (created >= new_threads && created < new_threads + NEW_THREADS)
        atomic_store(&created->in_use, false);
    else
        free(created);
}

static create_function *real_create;
static pthread_key_t end_key;
static _Atomic bool has_end_key;

/* Acts in the second round of destructors, so that the time of the application's destructors is
 * sampled, too. */
static void on_thread_end(void *value) {
    static char again;
    if (held_from_calls())
        return;
    if (value != &again && libc_functions()->pthread_setspecific(end_key, &again) == 0)
        return;
    threads_leave();
    if (atomic_load_explicit(&chroot_entered, memory_order_relaxed))
        chroot_remove_thread((uint32_t)raw_gettid());
}

__attribute__((constructor(101))) static void find_real(void) {
    const struct libc_functions *libc = libc_functions(); /* loads libpthread if it is missing */
    real_create = (create_function *)libc_find_next("pthread_create");
    if (libc && !atomic_load(&has_end_key) &&
        libc->pthread_key_create(&end_key, on_thread_end) == 0)
        atomic_store(&has_end_key, true);
}

/* The bounds of the calling thread's stack. glibc puts the thread's descriptor into its last page,
 * and `asked` has its size. */
static struct walk_stack own_stack(struct walk_stack asked) {
    uint64_t here = (uint64_t)__builtin_frame_address(0), top = (uint64_t)pthread_self();
    uint64_t low = ((top + 4095) & ~4095ull) - asked.low;
    if (asked.high && here >= asked.low && here < asked.high)
        return asked;
    if (!asked.high && asked.low && here < top && here >= low)
        return (struct walk_stack){low, top};
    return (struct walk_stack){0, 0};
}

/* This frame is on the stack of every thread created during a capture; users see its name. */
static __attribute__((noinline)) void *sonde_thread(void *packed) {
    struct new_thread created = *(struct new_thread *)packed;
    struct unwind_registers here;
    release_new_thread(packed);
    unwind_registers_here(&here);
    held_own = created.filters;
    if (held_from_calls())
        return created.start(created.argument);
    if (atomic_load_explicit(&chroot_entered, memory_order_relaxed))
        chroot_add_thread((uint32_t)raw_gettid());
    threads_enter(own_stack(created.stack), &here);
    libc_functions()->pthread_setspecific(end_key, &end_key);
    void *result = created.start(created.argument);
    __asm__ volatile(""); /* prevents a tail call, which would remove the frame */
    return result;
}

/* What is known of the new thread's stack before it exists. The size leaves out the guard. */
static struct walk_stack stack_asked(const pthread_attr_t *attr) {
    static _Atomic size_t default_bytes;
    const struct libc_functions *libc = libc_functions();
    void *low = NULL;
    size_t bytes = 0, guard = 0;
    if (attr) {
        if (libc->pthread_attr_getstack(attr, &low, &bytes) == 0 && low && bytes)
            return (struct walk_stack){(uint64_t)low, (uint64_t)low + bytes};
        if (libc->pthread_attr_getstacksize(attr, &bytes) != 0 ||
            libc->pthread_attr_getguardsize(attr, &guard) != 0)
            return (struct walk_stack){0, 0};
        return (struct walk_stack){bytes > guard ? bytes - guard : 0, 0};
    }
    if (!atomic_load(&default_bytes) && libc->pthread_getattr_default_np) {
        pthread_attr_t defaults;
        if (libc->pthread_getattr_default_np(&defaults) == 0) {
            libc->pthread_attr_getstacksize(&defaults, &bytes);
            libc->pthread_attr_getguardsize(&defaults, &guard);
            pthread_attr_destroy(&defaults);
            atomic_store(&default_bytes, bytes > guard ? bytes - guard : 0);
        }
    }
    return (struct walk_stack){atomic_load(&default_bytes), 0};
}

HOOK int pthread_create(pthread_t *thread, const pthread_attr_t *attr, thread_start *start,
                        void *argument) {
    if (!real_create)
        find_real();
    if (!real_create)
        return EAGAIN;
    unsigned filters = held_own & (HOLD_FILTER | FILTER_IS_HARMLESS);
    bool is_wanted = filters ||
                     atomic_load_explicit(&handler_state.sampling, memory_order_relaxed) ||
                     atomic_load_explicit(&chroot_entered, memory_order_relaxed);
    if (!is_wanted || !atomic_load(&has_end_key))
        return real_create(thread, attr, start, argument);
    struct new_thread *created = take_new_thread();
    if (!created)
        return real_create(thread, attr, start, argument);
    created->start = start;
    created->argument = argument;
    created->stack = stack_asked(attr);
    created->filters = filters;
    int error = real_create(thread, attr, sonde_thread, created);
    if (error)
        release_new_thread(created);
    return error;
}

int guest_create_thread(pthread_t *thread, const pthread_attr_t *attr, thread_start *start,
                        void *argument) {
    if (!real_create)
        find_real();
    return real_create ? real_create(thread, attr, start, argument) : EAGAIN;
}
