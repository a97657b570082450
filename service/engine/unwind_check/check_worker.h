/* SPDX-License-Identifier: Apache-2.0
 *
 * The process that walks copied stacks with libunwind and compares its frames with ours. It is the
 * service's own program with CHECK_ARGUMENT as its first argument. It is confined like the workers
 * that read symbols (service/symbol/worker/confine.h), before it reads the first byte. libunwind
 * has to be installed. */
#ifndef SONDE_SERVICE_ENGINE_UNWIND_CHECK_CHECK_WORKER_H
#define SONDE_SERVICE_ENGINE_UNWIND_CHECK_CHECK_WORKER_H

#include <stdbool.h>
#include <stddef.h>

#define CHECK_ARGUMENT "--unwind-check"

enum check_exit {
    CHECK_DONE = 0,
    CHECK_BROKEN = 10,
    CHECK_NO_MEMORY,
    CHECK_NOT_CONFINED,
    CHECK_NO_LIBUNWIND
};

/* Call these first in main, before any thread is started. */
bool check_worker_is_asked(int argc, char **argv);
int check_worker_main(void); /* does not return */
/* The comparison itself, in memory of the format of check_format.h; for tests, too. */
enum check_exit check_compare(void *memory, size_t bytes);

#endif
