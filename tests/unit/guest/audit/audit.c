/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that replaces libc's malloc, locks and loader calls for all code in the process, the
 * guest's included, and counts calls while `watched` is set. The watched code calls nothing, so
 * each counted call is from a signal handler. Usage: audit MILLISECONDS. */
#include "tests/unit/guest/subject/subject.h"

#include <dlfcn.h>
#include <link.h>
#include <semaphore.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

static __thread volatile int watched __attribute__((tls_model("initial-exec")));
static _Atomic long seen;

static void count_call(void) {
    seen += watched;
}

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void __libc_free(void *memory);

EXPORT void *malloc(size_t size) {
    count_call();
    return __libc_malloc(size);
}

EXPORT void *calloc(size_t count, size_t size) {
    count_call();
    return __libc_calloc(count, size);
}

EXPORT void *realloc(void *old, size_t size) {
    count_call();
    return __libc_realloc(old, size);
}

EXPORT void free(void *memory) {
    count_call();
    __libc_free(memory);
}

/* The others call libc's function, which is looked up before anything is watched. */
#define ALL(CALL)                                                                                  \
    CALL(int, pthread_mutex_lock, (pthread_mutex_t * a), (a))                                      \
    CALL(int, pthread_mutex_trylock, (pthread_mutex_t * a), (a))                                   \
    CALL(int, pthread_rwlock_rdlock, (pthread_rwlock_t * a), (a))                                  \
    CALL(int, pthread_rwlock_wrlock, (pthread_rwlock_t * a), (a))                                  \
    CALL(int, pthread_spin_lock, (pthread_spinlock_t * a), (a))                                    \
    CALL(int, pthread_once, (pthread_once_t * a, void (*b)(void)), (a, b))                         \
    CALL(int, pthread_cond_signal, (pthread_cond_t * a), (a))                                      \
    CALL(int, sem_wait, (sem_t * a), (a))                                                          \
    CALL(int, sem_post, (sem_t * a), (a))                                                          \
    CALL(int, dladdr, (const void *a, Dl_info *b), (a, b))                                         \
    CALL(void *, dlsym, (void *a, const char *b), (a, b))                                          \
    CALL(int, dl_iterate_phdr, (int (*a)(struct dl_phdr_info *, size_t, void *), void *b), (a, b)) \
    CALL(ssize_t, write, (int a, const void *b, size_t c), (a, b, c))                              \
    CALL(void *, pthread_getspecific, (pthread_key_t a), (a))

#define DEFINE(type, name, parameters, arguments) \
    static type(*real_##name) parameters;         \
    EXPORT type name parameters {                 \
        count_call();                             \
        return real_##name arguments;             \
    }
#define FIND(type, name, parameters, arguments) \
    real_##name = (__typeof__(real_##name))dlvsym(RTLD_NEXT, #name, version_of(#name));

/* dlsym cannot look itself up. Each function has one of two versions. */
static const char *version_of(const char *name) {
    static const char *const versions[] = {"GLIBC_2.2.5", "GLIBC_2.34"};
    for (int i = 0; i < 2; i++)
        if (dlvsym(RTLD_NEXT, name, versions[i]))
            return versions[i];
    return versions[0];
}

ALL(DEFINE)

/* Runs before all constructors, the guest's included. */
static void find_all(void) {
    ALL(FIND)
}
__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = find_all;

int main(int argc, char **argv) {
    subject_say("ready", 0, 0);
    subject_wait(); /* until a capture runs */
    int64_t end =
        subject_clock(CLOCK_THREAD_CPUTIME_ID) + (argc > 1 ? atoi(argv[1]) : 0) * SUBJECT_MS;
    while (subject_clock(CLOCK_THREAD_CPUTIME_ID) < end) {
        watched = 1;
        for (volatile int i = 0; i < 200000; i++)
            continue;
        watched = 0;
    }
    long by_handlers = seen;
    watched = 1;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* shows that calls are counted */
    free(malloc(1));
    pthread_mutex_lock(&mutex);
    watched = 0;
    subject_say("seen", by_handlers, seen - by_handlers);
    subject_wait();
    return 0;
}
