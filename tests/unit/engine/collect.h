/* SPDX-License-Identifier: Apache-2.0
 *
 * Collects a capture's events, checks their order, and lets the test wait for them. Also creates a
 * directory for a socket. */
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
    char clock[24], clock_note[320];
    uint32_t profile_count, progress_count, end_count, overlaps;
    bool is_inside;
    sonde_err err;
    struct sonde_diag diag;
    struct engine_progress progress; /* the last event; `hottest` is copied */
    char hottest[256];
};

extern const struct engine_capture_events collect_events;
void collect_init(struct collected *collected);
/* Waits up to 30 s for the end, or for a number of profiles; otherwise fails the test. */
void collect_wait_end(struct collected *collected);
bool collect_has_ended(struct collected *collected);
void collect_wait_profiles(struct collected *collected, uint32_t count);
void collect_wait_progress(struct collected *collected, uint32_t count);
/* The hottest function of the last progress event; valid until the next call. */
const char *collect_hottest(struct collected *collected);
void collect_finish(struct collected *collected);

/* The sum of value 0 over the samples with a frame of that function; NULL = all samples. */
int64_t collect_sum(const struct sonde_profile *profile, const char *function);
/* The comment that begins with that text; "" when there is none. */
const char *collect_comment(const struct sonde_profile *profile, const char *start);

struct place {
    char dir[32], socket[64], data[64];
};
void place_make(struct place *place);
void place_remove(struct place *place);
/* Creates an engine there, which prefers guests. */
struct engine *place_engine(const struct place *place);
/* Waits until the engine has handled the fake guest's CpuState with that sequence. Captures count
 * from then on. */
void wait_for_state(struct engine *engine, uint32_t sequence);

#endif
