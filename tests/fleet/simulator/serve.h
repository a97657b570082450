/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls of simulated hosts. All hosts share one gRPC server; the address that the controller
 * asked for, 127.0.X.Y, tells them apart: host number 250 * X + Y - 1, for Y from 1 to 250.
 *
 * Thread safety: one thread. */
#ifndef SONDE_TESTS_FLEET_SIMULATOR_SERVE_H
#define SONDE_TESTS_FLEET_SIMULATOR_SERVE_H

#include "clients/c/server/server.h"
#include "tests/fleet/simulator/host.h"

#define SERVE_HOSTS_PER_NET 250
#define SERVE_MAX_HOSTS     10000

struct serve_link;

/* A host, its call, and what is wrong with it. */
struct serve_host {
    struct host host;
    struct serve_link *link; /* NULL = no call */
    uint32_t slow_ms;        /* between messages, in both directions */
    bool is_stalled;         /* neither reads nor sends */
    bool is_down;            /* refuses calls */
    bool sends_garbage;      /* next */
};

struct serve {
    struct host_fleet fleet;
    struct serve_host *hosts;
    size_t count;
    int64_t now_unix_s;                /* of the simulation */
    uint64_t calls, messages, bytes;   /* so far; bytes: packed, without compression */
    uint64_t displaced, acknowledging; /* calls that were displaced; requests with an ack */
};

extern const struct server_method serve_method;

int64_t serve_now_ms(void);
/* Records up to now_unix_s, and sends it. */
void serve_advance(struct serve *serve, int64_t now_unix_s);
/* Sends and reads what waits for its time. Returns whether anything did. */
bool serve_pump(struct serve *serve);
void serve_pump_host(struct serve *serve, struct serve_host *host);
void serve_disconnect(struct serve_host *host, sonde_err err, const char *why);
void serve_restart(struct serve *serve, struct serve_host *host);

#endif
