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

#include "service/engine/core/engine_state.h"
#include "service/host/processes/process_list.h"
#include "service/host/record.h"
#include "service/host/rights.h"
#include "service/host/sampler/sampler.h"
#include "service/process/process_identity.h"

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
    pid_t pid;                  /* ONE, TREE */
    uint64_t start_ticks;       /* likewise */
    char name[64];              /* NAMED */
    uid_t owner;                /* only processes of this user, if has_owner */
    bool has_owner;             /* this sonded, or the caller, may not look at others */
    struct host_stream *stream; /* while the clock runs */
    struct target *next;        /* in the stream */
    uint32_t answered;          /* the last request of the clock that was answered */
    uint64_t asked_ns;          /* when the clock asked last */
    uint64_t samples;           /* in the present drain of the stream */
    uint64_t accounted_ns;      /* when its budget was adjusted last */
    bool is_out_of_memory;      /* its clock cannot start */
    uint64_t over_ns;           /* when that was found; 0 = not yet */
    bool is_over;               /* the process has ended, or runs another program */
    uint64_t idle_since_ns;     /* no capture and no request; 0 = busy */
};

/* How long an idle target keeps its session's result and its address space. Beyond HOST_MAX_IDLE
 * targets, they keep them for HOST_CROWDED_NS. */
#define HOST_IDLE_NS    600000000000ull
#define HOST_CROWDED_NS 5000000000ull
#define HOST_MAX_IDLE   64u
#define HOST_MAX        1024u /* targets; further requests are refused */

/* source.c: the source of host targets. See struct source_ops in target.h. */
extern const struct source_ops host_source;
/* The process is over: whether samples of it still wait for their tables. */
bool host_waits(struct target *target, uint64_t now_ns);

/* --- which target a request means (plan.c, host_target.c) ------------------------------------- */

/* The processes that a selector means. */
struct host_plan {
    enum host_members members;
    struct process_identity identity; /* ONE, TREE: the process; otherwise none */
    struct process_entry process;     /* likewise */
    char name[64];                    /* NAMED */
    uid_t owner;
    bool has_owner;
};

/* Any thread; reads /proc, so no lock may be held. SONDE_TARGET_NOT_FOUND, _AMBIGUOUS, _CONFLICT,
 * SONDE_PERMISSION_DENIED, SONDE_NOT_AVAILABLE, each with a sentence that says what to do. The
 * caller finishes the plan, also after an error. */
SONDE_MUST_USE sonde_err host_plan_make(struct engine *engine,
                                        const struct engine_selector *selector,
                                        struct host_plan *plan, struct sonde_diag *diag);
/* The process of an attached guest, sampled from outside. */
SONDE_MUST_USE sonde_err host_plan_of_guest(struct engine *engine, const struct target *guest,
                                            struct host_plan *plan, struct sonde_diag *diag);
void host_plan_finish(struct host_plan *plan);

/* The part of a target's description that does not change while it is sampled. */
void host_describe(const struct host_plan *plan, struct engine_target *info);

/* Any thread; takes targets_lock. Finds the target that stands for these processes, or creates it,
 * and retains it for the caller. A created one is put on engine->newcomers and joins
 * engine->targets on the engine thread. */
SONDE_MUST_USE sonde_err host_target_get(struct engine *engine, const struct host_plan *plan,
                                         struct target **target, struct sonde_diag *diag);
/* With targets_lock held: the existing one, or NULL. */
struct target *host_target_find(struct engine *engine, const struct host_plan *plan);

/* --- life (host_target.c), engine thread ------------------------------------------------------ */

/* Moves newcomers to engine->targets. Called before the messages of a round run. */
void host_adopt(struct engine *engine);
/* The pidfd is readable: the process has ended. */
void host_on_exit(struct target *target);
/* Ends a target that was idle for HOST_IDLE_NS; returns when to call again, 0 = never. */
uint64_t host_tick(struct target *target, uint64_t now_ns);

/* The outermost frame of a process's stacks: "name", or "name (pid)" where all have one name. */
void host_process_text(const struct host_target *host, const char *name, pid_t pid, char text[80]);

/* members.c: whether a process belongs to a target. Engine thread only; may read /proc once per
 * process. */
struct host_process;
bool host_has_member(const struct target *target, struct host_process *process);

/* Why this sonded cannot sample the process, as struct engine_target says it; "" = it can. */
void host_explain(struct engine *engine, const struct process_entry *process, char text[192]);

/* host.c: sampling from outside, as a part of the engine. */
SONDE_MUST_USE sonde_err host_create(struct engine *engine, struct sonde_diag *diag);
void host_destroy(struct engine *engine);
/* A ring is half full. */
void host_on_readable(struct engine *engine);

#endif
