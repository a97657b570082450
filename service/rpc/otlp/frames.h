/* SPDX-License-Identifier: Apache-2.0
 *
 * The stacks of an OTLP dictionary, as frames for the store. A frame is identified by its build-id
 * (or module) and its offset in the file, as in service/recording, so that the same code is one
 * frame whoever sent it. Internal to service/rpc/otlp. Thread safety: one thread at a time. */
#ifndef SONDE_SERVICE_RPC_OTLP_FRAMES_H
#define SONDE_SERVICE_RPC_OTLP_FRAMES_H

#include "service/rpc/otlp/message.h"
#include "service/store/list.h"
#include "service/store/store.h"

/* Bounds of one request. Tables refer to each other, so a small request can stand for much work. */
#define OTLP_MAX_HASHED ((size_t)4 << 20)  /* frames of all stacks */
#define OTLP_MAX_TEXT   ((size_t)64 << 20) /* bytes of the names of all frames */

struct otlp_frames {
    const otlp_dictionary *dictionary;
    struct sonde_arena *arena;
    struct store_list added; /* struct store_frame */
    uint64_t *ids;           /* per location; 0 = not computed yet */
    uint64_t **stacks;       /* per stack; NULL = not computed yet */
    size_t hashed, text;
};

/* SONDE_OUT_OF_MEMORY. Call otlp_frames_finish in any case. */
SONDE_MUST_USE sonde_err otlp_frames_init(struct otlp_frames *frames,
                                          const otlp_dictionary *dictionary,
                                          struct sonde_arena *arena);
void otlp_frames_finish(struct otlp_frames *frames);

/* The ids of a stack's frames, leaf first; at most STORE_MAX_DEPTH. count 0 = it is empty or not in
 * the table. SONDE_TOO_LARGE beyond the bounds above. */
SONDE_MUST_USE sonde_err otlp_frames_stack(struct otlp_frames *frames, int32_t index,
                                           const uint64_t **ids, uint32_t *count,
                                           struct sonde_diag *diag);
/* Counts `count` frames that are about to be hashed; SONDE_TOO_LARGE. */
SONDE_MUST_USE sonde_err otlp_frames_charge(struct otlp_frames *frames, size_t count,
                                            struct sonde_diag *diag);

#endif
