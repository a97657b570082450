/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends changes to a URL, one POST of JSON each: a sonde.v1.Change as /v1/history/changes has it.
 *
 *     watcher's thread ── texts ──▶ queue ──▶ webhook's thread ── POST ──▶ receiver
 *
 * A request that may succeed later is repeated with growing pauses: one without an answer in time,
 * and one that was answered 408, 429 or 5xx. Redirects are not followed, because the change would
 * go to somebody else. What is lost is counted by cause, and each cause is logged once. Thread
 * safety: one thread creates and destroys; the rest, any thread. */
#ifndef SONDE_SERVICE_WATCH_WEBHOOK_H
#define SONDE_SERVICE_WATCH_WEBHOOK_H

#include "api/bytes.h"
#include "api/error.h"

#include <stdint.h>

#define WEBHOOK_QUEUE        256    /* changes; further ones are lost */
#define WEBHOOK_TRIES        10     /* of a change */
#define WEBHOOK_DEADLINE_MS  10000u /* of a request */
#define WEBHOOK_RETRY_MS     1000u  /* the first pause; it doubles */
#define WEBHOOK_MAX_RETRY_MS 300000u

enum webhook_loss {
    WEBHOOK_QUEUE_FULL,
    WEBHOOK_REFUSED,  /* by the receiver, for good; or it redirects */
    WEBHOOK_GIVEN_UP, /* after WEBHOOK_TRIES */
    WEBHOOK_SHUTDOWN, /* not sent before the service ended */
    WEBHOOK_LOSSES
};
extern const char *const webhook_loss_names[WEBHOOK_LOSSES]; /* "queue_full" */

struct webhook_options {
    const char *url;                /* may have a secret in its path; never logged */
    uint32_t retry_ms, deadline_ms; /* 0 = WEBHOOK_RETRY_MS, WEBHOOK_DEADLINE_MS */
    void (*log)(const char *line);
};

struct webhook_state {
    char receiver[320]; /* "https://HOST" */
    uint64_t sent, retries, lost[WEBHOOK_LOSSES];
    char trouble[256]; /* why nothing is sent at the moment; "" = all is well */
};

struct webhook;

/* Whether it is a URL that can be posted to. SONDE_INVALID_ARGUMENT. */
SONDE_MUST_USE sonde_err webhook_check(const char *url, struct sonde_diag *diag);
/* SONDE_INVALID_ARGUMENT: the URL; SONDE_NOT_AVAILABLE: there is no libcurl. */
SONDE_MUST_USE sonde_err webhook_create(const struct webhook_options *options,
                                        struct webhook **webhook, struct sonde_diag *diag);
void webhook_add(struct webhook *webhook, struct sonde_slice json);
void webhook_state(struct webhook *webhook, struct webhook_state *state);
/* Ends a running request and drops the rest. NULL is fine. */
void webhook_destroy(struct webhook *webhook);

#endif
