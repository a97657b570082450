/* SPDX-License-Identifier: Apache-2.0
 *
 * Sampling from outside, as the engine sees it.
 *
 *     rings ──▶ stream ── pid ──▶ process (address space) ── walk ──▶ every host target that has it
 *
 * A host target is a struct target without a guest: one process, or several (enum host_members). A
 * stream owns perf rings and the processes seen in them. With CAP_PERFMON one stream over all CPUs
 * serves all host targets; otherwise each has a stream of its own. A counted event of a process is
 * a target of its own with a stream of its own, which costs no other process anything. Thread
 * safety: engine thread only, unless a comment says otherwise. */
#ifndef SONDE_SERVICE_ENGINE_HOST_HOST_H
#define SONDE_SERVICE_ENGINE_HOST_HOST_H

#include "service/engine/core/engine_state.h"
#include "service/engine/host/stream/host_target.h"
#include "service/host/processes/process_list.h"
#include "service/host/record.h"
#include "service/host/rights.h"
#include "service/host/sampler/sampler.h"
#include "service/process/process_identity.h"

/* How long an idle target keeps its session's result and its address space. Beyond HOST_MAX_IDLE
 * targets, they keep them for HOST_CROWDED_NS. */
#define HOST_IDLE_NS    600000000000ull
#define HOST_CROWDED_NS 5000000000ull
#define HOST_MAX_IDLE   64u
#define HOST_MAX        1024u /* targets; further requests are refused */

/* --- which target a request means (plan.c, host_target.c) ------------------------------------- */

/* The processes that a selector means. */
struct host_plan {
    enum host_members members;
    struct process_identity identity; /* ONE, TREE: the process; otherwise none */
    struct process_entry process;     /* likewise */
    char name[64];                    /* NAMED */
    uid_t owner;
    bool has_owner;
    struct host_event event; /* host_plan_make sets CPU time */
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
/* Whether the process has ended, and all its samples are counted: target_detach is due. */
bool host_has_ended(struct target *target, uint64_t now_ns);
/* Ends a target that was idle for HOST_IDLE_NS; returns when to call again, 0 = never. */
uint64_t host_tick(struct target *target, uint64_t now_ns);

/* Why this sonded cannot sample the process, as struct engine_target says it; "" = it can. */
void host_explain(struct engine *engine, const struct process_entry *process, char text[192]);

#endif
