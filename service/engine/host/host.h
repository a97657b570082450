/* SPDX-License-Identifier: Apache-2.0
 *
 * Sampling from outside, as the engine sees it.
 *
 *     rings ──▶ stream ── pid ──▶ process (address space) ── walk ──▶ every host target that has it
 *
 * A host target is a struct target without a guest: one process, or several (enum host_members).
 * A stream owns perf rings and the processes seen in them. With CAP_PERFMON one stream over all
 * CPUs serves all host targets; otherwise each has a stream of its own. Thread safety: engine
 * thread only, unless a comment says otherwise. */
#ifndef SONDE_SERVICE_ENGINE_HOST_HOST_H
#define SONDE_SERVICE_ENGINE_HOST_HOST_H

#include "service/engine/engine_state.h"
#include "service/host/record.h"
#include "service/host/rights.h"
#include "service/host/sampler/sampler.h"

struct target;
struct host_stream;

/* Which processes a host target stands for. */
enum host_members {
    HOST_ONE = 0, /* the process of link.process; the target ends with it, or when it calls exec */
    HOST_NAMED,   /* every process called `name` */
    HOST_TREE,    /* the process `pid` and all that it starts */
    HOST_EVERY,   /* every process of the machine */
};

/* The part of struct target that a host target has in addition (target->host). */
struct host_target {
    enum host_members members;
    pid_t pid;                  /* TREE */
    char name[64];              /* NAMED */
    uid_t owner;                /* only processes of this user, if has_owner */
    bool has_owner;             /* this sonded, or the caller, may not look at others */
    struct host_stream *stream; /* while the clock runs */
    struct target *next;        /* in the stream */
    uint32_t answered;          /* the last request of the clock that was answered */
    uint64_t asked_ns;          /* when the clock asked last */
    bool is_out_of_memory;      /* its clock cannot start */
    bool is_over;               /* the process has ended, or runs another program */
    uint64_t idle_since_ns;     /* no capture and no session's result; freed after HOST_IDLE_NS */
};

#define HOST_IDLE_NS 600000000000ull

/* stream.c: the source of host targets. See struct source_ops in target.h. */
extern const struct source_ops host_source;

/* Any thread, with targets_lock held: finds or creates the host target that a selector
 * means. A created one is put on engine->newcomers and joins engine->targets on the engine thread.
 * SONDE_TARGET_NOT_FOUND, _AMBIGUOUS, SONDE_PERMISSION, SONDE_NOT_AVAILABLE with a sentence that
 * says what to do. */
SONDE_MUST_USE sonde_err host_find_target(struct engine *engine,
                                          const struct engine_selector *selector,
                                          struct target **target, struct sonde_diag *diag);

/* members.c: whether a process belongs to a target. Engine thread only; may read /proc once per
 * process. */
struct host_process;
bool host_has_member(const struct target *target, struct host_process *process);

/* host.c: sampling from outside, as a part of the engine. */
SONDE_MUST_USE sonde_err host_create(struct engine *engine, struct sonde_diag *diag);
void host_destroy(struct engine *engine);
/* A ring is half full. */
void host_on_readable(struct engine *engine);

#endif
