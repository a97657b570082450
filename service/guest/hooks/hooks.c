/* SPDX-License-Identifier: Apache-2.0
 *
 * The libc functions that stand in front of libc's own, each with its reason. All are on the list
 * EXPORTS.
 *
 *     pthread_create      a thread that lives 1 ms must have its clock from its first instruction:
 *                         a scan would miss it
 *     sigaction, signal,  the application sees its own handlers although ours is the kernel's
 *     __sysv_signal       (signal/chain.h)
 *     fork, daemon        a child that goes on without exec is a target of its own; its control
 *                         thread can be made only after every atfork handler has run (an
 *                         allocator's locks are released in its own)
 *     dlclose             the map is read anew at once, before the addresses are given to another
 *                         library
 *     chroot              /proc is out of sight afterwards (jail.h)
 *     exec...             interpose_exec.c
 *     close...            interpose_close.c
 *     setuid..., capset   interpose_ids.c
 *
 * dlopen is none of them: it looks at its caller (RUNPATH, $ORIGIN). While nobody profiles each
 * costs one load and one branch. */
#include "service/guest/guest.h"
#include "service/guest/process/chroot.h"
#include "service/guest/raw.h"
#include "service/guest/sampling/install.h"
#include "service/guest/sampling/thread_scan.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

extern int __sigaction(int signal, const struct sigaction *action, struct sigaction *old);
extern pid_t __fork(void);
extern __sighandler_t ssignal(int signal, __sighandler_t handler);
extern __sighandler_t sysv_signal(int signal, __sighandler_t handler);

typedef void *thread_start(void *argument);
typedef int create_function(pthread_t *, const pthread_attr_t *, thread_start *, void *);

struct begin {
    thread_start *start;
    void *argument;
    struct walk_stack stack; /* the caller's choice; high 0 = glibc's, `low` is then its size */
    _Atomic bool taken;
};

/* Not from malloc: the first free in a thread sets up its allocator's cache, which a thread that
 * never allocates would pay for us. */
static struct begin begins[256];

static struct begin *take_begin(void) {
    static _Atomic uint32_t next;
    for (uint32_t tries = 0; tries < 16; tries++) {
        struct begin *begin = &begins[atomic_fetch_add(&next, 1) % 256];
        if (!atomic_load(&begin->taken) && !atomic_exchange(&begin->taken, true))
            return begin;
    }
    return malloc(sizeof(struct begin));
}

static void give_begin(struct begin *begin) {
    if (begin >= begins && begin < begins + 256)
        atomic_store(&begin->taken, false);
    else
        free(begin);
}

static create_function *real_create;
static int (*real_dlclose)(void *);
static int (*real_daemon)(int, int);
static pthread_key_t leave_key;
static _Atomic bool key_made;

/* In the second round: the other keys' destructors are this thread's work as well. */
static void on_thread_end(void *value) {
    static char again;
    if (value != &again && pthread_setspecific(leave_key, &again) == 0)
        return;
    threads_leave();
    if (atomic_load_explicit(&chroot_entered, memory_order_relaxed))
        chroot_remove_thread((uint32_t)raw_gettid());
}

__attribute__((constructor(101))) static void find_real(void) {
    real_create = (create_function *)dlsym(RTLD_NEXT, "pthread_create");
    real_dlclose = (int (*)(void *))dlsym(RTLD_NEXT, "dlclose");
    real_daemon = (int (*)(int, int))dlsym(RTLD_NEXT, "daemon");
    if (!atomic_load(&key_made) && pthread_key_create(&leave_key, on_thread_end) == 0)
        atomic_store(&key_made, true);
}

/* The bounds of the stack we stand on: glibc puts the thread's descriptor on its last page, its
 * size was asked for. */
static struct walk_stack own_stack(struct walk_stack asked) {
    uint64_t here = (uint64_t)__builtin_frame_address(0), top = (uint64_t)pthread_self();
    uint64_t low = ((top + 4095) & ~4095ull) - asked.low;
    if (asked.high && here >= asked.low && here < asked.high)
        return asked;
    if (!asked.high && asked.low && here < top && here >= low)
        return (struct walk_stack){low, top};
    return (struct walk_stack){0, 0};
}

/* Every sampled thread's stack has this frame; its name says whose it is. */
static __attribute__((noinline)) void *sonde_thread(void *packed) {
    struct begin begin = *(struct begin *)packed;
    struct unwind_registers here;
    give_begin(packed);
    unwind_registers_here(&here);
    if (atomic_load_explicit(&chroot_entered, memory_order_relaxed))
        chroot_add_thread((uint32_t)raw_gettid());
    threads_enter(own_stack(begin.stack), &here);
    pthread_setspecific(leave_key, &leave_key);
    void *result = begin.start(begin.argument);
    __asm__ volatile(""); /* no tail call: the frame stays */
    return result;
}

