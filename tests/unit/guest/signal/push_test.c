/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing to the rings, with a consumer that is slow or hostile. */
#include "service/guest/signal/push.h"

#include "tests/unit/check.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#define PRODUCERS 4
#define EACH      20000
#define CROWD     16  /* producers that take turns */
#define CALM      256 /* records that they leave unread: far fewer than fit */

static struct ring_set make_rings(uint32_t count, uint64_t bytes) {
    size_t size = RING_PAGE + count * (RING_PAGE + bytes);
    struct ring_header *header = aligned_alloc(RING_PAGE, size);
    CHECK(header);
    memset(header, 0, size);
    return (struct ring_set){header, count, bytes};
}

/* Consumes all records and returns their number. */
static int take_all(const struct ring_set *rings, uint32_t index, uint64_t *pad_bytes) {
    struct ring_control *ring = ring_control_of(rings, index);
    char *data = (char *)ring + RING_PAGE;
    int count = 0;
    uint64_t tail = ring->tail;
    while (tail < ring->head) {
        struct ring_record *record = (struct ring_record *)(data + tail % rings->bytes);
        uint32_t size = atomic_load(&record->size);
        if (size == 0)
            break;
        if (record->kind == RING_RECORD_PAD)
            *pad_bytes += size;
        else
            count++;
        memset(record, 0, size);
        tail += size;
        ring->tail = tail;
    }
    return count;
}

TEST(ring_push_on_full_ring_counts_a_drop) {
    struct ring_set rings = make_rings(1, RING_MIN_BYTES);
    int pushed = 0;
    uint64_t pads = 0;
    while (ring_push_unseen(&rings, 7, 1000, RING_UNSEEN_SHORT))
        pushed++;
    CHECK_INT(pushed, ==, RING_MIN_BYTES / sizeof(struct ring_unseen));
    CHECK_INT(rings.header->drops[RING_DROP_FULL], ==, 1);
    CHECK_INT(rings.header->dropped_ns, ==, 1000);
    CHECK_INT(take_all(&rings, 0, &pads), ==, pushed);
    CHECK(ring_push_unseen(&rings, 7, 1000, RING_UNSEEN_SHORT));
    free(rings.header);
}

TEST(ring_records_never_wrap) {
    struct ring_set rings = make_rings(1, RING_MIN_BYTES);
    uint64_t pads = 0;
    int records = 0;
    for (int i = 0; i < 5000; i++) {
        uint32_t size = 16 + 8 * (uint32_t)(i % 100);
        struct ring_record *record = ring_reserve(&rings, 0, size, 0);
        CHECK(record);
        char *data = (char *)ring_control_of(&rings, 0) + RING_PAGE;
        CHECK((char *)record >= data && (char *)record + size <= data + rings.bytes);
        memset((char *)record + 16, 0xab, size - 16);
        record->kind = RING_RECORD_SAMPLE;
        ring_publish(record, size);
        records += take_all(&rings, 0, &pads);
    }
    CHECK_INT(records, ==, 5000);
    CHECK_INT(pads, >, 0);
    free(rings.header);
}

TEST(ring_threads_choose_rings_by_tid) {
    struct ring_set rings = make_rings(4, RING_MIN_BYTES);
    for (uint32_t tid = 0; tid < 8; tid++)
        CHECK(ring_push_unseen(&rings, tid, 1, RING_UNSEEN_SHORT));
    for (uint32_t i = 0; i < 4; i++)
        CHECK_INT(ring_control_of(&rings, i)->head, ==, 2 * sizeof(struct ring_unseen));
    free(rings.header);
}

TEST(ring_survives_wrong_counts_from_the_other_side) {
    struct ring_set rings = make_rings(1, RING_MIN_BYTES);
    struct ring_control *ring = ring_control_of(&rings, 0);
    uint64_t wrong[] = {1, 7, RING_MIN_BYTES - 1, 1ull << 63, UINT64_MAX, UINT64_MAX - 100};
    for (size_t i = 0; i < 6; i++)
        for (size_t j = 0; j < 6; j++) {
            ring->head = wrong[i];
            ring->tail = wrong[j];
            struct ring_record *record = ring_reserve(&rings, 0, 1064, 0);
            char *data = (char *)ring + RING_PAGE;
            if (record)
                CHECK((char *)record >= data && (char *)record + 1064 <= data + rings.bytes);
        }
    free(rings.header);
}

