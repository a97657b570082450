/* SPDX-License-Identifier: Apache-2.0
 *
 * The fake engine's targets, profiles, sessions and symbols. */
#ifndef SONDE_TESTS_UNIT_RPC_FAKE_PARTS_H
#define SONDE_TESTS_UNIT_RPC_FAKE_PARTS_H

#include "service/engine/engine.h"

/* `stacks` stacks of 10 samples and 10 ms each: main → f<first>, main → f<first + 1> ... The first
 * one has an inlined frame in its leaf; every function's file is "demo.c". */
struct sonde_profile *fake_profile(uint32_t first, uint32_t stacks, uint32_t name_len);

/* Gives such a profile a timeline: all samples of stack i are in bin i, one bin per stack. */
void fake_timeline(struct sonde_profile *profile);

/* `stacks` stacks of 1,000 objects and 3,000 bytes each. The period is sample_bytes; a comment has
 * the probability. */
struct sonde_profile *fake_allocs(const struct engine_allocs_spec *spec, uint32_t stacks);

void fake_target(struct engine_target *target, const char *name, pid_t pid);
SONDE_MUST_USE sonde_err fake_find(const struct engine_target *targets, size_t count,
                                   const struct engine_selector *selector,
                                   struct engine_target *found, struct sonde_diag *diag);

/* The targets that have a guest, or all; the caller frees the copy. */
struct engine_target *fake_copy(const struct engine_target *targets, size_t target_count, bool all,
                                size_t *count);
/* For fake_engine_last_request. */
void fake_note_request(const struct engine_selector *selector, enum engine_source source);

struct fake_session {
    bool is_running, was_started;
    struct engine_session_info info;
};
SONDE_MUST_USE sonde_err fake_session_start(struct fake_session *session, uint32_t lease_ms,
                                            const char *owner, int64_t now_ns,
                                            struct engine_session_info *info,
                                            struct sonde_diag *diag);

/* The CPU session was never started. */
void fake_session_forget(void);

/* Resolves addresses on a worker: odd ones are "odd\xff" in "demo", even ones have no name. */
struct fake_symbols {
    struct engine_work work;
    engine_on_symbols *on_answer;
    void *context;
    bool return_addresses;
    size_t count;
    uint64_t addresses[];
};
struct fake_symbols *fake_symbols_create(const uint64_t *addresses, size_t count,
                                         bool return_addresses);

#endif
