/* SPDX-License-Identifier: Apache-2.0
 *
 * A real engine, and a real program with the guest preloaded that a test controls. Requests wait
 * for their answer. */
#ifndef SONDE_TESTS_UNIT_ENGINE_HEAP_STAGE_H
#define SONDE_TESTS_UNIT_ENGINE_HEAP_STAGE_H

#include "service/engine/heap/heap.h"
#include "tests/unit/check.h"
#include "tests/unit/engine/collect.h"

#define STAGE_PROF "prof:true,prof_active:false,lg_prof_sample:16"

struct stage {
    struct place place;
    struct engine *engine;
    struct engine_selector target;
    pid_t pid;
    int to, from; /* its stdin and stdout */
};

/* conf: MALLOC_CONF; NULL = none. command: a NULL-terminated list; NULL = the holder. */
void stage_init(struct stage *stage, const char *conf, const char *const *command);
/* For a program that links or loads the guest: nothing is preloaded. */
void stage_init_linked(struct stage *stage, const char *const *command);
void stage_finish(struct stage *stage);
/* Sends a command to the holder and waits until it is done. */
void stage_tell(struct stage *stage, char letter);
/* Destroys the engine, creates another in the same directory, and waits for the program to attach.
 */
void stage_restart_engine(struct stage *stage);
void stage_wait_attached(struct stage *stage);

struct asked {
    sonde_err err;
    struct sonde_diag diag;
    struct engine_heap_state state;
    struct engine_heap_dump dumps[64];
    size_t dump_count;
};
/* Sets the request's target. */
struct asked stage_ask(struct stage *stage, struct engine_heap_request request);
struct asked stage_ask_verb(struct stage *stage, enum engine_heap_verb verb);

struct got {
    sonde_err err;
    struct sonde_diag diag;
    struct engine_heap_result result;
};
struct got stage_get(struct stage *stage, struct engine_heap_query query);
void got_finish(struct got *got);
/* The sum of the values of a type over the samples with that function in their stack. */
int64_t profile_sum(const struct sonde_profile *profile, const char *type, const char *function);
/* For inuse_space. */
int64_t profile_bytes(const struct sonde_profile *profile, const char *function);
/* Name of the innermost function of a sample; "" when there is none. */
const char *profile_leaf(const struct sonde_profile *profile, size_t sample);

#endif
