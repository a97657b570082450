/* SPDX-License-Identifier: Apache-2.0
 *
 * Records on their way from the engine's workers to a thread that writes them to the store or sends
 * them. Bounded: what does not fit is dropped and counted, and the next record of the same process
 * carries its samples as drops. Thread safety: any thread, except create and destroy. */
#ifndef SONDE_SERVICE_RECORDING_QUEUE_H
#define SONDE_SERVICE_RECORDING_QUEUE_H

#include "service/engine/record/record.h"
#include "service/host/processes/cgroup.h"
#include "service/recording/totals.h"

#define QUEUE_BYTES  (64u << 20)
#define QUEUE_LOSSES 256 /* processes whose lost samples are remembered */

/* A record, or the totals of one interval. */
struct queue_item {
    struct queue_item *next;
    size_t bytes;
    struct record record; /* its texts are the arrays below; profile NULL = these are totals */
    struct engine_target target;
    char cgroup[CGROUP_BYTES], clock[24];
    uint64_t lost; /* samples of earlier records that were dropped */
    struct totals_row *rows;
    size_t row_count;
};

struct queue;

struct queue *queue_create(size_t limit_bytes); /* NULL when out of memory */
void queue_destroy(struct queue *queue);        /* NULL is fine */
/* Takes record->profile. */
void queue_add_record(struct queue *queue, const struct record *record);
/* Copies the rows. */
void queue_add_totals(struct queue *queue, const struct totals_row *rows, size_t count,
                      int64_t begin_unix_ns, int64_t end_unix_ns);
/* Waits until there is something, for at most wait_ms or until queue_wake. Returns a list of about
 * max_bytes at most, oldest first, or NULL. The caller frees it with queue_free. */
struct queue_item *queue_take(struct queue *queue, size_t max_bytes, uint32_t wait_ms);
void queue_free(struct queue_item *list);
/* Ends all present and future waits. */
void queue_wake(struct queue *queue);
/* Drops what is there, and everything that arrives, and counts it. */
void queue_close(struct queue *queue);
/* Records that were dropped; queue_count_lost adds those that the store did not take. */
uint64_t queue_lost(struct queue *queue);
void queue_count_lost(struct queue *queue, uint64_t records);
size_t queue_bytes(struct queue *queue);   /* of what waits */
uint64_t queue_added(struct queue *queue); /* items, since the start */

#endif
