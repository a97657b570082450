/* SPDX-License-Identifier: Apache-2.0
 *
 * The fleet controller: connects to the hosts that it has, keeps what they send in the spool, and
 * acknowledges it to them.
 *
 *     discovery ──▶ hosts ──▶ link: one call of Collect per host
 *                              │ decode (host/decode.h)
 *     budget ── settings ──▶ link ◀── acknowledgements ── spool ──▶ deliver ──▶ History
 *
 * Threads: callbacks of calls run on the client loop's thread, `durable` on the spool's, lists of
 * hosts on discovery's; controller_tick and the rest on the main thread. One lock guards the
 * controller and its hosts. */
#ifndef SONDE_CLIENTS_COLLECT_CONTROLLER_CONTROLLER_H
#define SONDE_CLIENTS_COLLECT_CONTROLLER_CONTROLLER_H

#include "clients/c/client.h"
#include "clients/collect/discovery/discovery.h"
#include "clients/collect/policy/budget.h"
#include "clients/collect/spool/deliver.h"
#include "clients/collect/spool/spool.h"
#include "proto/sonde/v1/profiler.pb-c.h"

#define CONTROLLER_TICK_MS      100
#define CONTROLLER_HELLO_S      20  /* until a host must have said hello */
#define CONTROLLER_SILENT_S     200 /* hosts send their status each minute */
#define CONTROLLER_MAX_STARTS   64  /* calls that are started in one tick */
#define CONTROLLER_MAX_WAITING  256 /* calls that have no answer yet; others start later */
#define CONTROLLER_LINES        20  /* about single hosts, in a minute */
#define CONTROLLER_MAX_SERVICES 256 /* names that are remembered per host */

struct controller;

struct controller_options {
    const char *name, *session;
    struct token_file *token_file; /* for calls to hosts; NULL = none. It must outlive this */
    struct tls_files *tls;         /* the same */
    const char *pause_dir;         /* where the kill switch's file is */
    const Sonde__V1__CollectSettings *settings; /* without rules; must outlive it */
    uint32_t breaker_percent;
    struct client_loop *loop;
    struct spool *spool;
    struct budget *budget; /* the controller takes it */
    void (*log)(const char *line);
};

SONDE_MUST_USE sonde_err controller_create(const struct controller_options *options,
                                           struct controller **controller, struct sonde_diag *diag);
/* For reports; NULL until it is set. */
void controller_set_deliver(struct controller *controller, struct deliver *deliver);
/* The hosts of all sources; replaces the list before. */
void controller_set_hosts(struct controller *controller, const struct discovered_hosts *hosts);

/* Several controllers share the hosts: from now on this one calls only its own, which it knows
 * after controller_set_members. options.name is its name among them. */
void controller_share(struct controller *controller);
/* The group's members, sorted. */
void controller_set_members(struct controller *controller, const char *const *names, size_t count);

/* Another budget file; takes it. */
void controller_set_budget(struct controller *controller, struct budget *budget);
/* What deliver_options.on_unknown reports. */
void controller_ask_stacks(struct controller *controller, const uint64_t *sources,
                           size_t source_count, const uint64_t *stacks, size_t stack_count);

/* Starts and ends what is due. Every CONTROLLER_TICK_MS. */
void controller_tick(struct controller *controller);
/* Ends the calls and waits for their ends. */
void controller_stop(struct controller *controller);
/* After controller_stop, and after the spool was closed. NULL is fine. */
void controller_destroy(struct controller *controller);

#endif
