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
    case 127: /* posix_spawn's child could not become the program */
        return SYMBOL_FAILURE_NOT_STARTED;
    case SYMBOL_WORKER_DONE: /* it says so, but its table is not whole */
    default:
        return SYMBOL_FAILURE_BROKEN;
    }
}

/* The kernel ends with SIGKILL who is over the hard limit of CPU time, and whom it needs the memory
 * of. */
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
        [SYMBOL_FAILURE_MEMORY] = "the converter was over its bound of memory",
        [SYMBOL_FAILURE_TIME] = "the converter was over its bound of time",
        [SYMBOL_FAILURE_CRASHED] = "the converter was ended by the file",
        [SYMBOL_FAILURE_BROKEN] = "the file is damaged: the converter could not read it",
        [SYMBOL_FAILURE_IO] = "the table could not be written: is the data directory's disk full?",
        [SYMBOL_FAILURE_CONFINED] = "the converter could not give up its rights, and did not begin",
        [SYMBOL_FAILURE_NOT_STARTED] = "the converter could not be started",
        [SYMBOL_FAILURE_NO_SPACE] = "no space left in the data directory for the converter's work",
    };
    bool is_known = failure->cause > SYMBOL_FAILURE_NONE && failure->cause < SYMBOL_FAILURE_CAUSES;
    text[0] = 0;
    if (is_known && failure->cause == SYMBOL_FAILURE_CRASHED && failure->signal)
        snprintf(text, SYMBOL_FAILURE_TEXT, "%s (signal %d)", texts[failure->cause],
                 failure->signal);
    else if (is_known)
        snprintf(text, SYMBOL_FAILURE_TEXT, "%s", texts[failure->cause]);
}

/* --- beside the tables -------------------------------------------------------------------------
 */

static void kind_name(char name[KIND_MAX], const char *kind) {
    snprintf(name, KIND_MAX, "%s-failed", kind);
}

void symbol_failure_keep(const struct symbol_cache *cache, const char *identity, const char *kind,
                         const struct symbol_failure *failure) {
    char own[KIND_MAX], name[SYMBOL_CACHE_NAME], text[SYMBOL_FAILURE_TEXT];
    int fd = cache->directory >= 0 ? symbol_cache_begin(cache, name) : -1;
    if (fd < 0)
        return;
    kind_name(own, kind);
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
    kind_name(own, kind);
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
    kind_name(own, kind);
    symbol_cache_remove(cache, identity, own);
}
