/* SPDX-License-Identifier: Apache-2.0
 *
 * One attached process: its address space and clock, and the captures of it. Or a host target
 * (host/host.h): one or several processes that are sampled from outside. Thread safety: engine
 * thread only, except the fields marked (list), which other threads read under the engine's
 * targets_lock, `sessions` and `polls`, which are guarded by session_lock. */
#ifndef SONDE_SERVICE_ENGINE_CORE_TARGET_H
#define SONDE_SERVICE_ENGINE_CORE_TARGET_H

#include "service/engine/core/engine_state.h"
#include "service/engine/report/address_space.h"
#include "service/engine/report/mapping_lives.h"
#include "service/engine/report/report.h"
#include "service/engine/report/stacks.h"
#include "service/engine/report/thread_names.h"
#include "service/process/process_identity.h"

enum clock_state {
    CLOCK_IDLE = 0,
    CLOCK_STARTING, /* the source was asked and has not answered */
    CLOCK_RUNNING,
    CLOCK_STOPPING, /* the source was asked to stop, the last records have not arrived */
};

/* Sums over the guest's life, as far as they were read. */
struct totals {
    uint64_t drops[DROP_CAUSES];
    uint64_t handler_ns; /* in the guest's signal handlers */
    uint64_t handler_count;
    uint64_t account_ns; /* CPU time of the guest, as it reports about every second */
    uint64_t control_ns; /* of these, the guest's control thread, which is never sampled */
    uint64_t target_cpu_ns;
};

/* How fast the clock may tick with the captures' max_overhead (budget.c). Captures and recordings
 * have limits of their own, so neither slows the other. */
struct budget_limit {
    double ceiling;         /* the lowest max_overhead of its captures; 0 = none */
    uint64_t min_period_ns; /* shortest period that stays below the ceiling; 0 = any */
    uint64_t min_wall_period_ns;
};

struct budget {
    struct budget_limit limits[2]; /* [1]: of recordings */
    uint64_t sample_ns;            /* cost of one sample for the target, with the kernel's part */
    struct totals seen;            /* at the guest's last report of its CPU time */
    uint64_t seen_ns;              /* when */
};

/* Sessions: StartCpu and StopCpu, StartAllocs and StopAllocs. */
struct session_waiter {
    struct session_waiter *next;
    struct engine_capture_events events;
    void *context;
};

struct heap;          /* heap/heap_state.h */
struct allocs_window; /* allocs.h */

enum session_kind { SESSION_CPU, SESSION_ALLOCS, SESSION_KINDS };

struct session {
    struct target *target;
    enum session_kind kind;
    bool is_running;
    struct engine_capture *capture; /* while the session runs */
    struct engine_session_info info;
    struct sonde_profile *result; /* of the last session */
    struct engine_metadata metadata;
    struct session_waiter *waiters;
    engine_on_session *on_started; /* not called yet; NULL = none */
    void *started_context;
};

/* Where a target's samples come from: its guest (guest/rings.c), or the kernel
 * (service/engine/host). */
struct source_ops {
    /* Asks for clocks with these periods; 0, 0 = stop. wall_period_ns 0 = no time off the CPU.
     * Called again with the same periods, it asks for what is known of threads that are blocked.
     * The source answers later with clock_on_answer and target->sequence. */
    void (*set_periods)(struct target *target, uint64_t period_ns, uint64_t wall_period_ns);
    /* Reads records and counts them in the captures: about `budget` bytes, for at most
     * ENGINE_TURN_NS. True when there are more. */
    bool (*drain)(struct target *target, uint64_t now_ns, uint64_t budget);
    /* Reads all records, for at most ENGINE_LAST_NS. Drops the others as DROP_UNREAD. */
    void (*drain_all)(struct target *target, uint64_t now_ns);
    /* The rings fill so fast that they are drained every ENGINE_DRAIN_NS. */
    bool (*is_busy)(const struct target *target);
    /* Adds to totals.target_cpu_ns what the target has used since the last call. */
    void (*read_cpu)(struct target *target);
    /* How long the last records are awaited after a stop or a flush. */
    uint64_t last_wait_ns;
    /* The records of the last moment arrive late, so that a capture which ends waits for them. */
    bool is_late;
    /* The clock has begun to run, or is idle. NULL = the source need not know. */
    void (*started)(struct target *target);
    void (*stopped)(struct target *target);
    /* Deadlines of its own, while the clock is not idle; returns the next one, 0 = none. NULL =
     * never. */
    uint64_t (*tick)(struct target *target, uint64_t now_ns);
    /* Frees what needs the engine's symbol store. NULL = there is nothing. */
    void (*empty)(struct target *target);
};

