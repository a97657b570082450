/* SPDX-License-Identifier: Apache-2.0
 *
 * One attached process: its connection, rings, address space and clock, and the captures of it. Or
 * a host target (host/host.h): one or several processes that are sampled from outside.
 * Thread safety: engine thread only, except the fields marked (list), which other threads read
 * under the engine's targets_lock, `sessions` and `polls`, which are guarded by session_lock. */
#ifndef SONDE_SERVICE_ENGINE_TARGET_H
#define SONDE_SERVICE_ENGINE_TARGET_H

#include "service/engine/engine_state.h"
#include "service/process/process_identity.h"

#include <elf.h>

enum clock_state {
    CLOCK_IDLE = 0,
    CLOCK_STARTING, /* the source was asked and has not answered */
    CLOCK_RUNNING,
    CLOCK_STOPPING, /* the source was asked to stop, the last records have not arrived */
};

/* A frame to be sent to the guest, with a descriptor or -1. */
struct outgoing {
    struct outgoing *next;
    int fd;
    size_t len, sent;
    char bytes[FRAMES_TO_BYTES];
};

struct link {
    int fd; /* -1 = closed */
    pid_t pid;
    uid_t uid;
    struct process_identity process; /* of pid; until the target is freed */
    struct frames frames;
    struct outgoing *first, **last;
    uint32_t outgoing_count;
    uint64_t turn_end_ns; /* thread_cpu_ns at which to pause reading frames; 0 = never */
    bool is_broken;       /* disconnect at the end of this event */
    bool is_writing;      /* epoll reports EPOLLOUT, too */
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

/* Where a target's samples come from: its guest (guest_link/rings.c), or the kernel
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
    /* The clock is idle. NULL = the source need not know. */
    void (*stopped)(struct target *target);
    /* Deadlines of its own, while the clock is not idle; returns the next one, 0 = none. NULL =
     * never. */
    uint64_t (*tick)(struct target *target, uint64_t now_ns);
};
extern const struct source_ops guest_source;

struct host_target; /* host/host.h */

struct target {
    _Atomic uint32_t refs;
    struct engine *engine;
    const struct source_ops *source;
    struct host_target *host;  /* NULL: it has a guest */
    struct target *next;       /* (list) */
    bool is_attached;          /* (list) has said Hello, or is a host target, and is not gone */
    struct engine_target info; /* (list) */
    char *command;             /* (list) argv, separated by NULs */
    size_t command_len;        /* (list) */
    struct session sessions[SESSION_KINDS];
    struct allocs_poll *polls; /* of the target's allocations; guarded by session_lock */

    struct link link;
    struct pool_queue building, reporting; /* jobs that wait in the two pools */
    bool has_hello;
    uint64_t hello_deadline_ns;

    struct space space;
    struct thread_names names;
    _Atomic bool uses_labels; /* its guest has sent labels or request numbers */
    struct drain drain;
    void *rings; /* mapped memory, NULL = none yet */
    size_t rings_bytes;
    uint64_t unmap_ns;        /* when their pages are unmapped next */
    struct drain_counts seen; /* the rings' counters at the last drain */
    struct totals totals;
    uint64_t account_seen_ns; /* guest_cpu_ns of the last CpuAccount */
    uint64_t control_seen_ns; /* its control_cpu_ns */
    uint64_t cpu_seen_ns;     /* last reading of the process's CPU clock */
    struct proc_maps *maps;   /* a copy for those who open the newest generation; NULL = none */
    uint64_t opened_to;       /* start of the mapping that was given to workers last */
    uint32_t opening;         /* mappings that workers are opening; at most TABLES_MAX_OPENING */

    enum clock_state clock;
    bool has_process_clock;             /* one clock for all threads: "itimer" */
    uint32_t sequence;                  /* of the last request to the source */
    uint32_t start_sequence;            /* of the one that started the clock */
    uint64_t period_ns, wall_period_ns; /* in the last request */
    uint64_t clock_deadline_ns, next_drain_ns;
    uint64_t drain_ns;     /* when the present drain began */
    uint64_t drain_end_ns; /* thread_cpu_ns at which it must end */
    struct budget budget;
    struct stacks *stacks;         /* while captures run */
    struct cpu_capture *captures;  /* those that have not ended */
    struct heap *heap;             /* NULL until the first request */
    struct allocs_window *windows; /* allocation windows that have not ended */
    uint32_t ignored_mappings; /* host target: of one process at most, beyond SPACE_MAX_MAPPINGS */
    uint32_t sampler_requests; /* number of the last request for their sampler */
    uint64_t wake_ns;          /* when to call target_tick; 0 = no need */
};

/* Has target_tick called before the engine thread waits again. Any time in the past does that; 0 is
 * taken. */
static inline void target_wake_now(struct target *target) {
    target->wake_ns = 1;
}

/* session.c: a session runs until it is stopped or its lease ends. */
/* session_start and session_stop release the target. */
struct session_plan {
    enum session_kind kind;
    const void *spec;
    uint32_t lease_ms;
    const char *owner;
    /* Creates the capture, which the session then launches. */
    sonde_err (*begin)(struct target *target, const struct session_plan *plan,
                       const struct engine_capture_events *events, void *context,
                       struct engine_capture **capture, struct sonde_diag *diag);
    /* NULL, or called once after session_start: when sampling begins, or when it cannot. */
    engine_on_session *on_started;
    void *context;
};
SONDE_MUST_USE sonde_err session_start(struct target *target, const struct session_plan *plan,
                                       struct engine_session_info *info, struct sonde_diag *diag);
