/* SPDX-License-Identifier: Apache-2.0
 *
 * The breaker stops the controller from trying further hosts while too many fail, because then the
 * fault is most likely not the hosts': a network, a certificate, this controller. Google-Wide
 * Profiling stops in the same way when its failure rate passes a threshold (Ren et al., IEEE Micro
 * 30/4, 2010).
 *
 * Each host counts once, with its last outcome. A success counts until something else is reported,
 * because the host stays connected; a failure counts for BREAKER_WINDOW_S. The share of failures is
 *
 *     failed / (failed + connected), of at least BREAKER_MIN_HOSTS hosts
 *
 * The breaker opens when the share is more than limit_percent. Then only one host is tried every
 * BREAKER_PROBE_S, and another one as soon as that succeeds. It closes when the share is at most
 * half of the limit and the last outcome was a success, or when no failure counts any more. Old
 * failures stop counting after BREAKER_WINDOW_S, so that 10,000 hosts need not be probed one by
 * one; the probe's success is asked for so that the breaker stays open while nothing has changed.
 * Hosts that are connected stay connected.
 *
 * At most BREAKER_MAX_HOSTS hosts are counted; the outcomes of others are ignored.
 *
 * Thread safety: one thread. */
#ifndef SONDE_CLIENTS_COLLECT_POLICY_BREAKER_H
#define SONDE_CLIENTS_COLLECT_POLICY_BREAKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BREAKER_WINDOW_S  120
#define BREAKER_MIN_HOSTS 10
#define BREAKER_PROBE_S   5
#define BREAKER_MAX_HOSTS 200000

struct breaker;

struct breaker *breaker_create(uint32_t limit_percent); /* 1 to 100; NULL when out of memory */
void breaker_destroy(struct breaker *breaker);          /* NULL is fine */
/* The outcome of a try, or the loss of a connection (a failure). host: any number that identifies
 * it. */
void breaker_report(struct breaker *breaker, uint64_t host, bool is_failure, int64_t now_ms);
/* The host is not tried any more. */
void breaker_forget(struct breaker *breaker, uint64_t host);
/* Whether a host may be tried now; while the breaker is open, a true uses up the probe. */
bool breaker_allows(struct breaker *breaker, int64_t now_ms);
bool breaker_is_open(struct breaker *breaker, int64_t now_ms);
/* "3 of 100 hosts fail (limit 20 %)". Returns text. */
const char *breaker_text(struct breaker *breaker, int64_t now_ms, char *text, size_t size);

#endif
