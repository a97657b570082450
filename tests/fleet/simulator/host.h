/* SPDX-License-Identifier: Apache-2.0
 *
 * One simulated sonded: it records windows of a few processes, keeps them until they are
 * acknowledged, and speaks the messages of Profiler.Collect. It knows nothing of gRPC.
 *
 *     host_advance ─▶ windows kept ─▶ host_next ─▶ CollectResponse
 *                          ▲ acknowledgements, settings
 *                     host_receive ◀─ CollectRequest
 *
 * It follows the protocol, with one more rule than sonded: of the kept windows it drops the oldest
 * that was never sent, so that the sums of what was recorded are known exactly (truth.h).
 *
 * Thread safety: one thread. */
#ifndef SONDE_TESTS_FLEET_SIMULATOR_HOST_H
#define SONDE_TESTS_FLEET_SIMULATOR_HOST_H

#include "api/bytes.h"
#include "api/error.h"
#include "proto/sonde/v1/profiler.pb-c.h"
#include "tests/fleet/simulator/truth.h"

#define HOST_KEEP_BYTES    (16u << 20)
#define HOST_MAX_PROCESSES 16
#define HOST_MAX_WINDOWS   64 /* of a message */
#define HOST_MESSAGE_BYTES (512u << 10)
#define HOST_STATUS_S      60

struct host_row {
    uint32_t stack;  /* of the service's pool */
    uint32_t thread; /* 0 = main, 1 = worker */
    uint32_t samples;
};

struct host_window {
    struct host_window *next, *previous;
    uint64_t seq;
    uint32_t process;
    int event;
    int64_t begin_unix_s;
    uint32_t length_s, merged, dropped;
    uint64_t period_ns;
    double weight;
    bool was_sent;
    uint32_t row_count;
    struct host_row rows[];
};

struct host_process {
    size_t service;
    char instance[33];
    uint32_t pid;
    uint32_t dropped; /* samples, to be reported by the next window */
    uint8_t *stacks;  /* [stack] of the service: 1 = defined on this call, 2 = to be sent again */
    uint8_t functions[POOL_FUNCTIONS]; /* 1 = defined on this call */
    bool is_defined;
};

struct host_fleet {
    struct pool pool;
    struct truth truth;
    uint64_t seed;
    size_t processes;    /* per host */
    uint32_t samples;    /* of a window at 19 Hz, on average */
    uint64_t keep_bytes; /* per host */
};

struct host {
    struct host_fleet *fleet;
    size_t index;
    char name[32], instance[33];
    uint32_t epoch;
    uint64_t source, next_seq;
    int64_t start_unix_s, recorded_until_unix_s; /* on the true clock */
    int64_t clock_step_s;
    struct host_process processes[HOST_MAX_PROCESSES];
    Sonde__V1__CollectSettings *settings; /* NULL = nothing is recorded */
    struct host_window *first, *last;
    uint64_t kept_bytes, acked_seq, keep_bytes;
    uint64_t windows, merged, lost, lost_samples, reported_lost;
    int lies; /* see host_lie */
    /* The call. */
    bool has_call, has_said_hello, has_new_settings, is_resending;
    struct host_window *unsent; /* the next one to send; NULL = all were sent */
    int64_t status_unix_s;
    uint64_t messages, call_windows;
};

void host_init(struct host *host, struct host_fleet *fleet, size_t index, int64_t now_unix_s);
void host_finish(struct host *host);
/* Records what has ended by now. */
void host_advance(struct host *host, int64_t now_unix_s);
/* Another sonded and other processes, as after a reboot: what was kept is lost. */
void host_restart(struct host *host, int64_t now_unix_s);

/* A call begins; the one before has ended. */
void host_connect(struct host *host);
void host_disconnect(struct host *host);
/* SONDE_INVALID_ARGUMENT, SONDE_PROTOCOL (the first request has no start). */
SONDE_MUST_USE sonde_err host_receive(struct host *host, const Sonde__V1__CollectRequest *request,
                                      bool is_first, struct sonde_diag *diag);
/* The next answer, in the arena; NULL = there is nothing now. */
Sonde__V1__CollectResponse *host_next(struct host *host, struct sonde_arena *arena,
                                      int64_t now_unix_s);
/* Sends what was sent but not acknowledged again. */
void host_repeat(struct host *host);

/* Makes the next window (-1) vanish or (1) count twice without telling the truth: for the test of
 * those who compare. */
void host_lie(struct host *host, int lie);

/* settings.c: the values in effect, and the probability of a service; false = no rule matches. */
Sonde__V1__CollectSettings *settings_dup(const Sonde__V1__CollectSettings *wanted);
bool settings_rule(const Sonde__V1__CollectSettings *settings, const char *service,
                   double *probability, uint32_t *frequency_hz);
/* kept.c: the list of windows. */
void kept_add(struct host *host, struct host_window *window);
void kept_acknowledge(struct host *host, uint64_t seq);
void kept_drop_all(struct host *host);
struct truth_sums window_sums(const struct host_window *window);

#endif
