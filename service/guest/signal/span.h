/* SPDX-License-Identifier: Apache-2.0
 *
 * The span that the calling thread works on, as OpenTelemetry's thread context (OTEP 4947) tells
 * it: a thread-local pointer to
 *
 *     trace_id[16], span_id[8], valid, reserved, size of attributes (2 bytes), attributes
 *
 * The thread writes it and its own handler reads it, so `valid` alone says whether it is complete.
 * The pointer is the program's: it is checked before it is followed. */
#ifndef SONDE_SERVICE_GUEST_SIGNAL_SPAN_H
#define SONDE_SERVICE_GUEST_SIGNAL_SPAN_H

#include "service/guest/signal/handler_state.h"

#pragma GCC visibility push(hidden)

/* Records the span, if there is one, and sets *request to its number for ring_sample.request.
 * Returns false if there was no room; that counts as a drop of weight_ns. */
SONDE_SIGSAFE
bool span_push(uint32_t tid, uint64_t weight_ns, uint64_t *request);

#pragma GCC visibility pop

#endif
