/* SPDX-License-Identifier: Apache-2.0
 *
 * Pauses between tries: exponential, with jitter, so that hosts that failed together are not tried
 * together. The pause after the n-th failure in a row is random in [d/2, d], d =
 * min(first * 2^(n-1), max), where first is 1 s, or max / 8 if that is less: "equal jitter" of M.
 * Brooker, "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015). It never tries again at
 * once, unlike a pause in [0, d]. A successful call that lasted BACKOFF_RESET_S or more starts
 * again at 1, so that a host that accepts and then drops every call is not called in a tight loop;
 * the caller counts.
 *
 * Thread safety: any thread. */
#ifndef SONDE_CLIENTS_COLLECT_POLICY_BACKOFF_H
#define SONDE_CLIENTS_COLLECT_POLICY_BACKOFF_H

#include <stddef.h>
#include <stdint.h>

#define BACKOFF_FIRST_MS  1000u
#define BACKOFF_MAX_MS    60000u
#define BACKOFF_SPREAD_MS 10000u
#define BACKOFF_RESET_S   5

uint32_t backoff_ms(uint32_t failures, uint32_t max_ms); /* failures >= 1 */
/* The longest pause in a fleet. Tries cost little in a small one, so a host that is back is soon
 * recorded again: 4 s for a few hosts, BACKOFF_MAX_MS for 10,000. */
uint32_t backoff_max_ms(size_t hosts);
/* The time within which a fleet's first calls begin: 1 ms for each host, BACKOFF_SPREAD_MS at most.
 */
uint32_t backoff_spread_ms(size_t hosts);
/* A random time in [0, span_ms), 0 for 0: for the first tries of many hosts. */
uint32_t backoff_jitter_ms(uint32_t span_ms);

#endif
