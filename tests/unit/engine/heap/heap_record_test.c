/* SPDX-License-Identifier: Apache-2.0
 *
 * Snapshots of a real program's heap as a recorder delivers them. */
#include "service/engine/record/record.h"
#include "tests/unit/engine/heap/stage.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#define HEAP_MS   1000u
#define MAX_HEAPS 8

static const char *const plain[] = {"tests/unit/engine/heap/holder_plain", NULL};

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct record heaps[MAX_HEAPS];
    uint32_t count;
} kept = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void on_record(void *context, const struct record *record) {
    bool is_heap = record->event == SONDE_MEM_INUSE || record->event == SONDE_MEM_ALLOC;
    pthread_mutex_lock(&kept.mutex);
    if (is_heap && kept.count < MAX_HEAPS)
        kept.heaps[kept.count++] = *record;
    else
        sonde_profile_destroy(record->profile);
    pthread_cond_broadcast(&kept.changed);
    pthread_mutex_unlock(&kept.mutex);
}

static void wait_for(uint32_t count) {
    struct timespec until;
    int failed = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    pthread_mutex_lock(&kept.mutex);
    while (kept.count < count && !failed)
        failed = pthread_cond_timedwait(&kept.changed, &kept.mutex, &until);
    pthread_mutex_unlock(&kept.mutex);
    CHECK_INT(kept.count, ==, count);
}

static void check_heap(const struct record *record, enum sonde_event_id event) {
    const struct sonde_profile_info *info = sonde_profile_info(record->profile);
    CHECK_INT(record->event, ==, event);
    CHECK_INT(sonde_profile_type_count(record->profile), ==, 2);
    CHECK_STR(sonde_profile_type(record->profile, 1).type, sonde_events[event].amount.type.type);
    CHECK_INT(info->default_type, ==, 1);
    CHECK_INT(info->time_unix_ns, ==, record->begin_unix_ns);
    CHECK_INT(info->duration_ns, ==, record->end_unix_ns - record->begin_unix_ns);
}

TEST(a_snapshot_is_a_state_and_the_next_one_also_has_what_was_allocated_in_between) {
    const struct record_options options = {.frequency_hz = 19,
                                           .window_ms = 1000,
                                           .heap_ms = HEAP_MS,
                                           .max_overhead = 0.005,
                                           .on_record = on_record};
    const struct engine_heap_request activate = {
        .verb = ENGINE_HEAP_ACTIVATE, .sample_bytes = 65536, .owner = "test"};
    struct recorder *recorder;
    struct stage stage;
    stage_init(&stage, NULL, plain);
    CHECK_INT(stage_ask(&stage, activate).err, ==, SONDE_OK);
    stage_tell(&stage, 's');
    CHECK_INT(record_create(stage.engine, &options, &recorder, NULL), ==, SONDE_OK);
    while (record_count(recorder) == 0) /* until the recorder knows the program */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    record_tick(recorder, HEAP_MS);
    wait_for(1); /* there is nothing to compare with */
    check_heap(&kept.heaps[0], SONDE_MEM_INUSE);
    int64_t small = profile_bytes(kept.heaps[0].profile, "hold_small");
    CHECK_INT(small, >, 0);
    stage_tell(&stage, 'f');
    stage_tell(&stage, 's');
    record_tick(recorder, 2 * HEAP_MS);
    wait_for(3);
    check_heap(&kept.heaps[1], SONDE_MEM_INUSE);
    check_heap(&kept.heaps[2], SONDE_MEM_ALLOC);
    CHECK_INT(kept.heaps[2].begin_unix_ns, ==, kept.heaps[0].end_unix_ns);
    CHECK_INT(kept.heaps[2].end_unix_ns, ==, kept.heaps[1].end_unix_ns);
    /* The same set was allocated again: estimates of 64 MB, by samples 64 KiB apart. */
    int64_t allocated = profile_sum(kept.heaps[2].profile, "alloc_space", "hold_small");
    CHECK_NEAR((double)allocated, (double)small, 0.3 * (double)small);
    /* Whoever has ended has nothing in use. */
    kill(stage.pid, SIGKILL);
    wait_for(4);
    CHECK_INT(kept.heaps[3].event, ==, SONDE_MEM_INUSE);
    CHECK_INT(kept.heaps[3].begin_unix_ns, >, kept.heaps[1].begin_unix_ns);
    CHECK_INT(sonde_profile_sample_count(kept.heaps[3].profile), ==, 0);
    record_finish(recorder);
    for (uint32_t i = 0; i < kept.count; i++)
        sonde_profile_destroy(kept.heaps[i].profile);
    stage_finish(&stage);
    record_destroy(recorder);
}
