/* SPDX-License-Identifier: Apache-2.0
 *
 * Delivers the spool to History.Write: in order, repeated until it is acknowledged. Several
 * addresses are instances of sonde-history over one store: each is tried in turn when one fails.
 *
 *     spool ─▶ entries of a segment, joined to requests of at most 4 MiB ─▶ Write ─▶ spool_done
 *
 * Packed requests are joined by concatenation, which protobuf defines as merging. A request whose
 * outcome is unknown (a lost connection, a timeout) is sent again unchanged: the store knows
 * windows by (source, epoch, seq). If History refuses a request for good (INVALID_ARGUMENT), its
 * entries are sent one by one, and those that are refused are lost and counted.
 *
 * Thread safety: one thread creates, stops and destroys; deliver_state from any thread. */
#ifndef SONDE_CLIENTS_COLLECT_SPOOL_DELIVER_H
#define SONDE_CLIENTS_COLLECT_SPOOL_DELIVER_H

#include "clients/collect/spool/spool.h"

#define DELIVER_DEADLINE_MS  150000u /* longer than any insert of the store may take */
#define DELIVER_MAX_RETRY_MS 30000u  /* between two tries; see policy/backoff.h */
#define DELIVER_SWITCH_MS    120000u /* after which another instance gets an unanswered request */

struct deliver;

struct deliver_options {
    struct spool *spool;
    const char *const *addresses; /* of History */
    size_t address_count;
    const char *server_name;       /* as in client.h */
    struct token_file *token_file; /* NULL = none; it must outlive this */
    struct tls_files *tls;         /* the same */
    /* The store lacks these stacks of windows from these sources: ask the hosts. Not more than once
     * a minute for the same stack. On the deliverer's thread. */
    void (*on_unknown)(void *context, const uint64_t *sources, size_t source_count,
                       const uint64_t *stacks, size_t stack_count);
    void *context;
    void (*log)(const char *line);
};

struct deliver_state {
    uint64_t windows_stored, duplicates, rejected; /* as History counts them */
    uint64_t refused_windows;                      /* in entries that History refuses */
    uint64_t requests, retries;
    char address[300]; /* in use */
    char trouble[256]; /* why nothing is delivered; "" = all is well */
};

SONDE_MUST_USE sonde_err deliver_create(const struct deliver_options *options,
                                        struct deliver **deliver, struct sonde_diag *diag);
void deliver_state(struct deliver *deliver, struct deliver_state *state);
/* Ends the call that runs; what is not acknowledged stays in the spool. NULL is fine. */
void deliver_destroy(struct deliver *deliver);

#endif
