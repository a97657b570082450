/* SPDX-License-Identifier: Apache-2.0
 *
 * The consumer of service/guest/ring.h: takes records out of shared memory that a hostile process
 * may write at any moment. A pure function over that memory: no system calls, no clocks, so that it
 * can be fuzzed.
 *
 * Every record is copied out first and checked in the copy, because the guest may change it
 * meanwhile. sonded keeps its own tail and believes the guest's head only as far as the ring is
 * long. A ring that breaks the rules is counted
 * ("corrupt"), emptied and read on from its head; after DRAIN_MAX_RESYNCS it is left alone for
 * good. Thread safety: drain thread only. */
#ifndef SONDE_SERVICE_ENGINE_GUEST_LINK_DRAIN_H
#define SONDE_SERVICE_ENGINE_GUEST_LINK_DRAIN_H

#include "api/error.h"
#include "service/guest/ring.h"

#include <stdbool.h>
#include <stddef.h>

#define DRAIN_MAX_RESYNCS 8u
#define DRAIN_STALL_NS \
    1000000000ull /* an unpublished record that holds up others for so long is given up */
#define DRAIN_MAX_WEIGHT 86400000000000ull /* of one record: a day */

struct drain_ring {
    struct ring_control *control;
    char *data;
    uint64_t tail;
    uint64_t stall_since_ns; /* 0 = the record at tail is not awaited */
    uint32_t resyncs;
    bool is_abandoned;
};

struct drain {
    struct ring_header *header;
    struct drain_ring rings[RING_MAX_RINGS];
    uint32_t ring_count;
    uint64_t ring_bytes;
    uint32_t next_ring; /* where the next run begins, so that every ring has its turn */
    bool has_more;      /* the last run ended at its budget */
    uint64_t taken;     /* bytes of records in the last run */
};

/* What a guest has counted since its rings were made. */
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
};

/* Checks the header against `bytes` of memory, which must stay mapped, and cannot shrink, as long
 * as drain is used. Starts at the tails it finds. SONDE_CORRUPT. */
SONDE_MUST_USE sonde_err drain_init(struct drain *drain, void *memory, size_t bytes,
                                    struct sonde_diag *diag);
/* Takes what is published, at most about `budget` bytes (0 = one lap of each ring): a guest that
 * writes as fast as it can must not keep the others waiting. Returns how often something was
 * corrupt. */
uint64_t drain_run(struct drain *drain, uint64_t now_ns, uint64_t budget,
                   const struct drain_sink *sink);
void drain_read_counts(const struct drain *drain, struct drain_counts *counts);
/* Bytes a memory of so many rings has. */
size_t drain_memory_bytes(uint32_t ring_count, uint64_t ring_bytes);

#endif
