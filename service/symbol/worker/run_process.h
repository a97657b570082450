/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a process that reads hostile input, and waits for it: the store's worker program, with open
 * files instead of paths. At most SYMBOL_WORKERS (service/symbol/store.h) run at a time, and all
 * are killed when the store ends. Any thread. */
#ifndef SONDE_SERVICE_SYMBOL_WORKER_RUN_PROCESS_H
#define SONDE_SERVICE_SYMBOL_WORKER_RUN_PROCESS_H

#include <stdint.h>

struct symbol_store;

enum symbol_process_end {
    SYMBOL_PROCESS_ENDED, /* it exited or was killed: see status */
    SYMBOL_PROCESS_LATE,  /* it was killed after timeout_ms */
    SYMBOL_PROCESS_NOT_STARTED,
    SYMBOL_PROCESS_STORE_ENDS,
};
struct symbol_process_run {
    enum symbol_process_end end;
    int status; /* as waitpid's */
    uint64_t cpu_ms;
};
/* Runs the program with these arguments (at most 8, NULL-terminated). It gets copies of fds[3] to
 * fds[fd_end - 1] as the descriptors of the same numbers; of /dev/null for -1. */
struct symbol_process_run symbol_process_run(struct symbol_store *store,
                                             const char *const *arguments, const int *fds,
                                             int fd_end, int timeout_ms);

#endif
