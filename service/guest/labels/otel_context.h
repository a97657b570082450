/* SPDX-License-Identifier: Apache-2.0
 *
 * OpenTelemetry's thread context: programs whose tracing library publishes it have an exported
 * thread-local variable, otel_thread_ctx_v1, from which samples get the labels trace_id and
 * span_id. Off unless SONDE_OTEL_CONTEXT=1.
 *
 * The variable is looked for once, when the guest starts, because the loader's lock may not be
 * waited for later. So it must belong to the program or to a library that is loaded at its start,
 * where its place is at the same distance from every thread's descriptor. */
#ifndef SONDE_SERVICE_GUEST_LABELS_OTEL_CONTEXT_H
#define SONDE_SERVICE_GUEST_LABELS_OTEL_CONTEXT_H

/* Sets handler_state.otel_offset. Before the control thread starts. */
void otel_context_find(void);

#endif
