/* SPDX-License-Identifier: Apache-2.0
 *
 * The spool: what hosts have sent and the store has not acknowledged, on disk. A host's window is
 * acknowledged to it only when it is here, so that neither a store that is away nor a controller
 * that is killed loses anything.
 *
 *     spool_add ─▶ open segment ─▶ (fdatasync, for many entries at once) ─▶ on_durable
 *                       │ full, or old enough and no other one waits
 *                       ▼
 *                 sealed segments, in order ─▶ spool_take ─▶ spool_done: deleted
 *
 * An entry is one packed sonde.v1.WriteRequest. A segment is a file of entries, each with its
 * length and a checksum, compressed with zstd. While the store is away or slow, segments become
 * large, so that few large requests make up for it. Segments are read back in order after a
 * restart. One with a wrong checksum or a cut end gives what is whole; the file is moved to
 * DIR/damaged and counted. When limit_bytes is reached, or the disk is full, spool_add refuses: the
 * caller stops reading from hosts, which keep their windows and try again.
 *
 * One process at a time uses a directory (flock). Thread safety: any thread, except open and
 * close. */
#ifndef SONDE_CLIENTS_COLLECT_SPOOL_SPOOL_H
#define SONDE_CLIENTS_COLLECT_SPOOL_SPOOL_H

#include "api/bytes.h"
#include "api/error.h"

#define SPOOL_LIMIT_BYTES   (4ull << 30)
#define SPOOL_MAX_ENTRY     ((4u << 20) - 4096) /* a Write request has at most 4 MiB */
#define SPOOL_SEGMENT_BYTES (16u << 20)         /* uncompressed, at which a segment is sealed */
#define SPOOL_SEAL_MS       2000u               /* age at which one is sealed if no other waits */
#define SPOOL_SYNC_MS       100u                /* entries of this time are synced together */

struct spool;

struct spool_options {
    const char *dir; /* created if it is missing, 0700 */
    uint64_t limit_bytes;
    void (*log)(const char *line);
};

struct spool_state {
    uint64_t bytes, limit_bytes; /* on disk */
    uint32_t segments, damaged_segments;
    uint64_t damaged_bytes;
    int64_t oldest_unix_ns; /* when the oldest entry was added; 0 = empty */
    char trouble[256];      /* why nothing can be added; "" = all is well */
};

/* SONDE_IO, SONDE_INVALID_ARGUMENT, SONDE_NOT_AVAILABLE (another process has it). */
SONDE_MUST_USE sonde_err spool_open(const struct spool_options *options, struct spool **spool,
                                    struct sonde_diag *diag);
/* Syncs what was added and calls its on_durable. NULL is fine. */
void spool_close(struct spool *spool);

/* What is said of an entry: for the sender. */
struct spool_entry {
    uint64_t source; /* of the windows in it: whom to ask for unknown stacks */
    uint32_t windows;
    struct sonde_slice bytes;
};
/* Copies the entry. on_durable runs once, on the spool's thread; is_durable false: it was not
 * stored (the disk is full or fails) and must be sent again by the host. Errors: SONDE_UNAVAILABLE
 * (full, see spool_state.trouble), SONDE_TOO_LARGE, SONDE_OUT_OF_MEMORY; then nothing was added and
 * on_durable is not called. */
SONDE_MUST_USE sonde_err spool_add(struct spool *spool, const struct spool_entry *entry,
                                   void (*on_durable)(void *context, bool is_durable),
                                   void *context, struct sonde_diag *diag);

struct spool_segment {
    uint64_t number;
    int64_t unix_ns; /* of its first entry */
    size_t count;
    struct spool_entry *entries; /* bytes are in the segment's memory */
};
/* The oldest sealed segment that is not taken; waits at most wait_ms. NULL = there is none. The
 * order of segments is that of the entries. */
struct spool_segment *spool_take(struct spool *spool, uint32_t wait_ms);
/* The store has the segment: deletes it. */
void spool_done(struct spool *spool, struct spool_segment *segment);
/* It was not stored: the next spool_take gives it again. */
void spool_put_back(struct spool *spool, struct spool_segment *segment);
/* Ends present and future waits of spool_take. */
void spool_wake(struct spool *spool);
void spool_state(struct spool *spool, struct spool_state *state);

#endif