/* What is known of the new thread's stack. The guard may be part of the size: left out of it. */
static struct walk_stack stack_asked(const pthread_attr_t *attr) {
    static _Atomic size_t default_bytes;
    void *low = NULL;
    size_t bytes = 0, guard = 0;
    if (attr) {
        if (pthread_attr_getstack(attr, &low, &bytes) == 0 && low && bytes)
            return (struct walk_stack){(uint64_t)low, (uint64_t)low + bytes};
        if (pthread_attr_getstacksize(attr, &bytes) != 0 ||
            pthread_attr_getguardsize(attr, &guard) != 0)
            return (struct walk_stack){0, 0};
        return (struct walk_stack){bytes > guard ? bytes - guard : 0, 0};
    }
    if (!atomic_load(&default_bytes)) {
        pthread_attr_t defaults;
        if (pthread_getattr_default_np(&defaults) == 0) {
            pthread_attr_getstacksize(&defaults, &bytes);
            pthread_attr_getguardsize(&defaults, &guard);
            pthread_attr_destroy(&defaults);
            atomic_store(&default_bytes, bytes > guard ? bytes - guard : 0);
        }
    }
    return (struct walk_stack){atomic_load(&default_bytes), 0};
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attr, thread_start *start,
                          void *argument) {
    if (!real_create)
        find_real();
    if (!real_create)
        return EAGAIN;
    bool is_told = atomic_load_explicit(&handler_state.sampling, memory_order_relaxed) ||
                   atomic_load_explicit(&chroot_entered, memory_order_relaxed);
    if (!is_told || !atomic_load(&key_made))
        return real_create(thread, attr, start, argument);
    struct begin *begin = take_begin();
    if (!begin)
        return real_create(thread, attr, start, argument);
    begin->start = start;
    begin->argument = argument;
    begin->stack = stack_asked(attr);
    int error = real_create(thread, attr, sonde_thread, begin);
    if (error)
        give_begin(begin);
    return error;
}

int guest_create_thread(pthread_t *thread, const pthread_attr_t *attr, thread_start *start,
                        void *argument) {
    if (!real_create)
        find_real();
    return real_create ? real_create(thread, attr, start, argument) : EAGAIN;
}

EXPORT int sigaction(int signal, const struct sigaction *action, struct sigaction *old) {
    if (install_virtual(signal, action, old))
        return 0;
    return __sigaction(signal, action, old);
}

static __sighandler_t set_handler(int signal, __sighandler_t handler, int flags, bool *done) {
    struct sigaction action = {.sa_flags = flags}, old;
    action.sa_handler = handler;
    sigemptyset(&action.sa_mask);
    if (!(flags & SA_NODEFER) && signal > 0 && signal < NSIG)
        sigaddset(&action.sa_mask, signal);
    *done = install_virtual(signal, &action, &old);
    return *done ? old.sa_handler : SIG_ERR;
}

EXPORT __sighandler_t signal(int number, __sighandler_t handler) {
    bool done;
    __sighandler_t old = set_handler(number, handler, SA_RESTART, &done);
    return done ? old : ssignal(number, handler);
}

/* What signal is in a program compiled for System V or strict X/Open. */
EXPORT __sighandler_t __sysv_signal(int number, __sighandler_t handler);
EXPORT __sighandler_t __sysv_signal(int number, __sighandler_t handler) {
    bool done;
    __sighandler_t old = set_handler(number, handler, (int)(SA_RESETHAND | SA_NODEFER), &done);
    return done ? old : sysv_signal(number, handler);
}

EXPORT int chroot(const char *path) {
    chroot_prepare();
    guest_connect_now();
    long result = raw_call3(SYS_chroot, (long)path, 0, 0);
    if (result == 0)
        return 0;
    errno = (int)-result;
    return -1;
}

EXPORT pid_t fork(void) {
    pid_t child = __fork();
    if (child == 0)
        guest_restart_after_fork();
    return child;
}

EXPORT int daemon(int keep_directory, int keep_descriptors) {
    if (!real_daemon)
        find_real();
    if (!real_daemon) {
        errno = ENOSYS;
        return -1;
    }
    int result = real_daemon(keep_directory, keep_descriptors);
    if (result == 0)
        guest_restart_after_fork();
    return result;
}

EXPORT int dlclose(void *library) {
    if (!real_dlclose)
        find_real();
    int result = real_dlclose ? real_dlclose(library) : -1;
    bool walks = atomic_load_explicit(&handler_state.sampling, memory_order_relaxed) ||
                 atomic_load_explicit(&guest.keeps_maps, memory_order_relaxed);
    if (walks && !atomic_exchange(&guest.reread_maps, true)) /* one wake-up for many */
        handler_wake_control();
    return result;
}