/* Free memory of a ring is zero, unless sonded writes to it. */
TEST(a_name_stays_within_its_record_whatever_the_memory_holds) {
    struct ring_set rings = make_rings(1, RING_MIN_BYTES);
    unsigned char *data = (unsigned char *)ring_control_of(&rings, 0) + RING_PAGE;
    memset(data, 0xff, RING_MIN_BYTES);
    CHECK(ring_push_thread(&rings, 7, "worker\0\0\0\0\0\0\0\0\0", 3, "abc", 0));
    const struct ring_thread *thread = (const struct ring_thread *)data;
    CHECK_INT(thread->label_len, ==, 3);
    CHECK(memcmp(thread->text, "abc", 3) == 0);
    for (size_t i = sizeof *thread; i < RING_MIN_BYTES; i++)
        CHECK_INT(data[i], ==, 0xff);
    free(rings.header);
}

static struct ring_set shared;

static void *produce(void *tid) {
    for (int i = 0; i < EACH; i++)
        ring_push_unseen(&shared, (uint32_t)(uintptr_t)tid * 2, 1, RING_UNSEEN_SHORT);
    return NULL;
}

TEST(ring_many_producers_lose_only_what_is_counted) {
    pthread_t threads[PRODUCERS];
    uint64_t pads = 0, taken = 0;
    shared = make_rings(2, RING_MIN_BYTES);
    for (uintptr_t i = 0; i < PRODUCERS; i++)
        pthread_create(&threads[i], NULL, produce, (void *)i);
    for (int empty = 0; empty < 200;) {
        int now = take_all(&shared, 0, &pads);
        taken += (uint64_t)now;
        empty = now ? 0 : empty + 1;
        usleep(now ? 0 : 1000);
    }
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(threads[i], NULL);
    taken += (uint64_t)take_all(&shared, 0, &pads);
    uint64_t dropped =
        shared.header->drops[RING_DROP_FULL] + shared.header->drops[RING_DROP_CONTENDED];
    CHECK_INT(taken + dropped, ==, PRODUCERS * EACH);
    CHECK_INT(dropped, ==, shared.header->dropped_ns);
    free(shared.header);
}

static _Atomic int64_t unread;

static void *produce_calmly(void *tid) {
    for (int i = 0; i < EACH; i++) {
        while (atomic_load(&unread) > CALM)
            sched_yield();
        if (ring_push_unseen(&shared, (uint32_t)(uintptr_t)tid, 1, RING_UNSEEN_SHORT))
            atomic_fetch_add(&unread, 1);
    }
    return NULL;
}

/* A producer that loses its processor has an old head, which the tail may have passed. */
TEST(a_ring_with_room_is_never_full) {
    pthread_t threads[CROWD];
    uint64_t pads = 0, taken = 0;
    shared = make_rings(1, RING_MIN_BYTES);
    for (uintptr_t i = 0; i < CROWD; i++)
        pthread_create(&threads[i], NULL, produce_calmly, (void *)i);
    for (;;) {
        uint64_t dropped = *ring_drops(shared.header, RING_DROP_FULL) +
                           *ring_drops(shared.header, RING_DROP_CONTENDED);
        if (taken + dropped == (uint64_t)CROWD * EACH)
            break;
        int now = take_all(&shared, 0, &pads);
        taken += (uint64_t)now;
        atomic_fetch_sub(&unread, now);
    }
    for (int i = 0; i < CROWD; i++)
        pthread_join(threads[i], NULL);
    CHECK_INT(*ring_drops(shared.header, RING_DROP_FULL), ==, 0);
    free(shared.header);
}
