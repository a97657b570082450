/* SPDX-License-Identifier: Apache-2.0
 *
 * Heap profiling of a target: one state that all clients share. Either the target's jemalloc
 * samples, or Sonde's sampler in the guest wraps malloc (INTERPOSED) and sees what is allocated
 * from then on. The state records who switched profiling on and until when, and the periodic dumps.
 * The target is asked for its current state each time, so answers are right however sampling was
 * switched.
 *
 * As in engine.h: any thread may call, nothing blocks. Refusals that do not need the target are
 * returned at once; everything else arrives as one event. */
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
    ENGINE_HEAP_LIST, /* answered by sonded alone */
    ENGINE_HEAP_VERBS
};

enum engine_heap_backend {
    ENGINE_HEAP_NONE = 0,
    ENGINE_HEAP_JEMALLOC = 1,
    ENGINE_HEAP_INTERPOSED = 2, /* Sonde's sampler */
};

struct engine_heap_request {
    enum engine_heap_verb verb;
    struct engine_selector target;
    /* ACTIVATE, RESET: average bytes between samples, rounded to a power of two; 0 = unchanged. */
    uint64_t sample_bytes;
    enum engine_heap_backend backend; /* ACTIVATE: 0 = JEMALLOC if it can sample, else INTERPOSED */
    uint32_t interval_s;              /* ACTIVATE, like the next four; 0 = no periodic dumps */
    uint32_t keep_dumps;              /* 0 = engine_options.heap_dumps */
    uint64_t keep_bytes;              /* 0 = 1 GiB */
    uint32_t lease_ms;                /* 0 = no limit */
    const char *owner;                /* NULL or at most 64 bytes */
    bool delete_dumps;                /* DEACTIVATE */
};

struct engine_heap_state {
    enum engine_heap_backend backend; /* if inactive, the one that would be chosen */
    bool available, active;
    bool was_active; /* state before the request */
    bool gdump, accumulates;
    char note[320], owner[65], last_failure[160];
    int64_t active_since_unix_ns, lease_until_unix_ns; /* 0 = unknown, or no lease */
    uint32_t interval_s, dumps, keep_dumps, dump_failures;
    uint64_t sample_bytes, epoch, dump_bytes;
    uint64_t gdump_skipped; /* dumps dropped by rate limits since activation */
    uint64_t dropped;       /* INTERPOSED: samples that did not fit the tables, since activation */
};

struct engine_heap_dump {
    char name[ENGINE_HEAP_NAME_BYTES];
    int64_t unix_ns;
    uint64_t bytes, epoch;
};

/* Called once. Unless err is SONDE_OK, state and dumps are NULL. dumps: the periodic ones, newest
 * first. Errors: NOT_AVAILABLE (no jemalloc with prof:true; the text says what to set; or the
 * target does not answer), SESSION_BUSY, TARGET_GONE, IO. */
typedef void engine_on_heap(void *context, sonde_err err, const struct sonde_diag *diag,
                            const struct engine_heap_state *state,
                            const struct engine_heap_dump *dumps, size_t dump_count);
SONDE_MUST_USE sonde_err engine_heap(struct engine *engine,
                                     const struct engine_heap_request *request,
                                     engine_on_heap *on_answer, void *context,
                                     struct sonde_diag *diag);

/* The live heap now, or a periodic dump. */
struct engine_heap_query {
    struct engine_selector target;
    const char *name;           /* NULL = now. INVALID_ARGUMENT unless it is NNNNNN.heap */
    bool raw;                   /* return the dump as the allocator wrote it, not a profile */
    bool keep_allocator_frames; /* of the profile */
    bool require_active;        /* now: NOT_ACTIVE if sampling is off */
    /* Now: only objects of at least this age; 0 = all. INTERPOSED only, otherwise NOT_AVAILABLE. */
    uint64_t older_than_ms;
    bool ended; /* a dump, by name, of a process that has ended; the newest match */
};

struct engine_heap_result {
    struct sonde_buf text;         /* raw */
    struct sonde_profile *profile; /* with names; see keep_allocator_frames */
    int64_t unix_ns, monotonic_ns; /* of the same moment; monotonic_ns 0 = of an ended process */
    uint64_t epoch;                /* results of different epochs cannot be compared; 0 = unknown */
};

/* Called once, on a worker or the engine thread. With SONDE_OK it takes the contents of result.
 * Errors as above; also NOT_FOUND (no such dump) and CORRUPT (the dump cannot be read). */
typedef void engine_on_heap_result(void *context, sonde_err err, const struct sonde_diag *diag,
                                   struct engine_heap_result *result);
SONDE_MUST_USE sonde_err engine_heap_get(struct engine *engine,
                                         const struct engine_heap_query *query,
                                         engine_on_heap_result *on_result, void *context,
                                         struct sonde_diag *diag);

/* The dumps of processes that have ended, newest first, at most ENGINE_HEAP_MAX_DUMPS. They are
 * kept for a week, within bounds (dump_retention.h). */
struct engine_ended_dump {
    char process[64], uuid[33]; /* process "" = name unknown */
    pid_t pid;
    struct engine_heap_dump dump;
};

/* Called once, on a worker. */
typedef void engine_on_ended_dumps(void *context, sonde_err err, const struct sonde_diag *diag,
                                   const struct engine_ended_dump *items, size_t count);
/* Lists the dumps that match the selector; an empty one matches all. An empty list is not an error.
 * NOT_AVAILABLE: sonded has no data directory. */
SONDE_MUST_USE sonde_err engine_heap_list_ended(struct engine *engine,
                                                const struct engine_selector *selector,
                                                engine_on_ended_dumps *on_answer, void *context,
                                                struct sonde_diag *diag);

#endif
