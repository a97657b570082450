/* SPDX-License-Identifier: Apache-2.0
 *
 * Records as the store wants them: windows of (stack, thread, value), the stacks and frames that
 * the store does not know yet, and the names of frames.
 *
 *     record ── profile ──▶ window
 *                      ├──▶ stacks, frames     only those that are new since the start (known.h)
 *                      └──▶ frames again       when their names have become better
 *
 * A frame's version is the quality of its names: 0 none, 1 functions, 2 with file and line. So all
 * senders agree on which names are better. Frames without a file, of code that was generated at run
 * time, are identified by their function, because their addresses mean nothing later.
 *
 * Errors: SONDE_OUT_OF_MEMORY. Thread safety: one thread at a time. */
#ifndef SONDE_SERVICE_RECORDING_BATCH_H
#define SONDE_SERVICE_RECORDING_BATCH_H

#include "service/engine/record/record.h"
#include "service/recording/known.h"
#include "service/recording/labels.h"
#include "service/recording/totals.h"
#include "service/store/list.h"
#include "service/store/store.h"

struct batch {
    /* Delivery identity; seq is that of the next window. */
    uint64_t source, seq;
    uint32_t epoch;
    char host[256];

    struct known stacks, frames;

    struct sonde_arena arena;
    struct store_list windows, new_stacks, new_frames, totals;
};

void batch_init(struct batch *batch, uint64_t source, uint32_t epoch, const char *host);
void batch_finish(struct batch *batch);

/* lost: samples that were dropped before this record could be stored; they are counted as its
 * drops. record->profile is borrowed until batch_clear. labels_refused may be NULL. */
SONDE_MUST_USE sonde_err batch_add(struct batch *batch, const struct record *record, uint64_t lost,
                                   uint32_t *labels_refused);
SONDE_MUST_USE sonde_err batch_add_totals(struct batch *batch, const struct totals_row *rows,
                                          size_t count, int64_t begin_unix_ns, int64_t end_unix_ns);
/* Valid until the next call. */
struct store_batch batch_get(const struct batch *batch);
/* After the batch was stored. */
void batch_clear(struct batch *batch);
/* The batch was not stored: everything is sent again with the next records. */
void batch_forget(struct batch *batch);

#endif