SONDE_MUST_USE sonde_err session_stop(struct target *target, enum session_kind kind,
                                      const struct engine_capture_events *events, void *context,
                                      struct sonde_diag *diag);

/* target.c */
struct target *target_create(struct engine *engine, int fd); /* with a guest */
struct target *target_retain(struct target *target);
void target_release(struct target *target);
/* Frees what needs the engine's symbol store. A capture's handle, which retains the target, may
 * outlive the engine. */
void target_empty(struct target *target);
/* Closes the connection, if there is one; the captures end with what they have sampled. */
void target_detach(struct target *target);
/* Puts a target that went meanwhile back on the engine's list, until the capture that was just
 * enlisted has ended. */
void target_relist(struct target *target);
/* Handles all deadlines of the target and sets wake_ns. */
void target_tick(struct target *target, uint64_t now_ns);

/* loop.c: starts a job that the target causes. The job retains the target until it is complete.
 * `pool` is one of the engine's two. Any thread. */
void target_start_job(struct target *target, struct pool *pool, struct job *job);

/* attach.c: registers the target. False: refused, and the link is marked broken. */
bool target_attach(struct target *target, const sonde_guest_v1_Hello *hello);

/* link.c */
bool link_open(struct link *link, int fd);
void link_close(struct target *target);
/* Sends a frame; takes fd (-1 = none). If the frame cannot be queued, the link is marked broken. */
void link_send(struct target *target, const frames_to_guest *message, int fd);
void link_refuse(struct target *target, const char *reason);
void link_read(struct target *target);
void link_write(struct target *target);
void link_accept(struct engine *engine);

/* guest_messages.c: handles messages from guests. */
sonde_err guest_on_message(void *target, const frames_from_guest *message);

/* unwind_tables.c: workers open mappings and compile their tables, of one target at most this many
 * at a time. */
#define TABLES_MAX_OPENING 64u
void tables_begin(struct target *target, struct generation *generation);
/* Loads the symbol tables of all mappings that were sampled. True when each is loaded or is known
 * to be missing. */
bool tables_load_names(struct target *target, struct stacks *stacks);
/* True while a line table (inlined functions, files, lines) for one of them is being built. */
bool tables_are_converting(const struct stacks *stacks);
/* Worker: fills in the module and the bias of a mapping, unless it has them. The mapping may be a
 * guest's claim: files are opened with the rights of the process. */
void tables_open_mapping(struct engine *engine, const struct process_identity *process,
                         struct mapping *mapping);
/* Worker: returns the unwind table of a module, and compiles it if it is not cached. The caller
 * closes *memfd. SONDE_NOT_AVAILABLE: the module has no unwind information. */
SONDE_MUST_USE sonde_err tables_get(struct engine *engine, const struct symbol_module *module,
                                    int *memfd, size_t *bytes, struct sonde_diag *diag);
/* The size of the vdso, which starts with this header. */
size_t tables_vdso_bytes(const Elf64_Ehdr *header);

/* rings.c: the guest's rings. */
SONDE_MUST_USE sonde_err guest_rings_map(struct target *target, int fd, struct sonde_diag *diag);
void guest_rings_unmap(struct target *target);
/* Ops of the guest_source. */
bool guest_rings_drain(struct target *target, uint64_t now_ns, uint64_t budget);
void guest_rings_drain_all(struct target *target, uint64_t now_ns);

/* clock.c: the tick stream that all captures share. */
/* Asks the source for the periods that the captures need now, if they have changed. */
void clock_adjust(struct target *target);
/* What a source says when it was asked for periods. */
struct clock_answer {
    uint32_t sequence; /* of the request */
    bool is_running;
    const char *clock, *note; /* "" = none */
    int os_error;             /* not running: why; 0 = it was asked to stop */
    uint32_t threads;         /* 0 = not known */
};
void clock_on_answer(struct target *target, const struct clock_answer *answer);
/* Fails the captures that wait for the clock, and ends the others with what they have. */
void clock_fail(struct target *target, sonde_err err, const char *text);
static inline void target_read_cpu(struct target *target) {
    target->source->read_cpu(target);
}
/* No further records will arrive: drains the rings and concludes the captures. */
void clock_stopped(struct target *target);
void clock_tick(struct target *target, uint64_t now_ns);
/* Asks for the same periods again. Before the source answers, it records what it knows of blocked
 * threads. */
void clock_request_flush(struct target *target);

/* budget.c */
/* Updates the ceiling from the captures. Under a new ceiling, the cost of a sample is first
 * estimated. */
void budget_adjust(struct target *target);
/* The guest has reported its CPU time: measures the cost of a sample. True when the rate must
 * change. */
bool budget_on_account(struct target *target);
/* Writes a note for a report about the effect of the ceiling. */
void budget_describe(const struct cpu_capture *capture, double mean_hz, char *text, size_t size);

#endif
