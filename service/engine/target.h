/* SPDX-License-Identifier: Apache-2.0
 *
 * One attached process, as the engine thread sees it: its connection, its rings, its address space,
 * its clock and the captures on it. Thread safety: engine thread only, except `info`,
 * `is_attached`, `command` and `sessions`, which are changed and read under the engine's
 * targets_lock (session_lock). */
#ifndef SONDE_SERVICE_ENGINE_TARGET_H
#define SONDE_SERVICE_ENGINE_TARGET_H

#include "service/engine/engine_state.h"

enum clock_state {
    CLOCK_IDLE = 0,
    CLOCK_STARTING, /* CpuConfig sent, CpuState not here yet */
    CLOCK_RUNNING,
    CLOCK_STOPPING, /* period 0 sent; the last records are awaited */
};

/* A frame on its way to the guest, with a descriptor or -1. */
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
    struct frames frames;
    struct outgoing *first, **last;
    uint32_t outgoing_count;
    bool is_broken;  /* to be dropped at the end of this event */
    bool is_writing; /* EPOLLOUT is asked for */
};

/* Numbers of the guest that only grow, and how far they were taken over. */
struct totals {
    uint64_t drops[DROP_CAUSES];
    uint64_t handler_ns; /* in the guest's signal handlers */
    uint64_t handler_count;
    uint64_t account_ns; /* the guest's own account of its CPU time, about every second */
    uint64_t control_ns; /* of it, the guest's control thread, which no sample shows */
    uint64_t target_cpu_ns;
};

/* How fast the clock may tick under the captures' ceiling (budget.c). */
struct budget {
    double ceiling;         /* the lowest of all captures; 0 = none */
    uint64_t sample_ns;     /* what one sample costs the target, the kernel's part included */
    uint64_t min_period_ns; /* the shortest period that keeps the ceiling; 0 = any */
    uint64_t min_wall_period_ns;
    struct totals seen; /* at the last account */
};

/* StartCpu/StopCpu, StartAllocs/StopAllocs. Guarded by session_lock. */
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
    bool is_running, is_ended;      /* is_ended: the result is awaited no more */
    struct engine_capture *capture; /* while it runs */
    struct engine_session_info info;
    struct sonde_profile *result; /* of the last one */
    struct engine_metadata metadata;
    char clock[24], budget_note[192]; /* the texts of facts */
    struct session_waiter *waiters;
};

struct target {
    _Atomic uint32_t refs;
    struct engine *engine;
    struct target *next; /* (registry) */
    bool is_attached;    /* (registry) said hello and is not gone */
    struct engine_target info;
    char *command;
    size_t command_len;
    struct session sessions[SESSION_KINDS];

    struct link link;
    bool has_hello;
    uint64_t hello_deadline_ns;

    struct space space;
    struct thread_names names;
    struct drain drain;
    void *rings; /* mapped memory, NULL = none yet */
    size_t rings_bytes;
    struct drain_counts seen; /* the header's counters at the last drain */
    struct totals totals;
    uint64_t account_seen_ns; /* guest_cpu_ns of the last CpuAccount */
    uint64_t control_seen_ns; /* its control_cpu_ns */
    uint64_t cpu_seen_ns;     /* last reading of the process's CPU clock */
    uint32_t opening;         /* mappings on their way through the workers */

    enum clock_state clock;
    uint32_t sequence,
        start_sequence; /* of the last CpuConfig, and of the one that started the clock */
    uint64_t period_ns, wall_period_ns; /* as the last CpuConfig had them */
    uint64_t clock_deadline_ns, next_drain_ns;
    uint64_t drain_ns; /* when the drain under way began */
    struct budget budget;
    struct stacks *stacks;         /* while captures run */
    struct cpu_capture *captures;  /* all that have not ended */
    struct heap *heap;             /* NULL until somebody asks */
    struct allocs_window *windows; /* of allocations, that have not ended */
    uint32_t sampler_requests;     /* how often their sampler was asked for */
    uint64_t wake_ns;              /* when to call target_tick; 0 = no need */
};

/* Has target_tick called before the engine thread sleeps again: any time in the past will do. */
static inline void target_wake_now(struct target *target) {
    target->wake_ns = 1;
}