struct guest_link;  /* guest/guest_link.h */
struct host_target; /* host/stream/host_target.h */

struct target {
    _Atomic uint32_t refs;
    struct engine *engine;
    const struct source_ops *source;
    struct guest_link *guest;  /* NULL: it is a host target */
    struct host_target *host;  /* NULL: it has a guest */
    struct target *next;       /* (list) */
    bool is_attached;          /* (list) has said Hello, or is a host target, and is not gone */
    struct engine_target info; /* (list) */
    char root_name[64];        /* of a process and all it starts: its name, which exec changes */
    char *command;             /* (list) argv, separated by NULs */
    size_t command_len;        /* (list) */
    struct session sessions[SESSION_KINDS];
    struct allocs_poll *polls; /* of the target's allocations; guarded by session_lock */

    pid_t pid;
    uid_t uid;
    struct process_identity process;       /* of pid; until the target is freed */
    struct pool_queue building, reporting; /* jobs that wait in the two pools */

    struct space space;
    const struct mapping_lives *lives; /* of the guest's mappings; NULL = none are known */
    struct thread_names names;
    _Atomic bool uses_labels; /* its guest has sent labels or request numbers */
    struct totals totals;
    uint64_t cpu_seen_ns; /* last reading of the process's CPU clock */

    enum clock_state clock;
    bool has_process_clock;             /* one clock for all threads: "itimer" */
    uint32_t sequence;                  /* of the last request to the source */
    uint32_t start_sequence;            /* of the one that started the clock */
    uint64_t period_ns, wall_period_ns; /* in the last request */
    bool wants_locks;                   /* likewise: of threads that wait */
    uint64_t clock_deadline_ns, next_drain_ns;
    uint64_t drain_ns;     /* when the present drain began */
    uint64_t drain_end_ns; /* thread_cpu_ns at which it must end */
    struct budget budget;
    struct stacks *stacks;                   /* while captures run */
    struct cpu_capture *captures;            /* those that have not ended */
    struct heap *heap;                       /* NULL until the first request */
    void (*heap_destroy)(struct heap *heap); /* set with heap, which the last release frees */
    struct allocs_window *windows;           /* allocation windows that have not ended */
    uint32_t ignored_mappings; /* host target: of one process at most, beyond SPACE_MAX_MAPPINGS */
    uint32_t sampler_requests; /* number of the last request for their sampler */
    uint64_t wake_ns;          /* when to call target_tick; 0 = no need */
};

/* Has target_tick called before the engine thread waits again. Any time in the past does that; 0 is
 * taken. */
static inline void target_wake_now(struct target *target) {
    target->wake_ns = 1;
}

/* Creates a target that has no process yet. The caller owns the only reference. NULL when out of
 * memory. */
struct target *target_create(struct engine *engine, const struct source_ops *source);
struct target *target_retain(struct target *target);
void target_release(struct target *target);
/* Frees what needs the engine's symbol store. A capture's handle, which retains the target, may
 * outlive the engine. */
void target_empty(struct target *target);
/* Puts the target on the engine's list, which takes the caller's reference. */
void target_enlist(struct target *target);
/* Puts a target that went meanwhile back on the engine's list, until the capture that was just
 * enlisted has ended. */
void target_relist(struct target *target);
/* Starts a job that the target causes. The job retains the target until it is complete. `pool` is
 * one of the engine's two. Any thread. */
void target_start_job(struct target *target, struct pool *pool, struct job *job);

static inline void target_read_cpu(struct target *target) {
    target->source->read_cpu(target);
}

#endif
