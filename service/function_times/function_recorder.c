/* SPDX-License-Identifier: Apache-2.0 */
#include "service/function_times/function_recorder.h"

#include "api/base/clock.h"
#include "service/engine/record/record.h"
#include "service/locks.h"

#include <stdlib.h>
#include <time.h>

struct function_recorder {
    struct function_times *times;
    struct recorder *recorder;
    pthread_t clock;
    bool has_clock;
    struct lock lock; /* guards what follows */
    pthread_cond_t stop;
    bool is_stopping;
};

static void on_record(void *context, const struct record *record) {
    struct function_recorder *recorder = context;
    if (record->event == SONDE_ON_CPU)
        function_times_add(recorder->times, record->target->name, record->profile);
    sonde_profile_destroy(record->profile);
}

/* Starts failed captures again, about every second. */
static void *run_clock(void *context) {
    struct function_recorder *recorder = context;
    lock_take(&recorder->lock);
    while (!recorder->is_stopping) {
        const struct timespec until = clock_wait_end(1000);
        lock_drop(&recorder->lock);
        record_tick(recorder->recorder, (uint64_t)clock_ms(CLOCK_MONOTONIC));
        lock_take(&recorder->lock);
        if (!recorder->is_stopping)
            (void)lock_wait_until(&recorder->lock, &recorder->stop, &until);
    }
    lock_drop(&recorder->lock);
    return NULL;
}

sonde_err function_recorder_start(struct engine *engine, struct function_times *times,
                                  struct function_recorder **created, struct sonde_diag *diag) {
    struct function_recorder *recorder = calloc(1, sizeof *recorder);
    *created = NULL;
    if (!recorder)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    const struct record_options options = {
        .frequency_hz = FUNCTION_RECORDER_HZ,
        .window_ms = FUNCTION_RECORDER_WINDOW_MS,
        .heap_ms = UINT32_MAX, /* none */
        .now_monotonic_ms = (uint64_t)clock_ms(CLOCK_MONOTONIC),
        .max_overhead = FUNCTION_RECORDER_OVERHEAD,
        .on_record = on_record,
        .context = recorder,
    };
    recorder->times = times;
    lock_init(&recorder->lock, LOCK_FUNCTION_RECORDER);
    pthread_cond_init(&recorder->stop, NULL);
    *created = recorder;
    sonde_err err = record_create(engine, &options, &recorder->recorder, diag);
    if (!err)
        recorder->has_clock = pthread_create(&recorder->clock, NULL, run_clock, recorder) == 0;
    return err;
}

void function_recorder_finish(struct function_recorder *recorder) {
    if (!recorder)
        return;
    lock_take(&recorder->lock);
    recorder->is_stopping = true;
    pthread_cond_broadcast(&recorder->stop);
    lock_drop(&recorder->lock);
    if (recorder->has_clock)
        pthread_join(recorder->clock, NULL);
    recorder->has_clock = false;
    if (recorder->recorder)
        record_finish(recorder->recorder);
}

void function_recorder_destroy(struct function_recorder *recorder) {
    if (!recorder)
        return;
    record_destroy(recorder->recorder);
    pthread_cond_destroy(&recorder->stop);
    lock_finish(&recorder->lock);
    free(recorder);
}
