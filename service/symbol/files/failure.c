/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/files/failure.h"

#include "service/symbol/worker/worker.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KIND_MAX 32

static enum symbol_failure_cause cause_of_exit(int code) {
    switch (code) {
    case SYMBOL_WORKER_MEMORY:
        return SYMBOL_FAILURE_MEMORY;
    case SYMBOL_WORKER_IO:
        return SYMBOL_FAILURE_IO;
    case SYMBOL_WORKER_CONFINED:
        return SYMBOL_FAILURE_CONFINED;
    case SYMBOL_WORKER_NO_SPACE:
        return SYMBOL_FAILURE_NO_SPACE;
    case 127: /* posix_spawn's child could not execute the program */
        return SYMBOL_FAILURE_NOT_STARTED;
    case SYMBOL_WORKER_DONE: /* but its table is incomplete */
    default:
        return SYMBOL_FAILURE_BROKEN;
    }
}

/* The kernel sends SIGKILL to a process that exceeds its hard CPU limit, and to one that it chooses
 * when memory runs out. */
static enum symbol_failure_cause cause_of_signal(int number, uint64_t cpu_ms, bool was_late) {
    if (was_late || number == SIGXCPU)
        return SYMBOL_FAILURE_TIME;
    if (number == SIGXFSZ)
        return SYMBOL_FAILURE_IO;
    if (number != SIGKILL)
        return SYMBOL_FAILURE_CRASHED;
    return cpu_ms + 1000 >= SYMBOL_WORKER_CPU_SECONDS * UINT64_C(1000) ? SYMBOL_FAILURE_TIME
                                                                       : SYMBOL_FAILURE_MEMORY;
}

struct symbol_failure symbol_failure_of(int status, uint64_t cpu_ms, bool was_late) {
    struct symbol_failure failure = {.unix_s = time(NULL)};
    if (WIFSIGNALED(status)) {
        failure.signal = WTERMSIG(status);
        failure.cause = cause_of_signal(failure.signal, cpu_ms, was_late);
    } else {
        failure.cause = cause_of_exit(WEXITSTATUS(status));
    }
    return failure;
}

bool symbol_failure_stands(const struct symbol_failure *failure, uint64_t subject) {
    int64_t age_s = time(NULL) - failure->unix_s;
    return failure->cause != SYMBOL_FAILURE_NONE && failure->subject == subject && age_s >= 0 &&
           age_s < SYMBOL_FAILURE_RETRY_S;
}

void symbol_failure_text(const struct symbol_failure *failure, char text[SYMBOL_FAILURE_TEXT]) {
    static const char *const texts[SYMBOL_FAILURE_CAUSES] = {
        [SYMBOL_FAILURE_MEMORY] = "the file needs more memory than the worker may use",
        [SYMBOL_FAILURE_TIME] = "the file needs more time than the worker may use",
        [SYMBOL_FAILURE_CRASHED] = "the worker crashed while reading the file",
        [SYMBOL_FAILURE_BROKEN] = "the file is damaged",
        [SYMBOL_FAILURE_IO] = "cannot write the table: check the free space of the data directory",
        [SYMBOL_FAILURE_CONFINED] = "the worker cannot drop its privileges on this machine",
        [SYMBOL_FAILURE_NOT_STARTED] = "cannot start the worker",
        [SYMBOL_FAILURE_NO_SPACE] = "no space left in the data directory",
    };
    bool is_known = failure->cause > SYMBOL_FAILURE_NONE && failure->cause < SYMBOL_FAILURE_CAUSES;
    text[0] = 0;
    if (is_known && failure->cause == SYMBOL_FAILURE_CRASHED && failure->signal)
        snprintf(text, SYMBOL_FAILURE_TEXT, "%s (signal %d)", texts[failure->cause],
                 failure->signal);
    else if (is_known)
        snprintf(text, SYMBOL_FAILURE_TEXT, "%s", texts[failure->cause]);
}

/* --- saved failures --------------------------------------------------------------------------- */

static void failed_kind(char name[KIND_MAX], const char *kind) {
    snprintf(name, KIND_MAX, "%s-failed", kind);
}

void symbol_failure_save(const struct symbol_cache *cache, const char *identity, const char *kind,
                         const struct symbol_failure *failure) {
    char own[KIND_MAX], name[SYMBOL_CACHE_NAME], text[SYMBOL_FAILURE_TEXT];
    int fd = cache->directory >= 0 ? symbol_cache_begin(cache, name) : -1;
    if (fd < 0)
        return;
    failed_kind(own, kind);
    int len = snprintf(text, sizeof text, "%d %d %" PRId64 " %" PRIx64 "\n", (int)failure->cause,
                       failure->signal, failure->unix_s, failure->subject);
    if (write(fd, text, (size_t)len) != len || !symbol_cache_commit(cache, fd, name, identity, own))
        symbol_cache_abandon(cache, name);
    close(fd);
}

bool symbol_failure_find(const struct symbol_cache *cache, const char *identity, const char *kind,
                         struct symbol_failure *failure) {
    char own[KIND_MAX], text[SYMBOL_FAILURE_TEXT];
    int cause;
    failed_kind(own, kind);
    *failure = (struct symbol_failure){0};
    int fd = symbol_cache_open(cache, identity, own);
    ssize_t len = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = 0;
    if (sscanf(text, "%d %d %" SCNd64 " %" SCNx64, &cause, &failure->signal, &failure->unix_s,
               &failure->subject) != 4 ||
        cause <= SYMBOL_FAILURE_NONE || cause >= SYMBOL_FAILURE_CAUSES)
        return false;
    failure->cause = (enum symbol_failure_cause)cause;
    return true;
}

void symbol_failure_forget(const struct symbol_cache *cache, const char *identity,
                           const char *kind) {
    char own[KIND_MAX];
    failed_kind(own, kind);
    symbol_cache_remove(cache, identity, own);
}
