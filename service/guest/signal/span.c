/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/signal/span.h"

#include "service/guest/signal/bounds.h"
#include "service/guest/signal/push.h"

#include <string.h>

struct thread_context {
    uint8_t trace_id[16], span_id[8];
    uint8_t valid;
};

static const struct thread_context *find_context(void) {
    uint64_t variable = system_thread_descriptor() + (uint64_t)handler_state.otel_offset;
    uint64_t context = *(const volatile uint64_t *)variable;
    uint64_t end = context + sizeof(struct thread_context);
    if (context == 0 || end < context || bounds_probe(context, end) < end)
        return NULL;
    return (const struct thread_context *)context;
}

/* A hash, not 0. */
static uint64_t number_of(const struct thread_context *context) {
    uint64_t words[3];
    memcpy(words, context, sizeof words);
    uint64_t number = words[2] ^ words[0] ^ (words[1] << 32 | words[1] >> 32);
    return number ? number : 1;
}

bool span_push(uint32_t tid, uint64_t weight_ns, uint64_t *request) {
    const struct thread_context *context = handler_state.otel_offset ? find_context() : NULL;
    if (!context || *(const volatile uint8_t *)&context->valid != 1)
        return true;
    struct ring_record *record =
        ring_reserve(&handler_state.rings, tid, sizeof(struct ring_span), weight_ns);
    if (!record)
        return false;
    struct ring_span *span = (struct ring_span *)record;
    *request = number_of(context);
    record->kind = RING_RECORD_SPAN;
    span->request = *request;
    memcpy(span->trace_id, context->trace_id, sizeof span->trace_id);
    memcpy(span->span_id, context->span_id, sizeof span->span_id);
    ring_publish(record, sizeof *span);
    return true;
}
