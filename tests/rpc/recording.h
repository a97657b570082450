/* SPDX-License-Identifier: Apache-2.0
 *
 * WriteRequests for tests: windows of made-up processes, with the stacks and frames they refer to.
 *
 *     struct recording *recording = recording_create();
 *     recording_window(recording, &(struct recorded){.service = "redis", .begin_unix_s = 1000});
 *     recording_row(recording, "main;serve;read", "io", 3000);
 *     ... recording_request(recording) ...
 *
 * A window is 10 s long and an hour after 1970 unless it says otherwise. Functions are in the
 * module "/bin/SERVICE". Thread safety: one thread at a time. */
#ifndef SONDE_TESTS_RPC_RECORDING_H
#define SONDE_TESTS_RPC_RECORDING_H

#include "proto/sonde/v1/history.pb-c.h"

struct recording;

struct recorded {
    const char *service, *event, *host; /* NULL = "redis", "on-cpu", "alpha" */
    const char *pod;                    /* a label; NULL = none */
    uint32_t pid;                       /* 0 = 1 */
    int64_t begin_unix_s;
    uint64_t seq; /* of source 1, epoch 1; 0 = one that was not used yet */
    double weight;
};

struct recording *recording_create(void);
void recording_destroy(struct recording *recording);
Sonde__V1__StoredWindow *recording_window(struct recording *recording, const struct recorded *what);
/* A row of the last window: `stack` lists functions, outermost first. */
void recording_row(struct recording *recording, const char *stack, const char *thread,
                   int64_t value);
/* CPU time of a thread in the 10 s from begin_unix_s; thread "" = the main thread. */
void recording_total(struct recording *recording, const char *host, int64_t begin_unix_s,
                     const char *process, const char *thread, int64_t cpu_ns);
/* Borrowed; may be changed. */
Sonde__V1__WriteRequest *recording_request(struct recording *recording);

#endif
