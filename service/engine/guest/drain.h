/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the rings of service/guest/ring.h: shared memory that a hostile process may write at any
 * moment. A pure function over that memory, without system calls and clocks, so that it can be
 * fuzzed.
 *
 * Every record is copied and then checked in the copy, because the guest may change the original.
 * sonded keeps its own tails, and accepts a head only within the length of the ring. If a ring
 * breaks the rules, that is counted ("corrupt"), and the ring is emptied and read on from its head.
 * After DRAIN_MAX_RESYNCS times it is abandoned. Thread safety: engine thread only. */
#ifndef SONDE_SERVICE_ENGINE_GUEST_DRAIN_H
#define SONDE_SERVICE_ENGINE_GUEST_DRAIN_H

#include "api/error.h"
#include "service/guest/ring.h"

#include <stdbool.h>
#include <stddef.h>

#define DRAIN_MAX_RESYNCS 8u
#define DRAIN_LOOK        16u
/* How long an unpublished record may hold up the records behind it. */
#define DRAIN_STALL_NS   1000000000ull
#define DRAIN_MAX_WEIGHT 86400000000000ull /* of one record: a day */

struct drain_ring {
    struct ring_control *control;
    char *data;
    uint64_t tail;
    uint64_t stall_since_ns; /* when the record at tail was first seen unpublished; 0 = never */
    uint32_t resyncs;
    bool is_abandoned;
};

struct drain {
    struct ring_header *header;
    struct drain_ring rings[RING_MAX_RINGS];
    uint32_t ring_count;
    uint64_t ring_bytes;
    uint32_t next_ring; /* first ring of the next run, so that all rings are served */
    bool has_more;      /* the last run used up its budget or its time */
    bool is_late;       /* the last run used up its time */
    uint64_t taken;     /* bytes of records read in the last run */
    uint64_t records;   /* their number */
};

/* The guest's counters since it created the rings. */
struct drain_counts {
    uint64_t drops[RING_DROP_COUNT];
    uint64_t handler_ns, handler_count;
};

/* Records are valid during the call; a sample's pcs follow it. */
struct drain_sink {
    void *context;
    void (*on_sample)(void *context, const struct ring_sample *sample);
    void (*on_thread)(void *context, const struct ring_thread *thread);
    void (*on_unseen)(void *context, const struct ring_unseen *unseen);
    void (*on_blocked)(void *context, const struct ring_sample *sample);
    void (*on_span)(void *context, const struct ring_span *span);
    /* Whether the time of this run is used up; asked after DRAIN_LOOK records. NULL = never. */
    bool (*is_over)(void *context);
};

/* Checks the header. The `bytes` of memory must stay mapped, and their file must not shrink, while
 * drain is in use. Starts at the tails in the memory. SONDE_CORRUPT. */
SONDE_MUST_USE sonde_err drain_init(struct drain *drain, void *memory, size_t bytes,
                                    struct sonde_diag *diag);
/* Reads published records, up to about `budget` bytes (0 = no limit) or until sink->is_over, so
 * that a guest whose records are many or slow to handle does not delay the others. Returns how
 * often something was corrupt. */
uint64_t drain_run(struct drain *drain, uint64_t now_ns, uint64_t budget,
                   const struct drain_sink *sink);
/* Empties the rings without reading them. Returns the estimated number of records, as if they were
 * as long as those of the last run. */
uint64_t drain_discard(struct drain *drain);
void drain_read_counts(const struct drain *drain, struct drain_counts *counts);
/* Size of the memory of ring_count rings. */
size_t drain_memory_bytes(uint32_t ring_count, uint64_t ring_bytes);

#endif
