/* SPDX-License-Identifier: Apache-2.0
 *
 * Pauses between tries: exponential, with jitter, so that hosts that failed together are not tried
 * together. The pause after the n-th failure in a row is random in [d/2, d], d = min(1 s * 2^(n-1),
 * 60 s): "equal jitter" of M. Brooker, "Exponential Backoff And Jitter" (AWS Architecture Blog,
 * 2015). It never tries again at once, unlike a pause in [0, d]. A successful call that lasted
 * BACKOFF_RESET_S or more starts again at 1, so that a host that accepts and then drops every call
 * is not called in a tight loop; the caller counts.
 *
 * Thread safety: any thread. */
#ifndef SONDE_CLIENTS_COLLECT_POLICY_BACKOFF_H
#define SONDE_CLIENTS_COLLECT_POLICY_BACKOFF_H

#include <stdint.h>

#define BACKOFF_FIRST_MS 1000u
#define BACKOFF_MAX_MS   60000u
#define BACKOFF_RESET_S  30

uint32_t backoff_ms(uint32_t failures); /* failures >= 1 */
/* A random time in [0, span_ms), 0 for 0: for the first tries of many hosts. */
uint32_t backoff_jitter_ms(uint32_t span_ms);

#endif
