/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps history: what the engine's recorder delivers, and the CPU time of every process, go to a
 * store. A second receiver sees every record first (service/export). Either may be missing.
 *
 *     engine's workers ── records ─┬─▶ queue ──▶ writer thread ── batches ──▶ store
 *     clock thread ───── totals ───┼─▶
 *                                  └─▶ on_record
 *
 * A store that is unavailable for a while is tried again; meanwhile the queue fills up, and what
 * does not fit is counted. A store that fails for good ends the recording with one message, and the
 * service goes on without it; so does the second receiver.
 *
 * Thread safety: one thread starts, finishes and destroys; recording_state from any thread. */
#ifndef SONDE_SERVICE_RECORDING_RECORDING_H
#define SONDE_SERVICE_RECORDING_RECORDING_H

#include "service/engine/record/record.h"
#include "service/function_times/function_times.h"
#include "service/recording/identity.h"
#include "service/store/store.h"

#define RECORDING_HZ           19
#define RECORDING_MAX_OVERHEAD 0.005 /* of a target's CPU time */
#define RECORDING_BATCH_BYTES  (8u << 20)
#define RECORDING_STEP_S       2    /* the date is set by more: reported */
#define RECORDING_GATHER_MS    300  /* windows of many targets end together: one batch */
#define RECORDING_REFRESH_MS   1500 /* longest wait of recording_refresh */
#define RECORDING_RETRY_S      1    /* the first pause after a failure; it doubles */
#define RECORDING_MAX_RETRY_S  30

struct recording;

struct recording_options {
    struct engine *engine;
    struct store *store; /* must outlive the recording; NULL = nothing is stored */
    /* Of the windows, and the number of the first one. NULL: a source of the recording's own. */
    const struct identity *identity;
    uint64_t first_seq;
    bool no_heap, no_totals;
    bool machine;        /* also processes without the guest (record.h) */
    double max_overhead; /* 0 = RECORDING_MAX_OVERHEAD */
    struct record_choice (*choose)(void *context,
                                   const struct engine_target *target);     /* record.h */
    void (*on_counts)(void *context, uint32_t recorded, uint32_t left_out); /* the same */
    uint32_t frequency_hz, window_ms, off_cpu_ms; /* 0 = 19 Hz, 10 s, no off-CPU time */
    /* Which processes have off-CPU time, with the guest or (machine) without; NULL = those that
     * have it. It must outlive the recording. */
    const struct selector *off_cpu_of;
    size_t queue_bytes;               /* 0 = 64 MiB */
    struct function_times *functions; /* gets windows of guests; NULL = none */
    void (*log)(const char *line);
    /* May be NULL. On the engine's workers, several at a time. The profile is borrowed; share it to
     * keep it. */
    void (*on_record)(void *context, const struct record *record);
    void *context;
};

struct recording_state {
    uint32_t targets, guests;     /* processes that are being recorded; of them by their guests */
    int64_t since_unix_ns;        /* since when the others are; 0 = they are not */
    uint64_t lost_windows;        /* since the start */
    uint32_t waits_left_out;      /* record_waits_left_out */
    char trouble[256];            /* why nothing is stored at the moment; "" = all is well */
    char refusal[RECORD_REFUSAL]; /* record_refusal */
};

/* SONDE_OUT_OF_MEMORY: nothing is recorded. */
SONDE_MUST_USE sonde_err recording_start(const struct recording_options *options,
                                         struct recording **recording, struct sonde_diag *diag);
void recording_state(struct recording *recording, struct recording_state *state);
/* Ends the open windows and waits until the store has them, so that a query finds what was sampled
 * until about a second ago. Windows that are younger stay open, which limits how many there are. A
 * store that takes nothing at the moment is not waited for. Any thread, before
 * recording_destroy. */
void recording_refresh(struct recording *recording);
/* Only from the store's put: later batches have all stacks and frames again, because the store has
 * forgotten some. */
void recording_forget(struct recording *recording);
/* The number of the next window. After recording_finish. */
uint64_t recording_next_seq(const struct recording *recording);
/* Ends the windows and stores them, which takes a few seconds at most. Before engine_destroy. */
void recording_finish(struct recording *recording); /* NULL is fine */
/* After recording_finish: whether it may be destroyed while the engine lives. */
bool recording_is_idle(struct recording *recording);
/* After engine_destroy, or when it is idle. NULL is fine. */
void recording_destroy(struct recording *recording);

#endif
