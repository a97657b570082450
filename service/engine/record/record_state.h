/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a recorder. Internal to this folder. Its lock guards what says so; functions are
 * called with it held unless they say otherwise. */
#ifndef SONDE_SERVICE_ENGINE_RECORD_RECORD_STATE_H
#define SONDE_SERVICE_ENGINE_RECORD_RECORD_STATE_H

#include "service/engine/record/heap_delta.h"
#include "service/engine/record/machine.h"
#include "service/engine/record/record.h"
#include "service/host/processes/cgroup.h"
#include "service/locks.h"

enum { CPU, OFF_CPU, CAPTURES };

struct capture_slot {
    struct recorded *recorded;
    struct engine_capture *capture; /* NULL = none runs */
    uint64_t retry_ms;              /* when to start the next one; UINT64_MAX = never */
    uint32_t pause_ms;              /* before the last try since a window was delivered; 0 = none */
    struct record_choice choice;    /* of the capture that runs, or ran last */
    int64_t until_unix_ns;          /* the end of the last window, or when the capture started */
    uint64_t cpu_ns;                /* the process's CPU clock at the end of the last window */
    bool is_mute;                   /* it has delivered no window since it was last asked to */
};

struct recorded {
    struct recorded *next;
    uint32_t refs;
    struct recorder *recorder;
    struct engine_target target;
    char cgroup[CGROUP_BYTES];
    struct machine *machine; /* NULL: it is one target */
    bool is_outside;       /* a process without the guest: only its off-CPU time (record_waits.c) */
    bool wants_waits;      /* it is to have off-CPU time */
    bool is_own;           /* the machine: only processes of sonded's user, by its rights */
    int64_t since_unix_ns; /* the machine: when its capture has begun */
    bool is_heap_asked;
    struct record_choice choice; /* in effect */
    struct capture_slot slots[CAPTURES];
    uint64_t heap_due_ms;
    _Atomic bool has_heap;  /* a snapshot was delivered */
    struct heap_delta heap; /* belongs to the request that runs */
};

/* Processes that their guests record. */
struct guests {
    struct guest_pid {
        pid_t pid;
        int64_t until_unix_ns; /* windows that begin before have its time from its guest */
    } * items;
    size_t count, capacity;
};

struct recorder {
    struct engine *engine;
    struct record_options options;
    struct engine_watch *watch;
    struct lock lock;         /* guards what follows, and the targets */
    pthread_cond_t idle;      /* no request runs any more */
    pthread_cond_t delivered; /* a window was delivered, or a capture has ended */
    struct recorded *targets;
    uint32_t requests;        /* that run */
    struct recorded *machine; /* NULL = not wanted. Not one of the targets */
    struct recorded *waits;   /* processes without the guest whose off-CPU time is recorded */
    uint32_t waits_count, waits_left_out; /* the latter: of the last window, beyond the limit */
    struct guests guests; /* in any order; those that are attached are added at a window's end */
    char refusal[RECORD_REFUSAL];
    bool is_incomplete;         /* memory was short for the machine's last window */
    _Atomic uint32_t heap_room; /* see heap_delta.h; needs no lock */
    uint64_t now_ms, widen_ms;  /* widen_ms: of the next look at rights */
    bool is_finishing;
};

/* ---- record.c ---- */

void record_start_capture(struct capture_slot *slot);
void record_release(struct recorded *recorded);
/* Counts a request that runs, with a reference, until it has ended. */
void record_begin_request(struct recorded *recorded);
void record_end_request(struct recorded *recorded);

/* ---- record_heap.c ---- */

/* Asks for a snapshot of the heap, which is recorded when it arrives. */
void record_heap_ask(struct recorded *recorded);
/* The process has ended. Without the lock. */
void record_heap_end(struct recorded *recorded);

/* ---- record_clock.c ---- */

/* Fills the record's CPU clock at the begin and the end of the window. Without the lock; windows of
 * a slot in their order. */
void record_read_clock(struct capture_slot *slot, const struct engine_metadata *window,
                       struct record *record);

/* ---- record_waits.c ---- */

/* Whether a process is to have off-CPU time. Without the lock: it compares labels. */
bool record_wants_waits(const struct record_options *options, const struct engine_target *target,
                        const char *cgroup);
/* Starts and forgets captures of off-CPU time, after a window of the machine. Without the lock; as
 * machine_split. */
void record_waits_update(struct recorder *recorder, const struct machine *machine);
/* The process has a guest from now on. */
void record_waits_leave(struct recorder *recorder, pid_t pid);

/* ---- record_machine.c: the capture of the whole machine ---- */

/* Its capture starts at the first tick. SONDE_OUT_OF_MEMORY. Before other threads know it. */
SONDE_MUST_USE sonde_err record_machine_create(struct recorder *recorder);
/* With the lock held, after the whole machine was refused: the same of own processes. */
SONDE_MUST_USE sonde_err record_machine_start_own(struct capture_slot *slot,
                                                  const struct engine_cpu_spec *machine,
                                                  const struct engine_capture_events *events);
/* With the lock held: a recording of own processes ends if the whole machine is allowed now. */
void record_machine_widen(struct recorder *recorder);
void record_machine_finish(struct recorder *recorder);
/* A target that its guest has recorded is gone. */
void record_machine_leave(struct recorder *recorder, pid_t pid);
/* A window, which it takes. Without the lock. */
void record_machine_add(struct recorded *recorded, struct sonde_profile *profile,
                        const struct engine_metadata *metadata);

#endif
