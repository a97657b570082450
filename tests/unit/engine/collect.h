/* SPDX-License-Identifier: Apache-2.0
 *
 * Gathers a capture's events, checks their order, and lets the test wait for them. And a directory
 * with a socket path. */
#ifndef SONDE_TESTS_UNIT_ENGINE_COLLECT_H
#define SONDE_TESTS_UNIT_ENGINE_COLLECT_H

#include "service/engine/engine.h"

#include <pthread.h>

#define COLLECT_MAX 64

struct collected {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct sonde_profile *profiles[COLLECT_MAX];
    struct engine_metadata metadata[COLLECT_MAX];
    char clock[24];
    uint32_t profile_count, progress_count, end_count, overlaps;
    bool is_inside;
    sonde_err err;
    struct sonde_diag diag;
    struct engine_progress progress; /* the last; hottest is copied */
    char hottest[256];
};

extern const struct engine_capture_events collect_events;
void collect_init(struct collected *collected);
/* Waits (30 s at most) for the end, or for so many profiles; fails the test otherwise. */
void collect_wait_end(struct collected *collected);
void collect_wait_profiles(struct collected *collected, uint32_t count);
void collect_wait_progress(struct collected *collected, uint32_t count);
/* The hottest function of the last progress event; valid until the next call. */
const char *collect_hottest(struct collected *collected);
void collect_finish(struct collected *collected);

/* Sum of value 0 of the samples that have a frame of that function name; NULL = all. */
int64_t collect_sum(const struct sonde_profile *profile, const char *function);
/* The comment that begins so, "" when there is none. */
const char *collect_comment(const struct sonde_profile *profile, const char *start);

struct place {
    char dir[32], socket[64], data[64];
};
void place_make(struct place *place);
void place_remove(struct place *place);
/* An engine there, ready. */
struct engine *place_engine(const struct place *place);
/* Waits until the engine has taken over the fake guest's CpuState of that sequence: captures count
 * from then on. */
void wait_for_state(struct engine *engine, uint32_t sequence);

#endif