/* session.c: something that runs until it is stopped, or its lease ends. */
struct session_plan {
    enum session_kind kind;
    const void *spec;
    uint32_t lease_ms;
    const char *owner;
    /* Makes the capture, which is launched when this succeeds. */
    sonde_err (*begin)(struct target *target, const struct session_plan *plan,
                       const struct engine_capture_events *events, void *context,
                       struct engine_capture **capture, struct sonde_diag *diag);
};
SONDE_MUST_USE sonde_err session_start(struct engine *engine,
                                       const struct engine_selector *selector,
                                       const struct session_plan *plan,
                                       struct engine_session_info *info, struct sonde_diag *diag);
SONDE_MUST_USE sonde_err session_stop(struct engine *engine, const struct engine_selector *selector,
                                      enum session_kind kind,
                                      const struct engine_capture_events *events, void *context,
                                      struct sonde_diag *diag);

/* target.c */
struct target *target_create(struct engine *engine, int fd);
struct target *target_retain(struct target *target);
void target_release(struct target *target);
/* Frees what only a listed target needs: a capture's handle may outlive the engine's stores. */
void target_empty(struct target *target);
/* The connection is over: captures end with what they have. */
void target_detach(struct target *target);
/* A target that went between a caller's look and now: back on the list until its captures have
 * ended. */
void target_relist(struct target *target);
/* Looks at every deadline of the target and sets wake_ns. */
void target_tick(struct target *target, uint64_t now_ns);

/* attach.c: who is this? False: refused, the link is broken. */
bool target_attach(struct target *target, const sonde_guest_v1_Hello *hello);

/* link.c */
bool link_open(struct link *link, int fd);
void link_close(struct target *target);
/* Takes fd (-1 = none). A link that cannot be written to is broken. */
void link_send(struct target *target, const frames_to_guest *message, int fd);
void link_refuse(struct target *target, const char *reason);
void link_read(struct target *target);
void link_write(struct target *target);
void link_accept(struct engine *engine);

/* guest_messages.c: handles messages from guests. */
sonde_err guest_on_message(void *target, const frames_from_guest *message);

/* unwind_tables.c: workers open mappings and compile their tables. */
void tables_begin(struct target *target, struct generation *generation);
/* Has the names fetched of all mappings that samples lie in. True when they are at hand, or there
 * is no hope of any. */
bool tables_load_names(struct target *target, struct stacks *stacks);
/* True while line tables (inlined functions, files, lines) of them are being made. */
bool tables_are_converting(const struct stacks *stacks);
/* Fills module and bias of one mapping, in the calling (worker) thread, unless they are there. */
void tables_open_mapping(struct engine *engine, pid_t pid, struct mapping *mapping);
/* A module's table, made in the calling (worker) thread when it is not in the cache. *memfd is the
 * caller's. SONDE_NOT_AVAILABLE: there is no unwind information. */
SONDE_MUST_USE sonde_err tables_get(struct engine *engine, const struct symbol_module *module,
                                    int *memfd, size_t *bytes);

/* rings.c */
SONDE_MUST_USE sonde_err rings_map(struct target *target, int fd, struct sonde_diag *diag);
void rings_unmap(struct target *target);
/* Takes what is in the rings and hands it to the captures: all of it (budget 0), or one turn's
 * share. True when there is more. */
bool rings_drain(struct target *target, uint64_t now_ns, uint64_t budget);

/* clock.c: the one tick stream. */
/* Asks the guest for what the captures need now. */
void clock_adjust(struct target *target);
void clock_on_state(struct target *target, const sonde_guest_v1_CpuState *state);
void clock_read_cpu(struct target *target);
/* Concludes what was closing: every record that will come is in the rings. */
void clock_stopped(struct target *target);
void clock_tick(struct target *target, uint64_t now_ns);
/* A CpuConfig even if nothing changes: the guest records all it knows before it answers. */
void clock_request_flush(struct target *target);

/* budget.c */
/* The ceiling of the captures there are now; a new one begins with an estimate. */
void budget_adjust(struct target *target);
/* The guest's account came: what does a sample cost? True when the rate must change. */
bool budget_on_account(struct target *target);
/* A note for a report: how the ceiling was kept. */
void budget_describe(const struct cpu_capture *capture, double mean_hz, char *text, size_t size);

#endif
