/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends what was recorded to one receiver.
 *
 *     engine's workers ── records ──▶ queue ──▶ sender's thread ── requests ──▶ receiver
 *
 * A request that may succeed later is repeated with growing, random pauses, or after the pause that
 * the receiver asks for; meanwhile the queue fills up. What is lost is counted by cause, and each
 * cause is logged once. A request that is larger than the receiver accepts is halved.
 *
 * Thread safety: one thread creates, stops and destroys; the rest, any thread. */
#ifndef SONDE_SERVICE_EXPORT_SENDER_H
#define SONDE_SERVICE_EXPORT_SENDER_H

#include "service/export/protocol.h"
#include "service/export/transport.h"

#define SENDER_QUEUE_BYTES  (64u << 20)
#define SENDER_DEADLINE_MS  30000u /* of a request */
#define SENDER_RETRY_MS     1000u  /* the first pause; it doubles */
#define SENDER_MAX_RETRY_MS 30000u
#define SENDER_MAX_TIMEOUTS 5 /* a request that got no answer so often is given up */

/* Why profiles are lost. */
enum sender_loss {
    LOSS_QUEUE_FULL, /* the receiver is away or too slow */
    LOSS_REFUSED,    /* by the receiver, for good */
    LOSS_REJECTED,   /* OTLP's partial_success */
    LOSS_TIMEOUT,    /* SENDER_MAX_TIMEOUTS */
    LOSS_TOO_LARGE,  /* one sample is larger than the receiver accepts */
    LOSS_MEMORY,
    LOSS_SHUTDOWN, /* not sent before the service ended */
    LOSS_CAUSES
};
extern const char *const sender_loss_names[LOSS_CAUSES]; /* "queue_full" */

struct sender_options {
    const struct export_protocol *protocol;
    struct transport *transport;    /* the sender destroys it, also if it cannot be created */
    const char *shown;              /* the receiver, for people; copied */
    const char *host;               /* this machine's name; copied */
    size_t queue_bytes;             /* 0 = SENDER_QUEUE_BYTES */
    uint32_t retry_ms, deadline_ms; /* 0 = SENDER_RETRY_MS, SENDER_DEADLINE_MS */
    void (*log)(const char *line);
};

struct sender_state {
    const char *name, *shown; /* of the protocol and the receiver; as long as the sender */
    uint64_t sent;            /* profiles that the receiver accepted */
    uint64_t retries;
    uint64_t lost[LOSS_CAUSES]; /* profiles */
    uint64_t queue_bytes;
    char trouble[256]; /* why nothing is sent at the moment; "" = all is well */
};

struct sender;

SONDE_MUST_USE sonde_err sender_create(const struct sender_options *options, struct sender **sender,
                                       struct sonde_diag *diag);
/* Takes record->profile; the rest is copied. */
void sender_add(struct sender *sender, const struct record *record);
void sender_state(struct sender *sender, struct sender_state *state);
/* Sends what waits, until CLOCK_MONOTONIC is `until_ns`, and drops the rest. */
void sender_stop(struct sender *sender, int64_t until_ns);
/* Stops without waiting if sender_stop has not been called. NULL is fine. */
void sender_destroy(struct sender *sender);

#endif
