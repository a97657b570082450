/* SPDX-License-Identifier: Apache-2.0
 *
 * Continuous recording: one capture per target that goes on as long as the target is attached, if
 * wanted one of the whole machine, whose windows are split by process (machine.h), and snapshots of
 * the heap of targets whose heap profiling is active, each with what was allocated since the one
 * before. What was recorded goes to one receiver: to history (service/recording).
 *
 * Recording costs a target at most max_overhead and leaves captures alone: it takes no place among
 * a target's captures, and its limit does not slow them. That of a process that is stopped begins
 * when the process goes on. One that failed is tried again.
 *
 * Thread safety: one thread creates, ticks, finishes and destroys; records arrive on the engine's
 * workers, several at a time, but those of one target's capture in order. */
#ifndef SONDE_SERVICE_ENGINE_RECORD_RECORD_H
#define SONDE_SERVICE_ENGINE_RECORD_RECORD_H

#include "api/profile/event.h"
#include "service/engine/engine.h"

#define RECORD_WINDOW_MS  10000u
#define RECORD_HEAP_MS    60000u /* between two snapshots of a heap */
#define RECORD_RETRY_MS   1000u  /* before a failed capture is started again; it doubles */
#define RECORD_MAX_TRY_MS 30000u /* up to this */
#define RECORD_MAX_WAIT_S 2u     /* for the last windows, in record_finish */
#define RECORD_FRESH_MS   1000u  /* record_cut leaves younger windows open */
#define RECORD_MAX_WAITS  64u    /* processes without the guest that have off-CPU time */
#define RECORD_REFUSAL    256    /* bytes of a sentence */

struct record {
    enum sonde_event_id event;          /* the profile's last sample type is its amount */
    const struct engine_target *target; /* as it attached */
    const char *cgroup;                 /* cgroup.h; "" = unknown */
    struct sonde_profile *profile;      /* the receiver takes it */
    int64_t begin_unix_ns, end_unix_ns; /* MEM_INUSE: both are the time of the snapshot */
    uint64_t period_ns, samples, dropped, truncated;
    uint64_t cpu_from_ns, cpu_until_ns; /* as in store_window */
    const char *clock;
    double weight;   /* what each value stands for; 1 unless processes were drawn */
    bool is_outside; /* of a process that was not prepared (machine.h) */
};

/* How a target is recorded. */
struct record_choice {
    uint32_t frequency_hz; /* 0 = not */
    double weight;
    bool is_left_out; /* it is one of those to be recorded, but was not drawn */
};

struct record_options {
    uint32_t frequency_hz, window_ms, heap_ms;
    uint64_t now_monotonic_ms; /* as for record_tick */
    double max_overhead;
    uint32_t off_cpu_ms; /* interval at which to look at blocked threads; 0 = no off-CPU time */
    /* Of which processes, with the guest or (machine) without; NULL = of all that have the guest.
     * Once for each process with the guest, and in each window for the others. No lock is held. */
    bool (*wants_waits)(void *context, const struct engine_target *target, const char *cgroup);
    bool no_heap;
    /* Also the CPU time of all other processes, from outside. Needs the right to sample the whole
     * machine; without it, record_refusal says why there is none. */
    bool machine;
    /* Asked when a target attaches and at each tick: when the answer changes, the target's window
     * ends, and another begins. Asked for target NULL, the answer is for the stream of the whole
     * machine; each process in it is asked for when a window ends. NULL = every target at
     * frequency_hz. With a lock held: it must not call the recorder. */
    struct record_choice (*choose)(void *context, const struct engine_target *target);
    /* After each tick: how many targets are recorded by choice, and how many are left out. With
     * that lock held. May be NULL. */
    void (*on_counts)(void *context, uint32_t recorded, uint32_t left_out);
    void (*on_record)(void *context, const struct record *record);
    void (*on_gone)(void *context, const struct engine_target *target); /* engine thread */
    void *context;
};

struct recorder;

/* Starts recording all targets, present and future ones. */
SONDE_MUST_USE sonde_err record_create(struct engine *engine, const struct record_options *options,
                                       struct recorder **recorder, struct sonde_diag *diag);
/* Starts what is due: snapshots, and captures that failed before. Call it about every second. */
void record_tick(struct recorder *recorder, uint64_t now_monotonic_ms);
/* Number of processes that are recorded. Any thread. */
uint32_t record_count(struct recorder *recorder);
/* Of these, the number of those whose guests record them. Any thread. */
uint32_t record_count_guests(struct recorder *recorder);
/* Since when the others are recorded; 0 = they are not. Any thread. */
int64_t record_since_unix_ns(struct recorder *recorder);
/* Why the other processes are not recorded; "" = they are, or nobody asked for them. Any thread. */
void record_refusal(struct recorder *recorder, char text[RECORD_REFUSAL]);
/* Processes that are to have off-CPU time and have none, because RECORD_MAX_WAITS others have. Any
 * thread. */
uint32_t record_waits_left_out(struct recorder *recorder);
/* Ends the open windows, and waits up to wait_ms until they are delivered. What was sampled more
 * than RECORD_FRESH_MS before has been delivered then, unless its process is stopped. Any
 * thread. */
void record_cut(struct recorder *recorder, uint32_t wait_ms);
/* Ends all captures and waits up to RECORD_MAX_WAIT_S for their last windows. Nothing new
 * starts. */
void record_finish(struct recorder *recorder);
/* After record_finish: whether no request runs any more. */
bool record_is_idle(struct recorder *recorder);
/* When no event can arrive: after engine_destroy, or when record_is_idle. NULL is fine. */
void record_destroy(struct recorder *recorder);

#endif
