/* SPDX-License-Identifier: Apache-2.0 */
#include "service/recording/queue.h"

#include "api/base/clock.h"
#include "api/profile/event.h"
#include "service/locks.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct loss {
    char instance[33];
    enum sonde_event_id event;
    uint64_t samples;
};

struct queue {
    struct lock lock;
    pthread_cond_t changed;
    struct queue_item *first, **last;
    size_t bytes, limit_bytes;
    bool is_awake, is_closed;
    uint64_t added, lost;
    struct loss losses[QUEUE_LOSSES];
    uint32_t loss_count;
};

struct queue *queue_create(size_t limit_bytes) {
    struct queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return NULL;
    lock_init(&queue->lock, LOCK_RECORDING);
    pthread_cond_init(&queue->changed, NULL);
    queue->last = &queue->first;
    queue->limit_bytes = limit_bytes;
    return queue;
}

void queue_free(struct queue_item *list) {
    while (list) {
        struct queue_item *next = list->next;
        sonde_profile_destroy(list->record.profile);
        free(list->rows);
        free(list);
        list = next;
    }
}

void queue_destroy(struct queue *queue) {
    if (!queue)
        return;
    queue_free(queue->first);
    pthread_cond_destroy(&queue->changed);
    lock_finish(&queue->lock);
    free(queue);
}

static struct loss *find_loss(struct queue *queue, const struct record *record) {
    for (uint32_t i = 0; i < queue->loss_count; i++)
        if (queue->losses[i].event == record->event &&
            strcmp(queue->losses[i].instance, record->target->uuid) == 0)
            return &queue->losses[i];
    return NULL;
}

static void count_loss(struct queue *queue, const struct record *record) {
    struct loss *loss = find_loss(queue, record);
    queue->lost++;
    if (!loss && queue->loss_count < QUEUE_LOSSES) {
        loss = &queue->losses[queue->loss_count++];
        *loss = (struct loss){.event = record->event};
        memcpy(loss->instance, record->target->uuid, sizeof loss->instance);
    }
    if (loss)
        loss->samples += record->samples + record->dropped;
}

static uint64_t take_loss(struct queue *queue, const struct record *record) {
    struct loss *loss = find_loss(queue, record);
    uint64_t samples = loss ? loss->samples : 0;
    if (loss)
        *loss = queue->losses[--queue->loss_count];
    return samples;
}

/* With the lock held; takes the item. False: there is no room. */
static bool append(struct queue *queue, struct queue_item *item) {
    if (queue->is_closed || item->bytes > queue->limit_bytes - queue->bytes)
        return false;
    queue->bytes += item->bytes;
    *queue->last = item;
    queue->last = &item->next;
    queue->added++;
    pthread_cond_signal(&queue->changed);
    return true;
}

void queue_add_record(struct queue *queue, const struct record *record) {
    struct queue_item *item = calloc(1, sizeof *item);
    if (item) {
        item->record = *record;
        item->target = *record->target;
        item->record.target = &item->target;
        item->record.cgroup = item->cgroup;
        item->record.clock = item->clock;
        snprintf(item->cgroup, sizeof item->cgroup, "%s", record->cgroup);
        snprintf(item->clock, sizeof item->clock, "%s", record->clock);
        item->bytes = sizeof *item + sonde_profile_bytes(record->profile);
    }
    lock_take(&queue->lock);
    bool is_added = item && append(queue, item);
    if (is_added)
        item->lost = take_loss(queue, record);
    else
        count_loss(queue, record);
    lock_drop(&queue->lock);
    if (is_added)
        return;
    sonde_profile_destroy(record->profile);
    free(item);
}

void queue_add_totals(struct queue *queue, const struct totals_row *rows, size_t count,
                      int64_t begin_unix_ns, int64_t end_unix_ns) {
    struct queue_item *item = calloc(1, sizeof *item);
    struct totals_row *copy = malloc((count ? count : 1) * sizeof *copy);
    bool is_added = false;
    if (item && copy) {
        memcpy(copy, rows, count * sizeof *copy);
        item->rows = copy;
        item->row_count = count;
        item->record.begin_unix_ns = begin_unix_ns;
        item->record.end_unix_ns = end_unix_ns;
        item->bytes = sizeof *item + count * sizeof *copy;
    }
    lock_take(&queue->lock);
    if (item && copy)
        is_added = append(queue, item);
    queue->lost += !is_added;
    lock_drop(&queue->lock);
    if (is_added)
        return;
    free(copy);
    free(item);
}

/* With the lock held. */
static void wait_for_item(struct queue *queue, uint32_t wait_ms) {
    const struct timespec until = clock_wait_end(wait_ms);
    while (!queue->first && !queue->is_awake &&
           lock_wait_until(&queue->lock, &queue->changed, &until))
        continue;
}

struct queue_item *queue_take(struct queue *queue, size_t max_bytes, uint32_t wait_ms) {
    lock_take(&queue->lock);
    wait_for_item(queue, wait_ms);
    struct queue_item *list = queue->first, **end = &queue->first;
    size_t bytes = 0;
    while (*end && (bytes == 0 || bytes + (*end)->bytes <= max_bytes)) {
        bytes += (*end)->bytes;
        end = &(*end)->next;
    }
    queue->bytes -= bytes;
    if (list) {
        queue->first = *end;
        *end = NULL;
        if (!queue->first)
            queue->last = &queue->first;
    }
    lock_drop(&queue->lock);
    return list;
}

void queue_wake(struct queue *queue) {
    lock_take(&queue->lock);
    queue->is_awake = true;
    pthread_cond_broadcast(&queue->changed);
    lock_drop(&queue->lock);
}

void queue_close(struct queue *queue) {
    lock_take(&queue->lock);
    struct queue_item *list = queue->first;
    for (struct queue_item *item = list; item; item = item->next)
        queue->lost++;
    queue->first = NULL;
    queue->last = &queue->first;
    queue->bytes = 0;
    queue->is_closed = true;
    lock_drop(&queue->lock);
    queue_free(list);
}

uint64_t queue_lost(struct queue *queue) {
    lock_take(&queue->lock);
    uint64_t lost = queue->lost;
    lock_drop(&queue->lock);
    return lost;
}

void queue_count_lost(struct queue *queue, uint64_t records) {
    lock_take(&queue->lock);
    queue->lost += records;
    lock_drop(&queue->lock);
}

uint64_t queue_added(struct queue *queue) {
    lock_take(&queue->lock);
    uint64_t added = queue->added;
    lock_drop(&queue->lock);
    return added;
}

size_t queue_bytes(struct queue *queue) {
    lock_take(&queue->lock);
    size_t bytes = queue->bytes;
    lock_drop(&queue->lock);
    return bytes;
}
