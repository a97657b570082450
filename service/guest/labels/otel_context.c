/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/labels/otel_context.h"

#include "service/guest/libc.h"
#include "service/guest/signal/handler_state.h"

#include <stdlib.h>
#include <string.h>

/* Thread-local storage that was laid out at the program's start lies directly below the descriptor,
 * or above it on some machines. A block that was allocated later is elsewhere, and differs from
 * thread to thread. */
#define MAX_DISTANCE 65536

void otel_context_find(void) {
    const char *wanted = getenv("SONDE_OTEL_CONTEXT");
    if (!wanted || strcmp(wanted, "1") != 0)
        return;
    uint64_t variable = (uint64_t)libc_find("otel_thread_ctx_v1");
    uint64_t descriptor = system_thread_descriptor();
    uint64_t distance = SYSTEM_TLS_IS_BELOW ? descriptor - variable : variable - descriptor;
    if (!variable || distance - 1 >= MAX_DISTANCE)
        return;
    handler_state.otel_offset = (int64_t)(variable - descriptor);
    atomic_store(&handler_state.uses_labels, true);
}
