/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/quiescence.h"

#include "service/guest/heap/alloc_backtrace.h"
#include "service/guest/sampling/sampled_threads.h"

#include <time.h>

bool quiescence_reached(void) {
    return handler_is_quiescent(sampled_threads_limit()) && alloc_backtrace_is_quiescent();
}

bool quiescence_wait(int tries) {
    const struct timespec moment = {0, 1000000};
    for (; tries > 0; tries--) {
        if (quiescence_reached())
            return true;
        nanosleep(&moment, NULL);
    }
    return false;
}
