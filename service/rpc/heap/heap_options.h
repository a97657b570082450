/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of a heap request, parsed and checked before anything starts, and the rendering of
 * its answer. Thread safety: any thread. */
#ifndef SONDE_SERVICE_RPC_HEAP_HEAP_OPTIONS_H
#define SONDE_SERVICE_RPC_HEAP_HEAP_OPTIONS_H

#include "api/draw/draw.h"
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/engine/heap/heap.h"

/* The strings point into the request. */
struct heap_options {
    const struct sonde_format_info *info;
    struct sonde_draw_options drawing;
    const char *name;       /* of a periodic dump; NULL = the heap now */
    const char *base;       /* the periodic dump to compare with; NULL = none */
    uint32_t delta_ms;      /* compare with the heap this long before; 0 = do not */
    uint64_t older_than_ms; /* 0 = all */
    bool growth_only, require_active;
    bool ended; /* the process has ended */
    bool keep_allocator_frames;
};

SONDE_MUST_USE sonde_err heap_options_of_snapshot(const Sonde__V1__HeapSnapshotRequest *request,
                                                  struct heap_options *options,
                                                  struct sonde_diag *diag);
SONDE_MUST_USE sonde_err heap_options_of_dump(const Sonde__V1__GetHeapDumpRequest *request,
                                              struct heap_options *options,
                                              struct sonde_diag *diag);
/* Whether the answer is a difference. */
static inline bool heap_options_compares(const struct heap_options *options) {
    return options->base || options->delta_ms > 0;
}

/* Checks that the two can be compared. SONDE_INVALID_ARGUMENT, or SONDE_NOT_AVAILABLE for a
 * delta. */
SONDE_MUST_USE sonde_err heap_options_check_epochs(const struct heap_options *options,
                                                   uint64_t base, uint64_t now,
                                                   struct sonde_diag *diag);
/* Renders the answer and takes both profiles; base may be NULL. *samples is the number of samples.
 * A large result goes to the sink, except its last bytes, which go to out. */
SONDE_MUST_USE sonde_err heap_options_draw(const struct heap_options *options,
                                           struct sonde_profile *base, struct sonde_profile *now,
                                           const struct sonde_draw_sink *sink,
                                           struct sonde_buf *out, uint64_t *samples,
                                           struct sonde_diag *diag);

#endif
