/* SPDX-License-Identifier: Apache-2.0
 *
 * Heap profiling of a target, one state for everybody who asks. The target's allocator samples, or
 * the guest in the place of malloc (INTERPOSED), which sees what is allocated since; here is who
 * switched it on and until when, the periodic dumps that are kept, and the way from a dump to a
 * profile. What the target says now is asked each time, so that an answer holds however sampling
 * was switched.
 *
 * As in engine.h: any thread may ask, nobody waits, refusals that need no target's word come back
 * at once, everything else by one event. */
#ifndef SONDE_SERVICE_ENGINE_HEAP_HEAP_H
#define SONDE_SERVICE_ENGINE_HEAP_HEAP_H

#include "service/engine/engine.h"

#define ENGINE_HEAP_MAX_INTERVAL_S 86400u
#define ENGINE_HEAP_MIN_SAMPLE     4096u
#define ENGINE_HEAP_MAX_SAMPLE     (1ull << 40)
#define ENGINE_HEAP_MAX_DUMPS      10000u
#define ENGINE_HEAP_NAME_BYTES     12u /* "NNNNNN.heap" */

enum engine_heap_verb {
    ENGINE_HEAP_STATUS,
    ENGINE_HEAP_ACTIVATE,
    ENGINE_HEAP_DEACTIVATE,
    ENGINE_HEAP_RESET,
    ENGINE_HEAP_GDUMP_ON,
    ENGINE_HEAP_GDUMP_OFF,
    ENGINE_HEAP_LIST, /* asks nobody but sonded */
    ENGINE_HEAP_VERBS
};

enum engine_heap_backend {
    ENGINE_HEAP_NONE = 0,
    ENGINE_HEAP_JEMALLOC = 1,
    ENGINE_HEAP_INTERPOSED = 2, /* our own sampler */
};

struct engine_heap_request {
    enum engine_heap_verb verb;
    struct engine_selector target;
    uint64_t sample_bytes;            /* ACTIVATE, RESET: 0 = as it is; rounded to a power of two */
    enum engine_heap_backend backend; /* ACTIVATE: 0 = the best there is: JEMALLOC where it can */
    uint32_t interval_s;              /* ACTIVATE, as the next four; 0 = no periodic dumps */
    uint32_t keep_dumps;              /* 0 = 100 */
    uint64_t keep_bytes;              /* 0 = 1 GiB */
    uint32_t lease_ms;                /* 0 = for ever */
    const char *owner;                /* NULL or at most 64 bytes */
    bool delete_dumps;                /* DEACTIVATE */
};

struct engine_heap_state {
    enum engine_heap_backend backend; /* the active one; inactive: the one that would be chosen */
    bool available, active;
    bool was_active; /* before the request */
    bool gdump, accumulates;
    char note[320], owner[65], last_failure[160];
    int64_t active_since_unix_ns, lease_until_unix_ns; /* 0 = not known, no lease */
    uint32_t interval_s, dumps, dump_failures;
    uint64_t sample_bytes, epoch, dump_bytes;
    uint64_t gdump_skipped; /* since activation, dropped by the rate limits */
    uint64_t dropped;       /* INTERPOSED: samples its tables had no room for, since activation */
};

struct engine_heap_dump {
    char name[ENGINE_HEAP_NAME_BYTES];
    int64_t unix_ns;
    uint64_t bytes, epoch;
};

/* Once. err != SONDE_OK: state and dumps are NULL. dumps: those kept, newest first. Errors:
 * NOT_AVAILABLE (no jemalloc with prof:true, with the line to set; or the target does not answer),
 * SESSION_BUSY, TARGET_GONE, IO. */
typedef void engine_on_heap(void *context, sonde_err err, const struct sonde_diag *diag,
                            const struct engine_heap_state *state,
                            const struct engine_heap_dump *dumps, size_t dump_count);
SONDE_MUST_USE sonde_err engine_heap(struct engine *engine,
                                     const struct engine_heap_request *request,
                                     engine_on_heap *on_answer, void *context,
                                     struct sonde_diag *diag);

/* The live heap now, or a kept dump. */
struct engine_heap_query {
    struct engine_selector target;
    const char *name;    /* NULL: now. INVALID_ARGUMENT when it is no NNNNNN.heap */
    bool raw;            /* the dump as the allocator wrote it; otherwise a profile */
    bool require_active; /* now: NOT_ACTIVE when sampling is off */
    /* Now: objects at least so old only. INTERPOSED only: others NOT_AVAILABLE. 0 = all. */
    uint64_t older_than_ms;
    bool ended; /* a dump of a process that has ended; with a name. The newest that fits */
};

struct engine_heap_result {
    struct sonde_buf text;         /* raw */
    struct sonde_profile *profile; /* named, without the allocator's own frames at the leaf */
    int64_t unix_ns;
    uint64_t epoch; /* results of different ones cannot be compared; 0 = not known */
};

/* Once, on a worker or the engine thread. SONDE_OK: takes what is in result. Errors as above;
 * NOT_FOUND for a dump that is not kept, CORRUPT for one that cannot be read. */
typedef void engine_on_heap_result(void *context, sonde_err err, const struct sonde_diag *diag,
                                   struct engine_heap_result *result);
SONDE_MUST_USE sonde_err engine_heap_get(struct engine *engine,
                                         const struct engine_heap_query *query,
                                         engine_on_heap_result *on_result, void *context,
                                         struct sonde_diag *diag);

/* What processes that have ended left: a dump each, newest first, at most ENGINE_HEAP_MAX_DUMPS of
 * them. They are kept for a week, within bounds (heap_sweep.h). */
struct engine_heap_left {
    char process[64], uuid[33]; /* process "" = its name is not known */
    pid_t pid;
    struct engine_heap_dump dump;
};

/* Once, on a worker. */
typedef void engine_on_heap_left(void *context, sonde_err err, const struct sonde_diag *diag,
                                 const struct engine_heap_left *items, size_t count);
/* selector: those that fit; nothing said = all. None is no error. NOT_AVAILABLE: no data directory.
 */
SONDE_MUST_USE sonde_err engine_heap_list_ended(struct engine *engine,
                                                const struct engine_selector *selector,
                                                engine_on_heap_left *on_answer, void *context,
                                                struct sonde_diag *diag);

#endif
