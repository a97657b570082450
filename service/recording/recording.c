/* SPDX-License-Identifier: Apache-2.0 */
#include "service/recording/recording.h"

#include "api/base/clock.h"
#include "service/engine/record/record.h"
#include "service/locks.h"
#include "service/recording/batch.h"
#include "service/recording/identity.h"
#include "service/recording/labels.h"
#include "service/recording/queue.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000ll

struct recording {
    struct recording_options options;
    struct queue *queue;
    struct recorder *recorder;
    struct totals *totals;
    struct batch batch; /* the writer's */
    pthread_t writer, clock;
    bool has_writer, has_clock;
    _Atomic bool is_finished; /* record_finish was called */
    bool has_logged_labels, has_logged_refusal;

    struct lock lock;       /* guards what follows */
    pthread_cond_t changed; /* what follows, except the trouble */
    bool is_stopping;
    bool is_refreshing, is_awaited; /* recording_refresh runs; it waits for the writer */
    bool is_scan_due;               /* it waits for the CPU times */
    uint64_t written;               /* items of the queue that the writer is done with */
    int64_t fresh_ns;               /* on the monotonic clock: when the last refresh began */
    char trouble[256];
};

static void log_line(struct recording *recording, const char *what, const char *text) {
    char line[512];
    snprintf(line, sizeof line, "%s%.400s", what, text);
    if (recording->options.log)
        recording->options.log(line);
}

static void set_trouble(struct recording *recording, const char *text) {
    lock_take(&recording->lock);
    snprintf(recording->trouble, sizeof recording->trouble, "%s", text);
    lock_drop(&recording->lock);
}

/* False if the recording is stopping. */
static bool pause_for(struct recording *recording, int64_t ns) {
    const struct timespec until = clock_timespec(clock_ns(CLOCK_MONOTONIC) + ns);
    lock_take(&recording->lock);
    while (!recording->is_stopping &&
           lock_wait_until(&recording->lock, &recording->changed, &until))
        continue;
    bool goes_on = !recording->is_stopping;
    lock_drop(&recording->lock);
    return goes_on;
}

/* With the lock held, until then. */
static bool wait_for_change(struct recording *recording, const struct timespec *until) {
    return lock_wait_until(&recording->lock, &recording->changed, until);
}

static void finish_recorder(struct recording *recording) {
    if (!atomic_exchange(&recording->is_finished, true))
        record_finish(recording->recorder);
}

/* ---- The writer ---- */

static void give_up(struct recording *recording, const char *text) {
    set_trouble(recording, text);
    log_line(recording, "history has ended, the service goes on without it: ", text);
    queue_close(recording->queue);
    if (!recording->options.on_record)
        finish_recorder(recording);
}

/* Repeats a batch that the store cannot take now; false if the store will never take another.
 * item_count: the windows and the intervals of totals in it. */
static bool put(struct recording *recording, size_t item_count) {
    struct store_batch batch = batch_get(&recording->batch);
    struct store_put_result result;
    struct sonde_diag diag = {0};
    bool goes_on = true;
    int64_t pause_s = RECORDING_RETRY_S;
    sonde_err err = store_put(recording->options.store, &batch, &result, &diag);
    bool was_away = err == SONDE_UNAVAILABLE;
    if (was_away)
        log_line(recording, "history: windows wait in memory: ", sonde_diag_text(&diag, err));
    while (err == SONDE_UNAVAILABLE && goes_on) {
        set_trouble(recording, sonde_diag_text(&diag, err));
        goes_on = pause_for(recording, pause_s * NS_PER_S);
        pause_s = pause_s * 2 < RECORDING_MAX_RETRY_S ? pause_s * 2 : RECORDING_MAX_RETRY_S;
        diag = (struct sonde_diag){0};
        err = store_put(recording->options.store, &batch, &result, &diag);
    }
    if (!err) {
        if (was_away)
            log_line(recording, "history: windows are stored again", "");
        set_trouble(recording, "");
        return true;
    }
    queue_count_lost(recording->queue, item_count);
    batch_forget(&recording->batch);
    if (err == SONDE_IO || err == SONDE_CORRUPT) {
        give_up(recording, sonde_diag_text(&diag, err));
        return false;
    }
    if (!recording->has_logged_refusal)
        log_line(recording, "history: windows were not stored: ", sonde_diag_text(&diag, err));
    recording->has_logged_refusal = true;
    return true;
}

/* The first mistake in a target's SONDE_LABELS is reported, so that its author finds it. */
static void report_labels(struct recording *recording, const struct queue_item *item) {
    char line[256];
    if (recording->has_logged_labels)
        return;
    recording->has_logged_labels = true;
    snprintf(line, sizeof line,
             "SONDE_LABELS of %.64s, pid %d: a pair is ignored; write NAME=VALUE,... with names of "
             "letters, digits and _.-/ that Sonde does not use itself",
             item->target.name, (int)item->target.pid);
    log_line(recording, "", line);
}

static void add_item(struct recording *recording, const struct queue_item *item) {
    uint32_t refused = 0;
    sonde_err err = item->record.profile
                        ? batch_add(&recording->batch, &item->record, item->lost, &refused)
                        : batch_add_totals(&recording->batch, item->rows, item->row_count,
                                           item->record.begin_unix_ns, item->record.end_unix_ns);
    if (err)
        queue_count_lost(recording->queue, 1);
    if (refused)
        report_labels(recording, item);
}

/* Windows of many targets end together. */
static void gather(struct recording *recording) {
    const struct timespec until = clock_wait_end(RECORDING_GATHER_MS);
    lock_take(&recording->lock);
    while (!recording->is_stopping && !recording->is_awaited && wait_for_change(recording, &until))
        continue;
    lock_drop(&recording->lock);
}

static void note_written(struct recording *recording, size_t count) {
    lock_take(&recording->lock);
    recording->written += count;
    pthread_cond_broadcast(&recording->changed);
    lock_drop(&recording->lock);
}

/* False if the store has failed for good. */
static bool write_list(struct recording *recording, struct queue_item *list) {
    size_t count = 0;
    for (const struct queue_item *item = list; item; item = item->next, count++)
        add_item(recording, item);
    bool goes_on = put(recording, count);
    note_written(recording, count);
    batch_clear(&recording->batch);
    queue_free(list);
    return goes_on;
}

static void *run_writer(void *context) {
    struct recording *recording = context;
    bool goes_on = true, is_last = false;
    pthread_setname_np(pthread_self(), "history");
    while (goes_on && !is_last) {
        lock_take(&recording->lock);
        bool is_stopping = recording->is_stopping;
        lock_drop(&recording->lock);
        struct queue_item *list = queue_take(recording->queue, RECORDING_BATCH_BYTES, 1000);
        is_last = is_stopping && !list;
        if (list)
            goes_on = write_list(recording, list);
        if (list && goes_on && !is_stopping)
            gather(recording);
    }
    return NULL;
}

/* ---- The clock ---- */

/* The interval has the length of the monotonic clock, even if the date was set meanwhile. */
static void scan(struct recording *recording, int64_t *last_ns) {
    const struct totals_row *rows;
    size_t count;
    int64_t now = clock_ns(CLOCK_REALTIME), now_ns = clock_ns(CLOCK_MONOTONIC);
    sonde_err err = totals_scan(recording->totals, &rows, &count, NULL);
    if (!err && *last_ns && count > 0)
        queue_add_totals(recording->queue, rows, count, now - (now_ns - *last_ns), now);
    *last_ns = err ? 0 : now_ns;
}

/* What the date is ahead of the monotonic clock changes only when somebody sets it. */
static void report_step(struct recording *recording, int64_t *ahead_ns) {
    char line[160];
    int64_t ahead = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC);
    int64_t step_ns = ahead - *ahead_ns, half = step_ns > 0 ? NS_PER_S / 2 : -NS_PER_S / 2;
    long long step_s = (step_ns + half) / NS_PER_S;
    *ahead_ns = ahead;
    if (llabs(step_s) < RECORDING_STEP_S)
        return;
    snprintf(line, sizeof line,
             "the clock was set %s by %lld s; windows go on at their new time, and a range that "
             "the step touches %s",
             step_s > 0 ? "forward" : "back", llabs(step_s),
             step_s > 0 ? "has a gap" : "holds the time before and after it");
    log_line(recording, "history: ", line);
}

struct scans {
    int64_t last_ns;      /* on the monotonic clock; 0 = there is none to compare with */
    int64_t next_unix_ns; /* when one is due */
};

/* Not within a second of another one: times in a store are whole seconds. */
static void scan_early(struct recording *recording, struct scans *scans) {
    if (recording->totals && clock_ns(CLOCK_MONOTONIC) - scans->last_ns >= NS_PER_S &&
        scans->next_unix_ns - clock_ns(CLOCK_REALTIME) >= NS_PER_S)
        scan(recording, &scans->last_ns);
}

/* False if the recording is stopping. A scan that somebody waits for is made at once. */
static bool pause_clock(struct recording *recording, int64_t ns, struct scans *scans) {
    const struct timespec until = clock_timespec(clock_ns(CLOCK_MONOTONIC) + ns);
    bool is_in_time = true;
    lock_take(&recording->lock);
    while (!recording->is_stopping && is_in_time && !recording->is_scan_due)
        is_in_time = wait_for_change(recording, &until);
    bool goes_on = !recording->is_stopping, is_scan_due = recording->is_scan_due;
    lock_drop(&recording->lock);
    if (!is_scan_due)
        return goes_on;
    scan_early(recording, scans);
    lock_take(&recording->lock);
    recording->is_scan_due = false;
    pthread_cond_broadcast(&recording->changed);
    lock_drop(&recording->lock);
    return goes_on;
}

/* Wakes up at each full second. */
static void *run_clock(void *context) {
    struct recording *recording = context;
    int64_t window_ns = recording->options.window_ms * (NS_PER_S / 1000);
    int64_t ahead_ns = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC), pause_ns = 0;
    struct scans scans = {.next_unix_ns = clock_ns(CLOCK_REALTIME)};
    pthread_setname_np(pthread_self(), "history-clock");
    do {
        record_tick(recording->recorder, (uint64_t)clock_ms(CLOCK_MONOTONIC));
        report_step(recording, &ahead_ns);
        int64_t now = clock_ns(CLOCK_REALTIME);
        bool is_due = now >= scans.next_unix_ns || scans.next_unix_ns - now > window_ns;
        if (recording->totals && is_due) {
            scan(recording, &scans.last_ns);
            scans.next_unix_ns = now - now % window_ns + window_ns;
        }
        now = clock_ns(CLOCK_REALTIME);
        pause_ns = NS_PER_S - now % NS_PER_S;
        if (recording->totals && scans.next_unix_ns - now < pause_ns)
            pause_ns = scans.next_unix_ns - now;
    } while (pause_clock(recording, pause_ns, &scans) && !atomic_load(&recording->is_finished));
    return NULL;
}

/* ---- The recording ---- */

static void on_record(void *context, const struct record *record) {
    struct recording *recording = context;
    if (recording->options.functions && record->event == SONDE_ON_CPU && !record->is_outside)
        function_times_add(recording->options.functions, record->target->name, record->profile);
    if (recording->options.on_record)
        recording->options.on_record(recording->options.context, record);
    if (recording->queue)
        queue_add_record(recording->queue, record);
    else
        sonde_profile_destroy(record->profile);
}

static struct record_choice choose(void *context, const struct engine_target *target) {
    const struct recording_options *options = &((struct recording *)context)->options;
    return options->choose(options->context, target);
}

static void on_counts(void *context, uint32_t recorded, uint32_t left_out) {
    const struct recording_options *options = &((struct recording *)context)->options;
    options->on_counts(options->context, recorded, left_out);
}

static bool wants_waits(void *context, const struct engine_target *target, const char *cgroup) {
    const struct recording *recording = context;
    const struct record record = {.event = SONDE_OFF_CPU, .target = target, .cgroup = cgroup};
    return labels_match(&record, recording->options.off_cpu_of);
}

/* What it takes to fill a store. */
static sonde_err begin_storing(struct recording *recording, struct sonde_diag *diag) {
    const struct recording_options *options = &recording->options;
    const struct identity *identity = options->identity;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    batch_init(&recording->batch, identity ? identity->source : identity_draw_source(),
               identity ? identity->epoch : 1, host);
    if (options->first_seq)
        recording->batch.seq = options->first_seq;
    recording->queue = queue_create(options->queue_bytes);
    if (!options->no_totals)
        recording->totals = totals_create("/proc", NULL);
    if (!recording->queue || (!recording->totals && !options->no_totals))
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    return SONDE_OK;
}

static sonde_err begin(struct recording *recording, struct sonde_diag *diag) {
    const struct recording_options *options = &recording->options;
    const struct record_options record = {
        .frequency_hz = options->frequency_hz,
        .window_ms = options->window_ms,
        .heap_ms = RECORD_HEAP_MS,
        .now_monotonic_ms = (uint64_t)clock_ms(CLOCK_MONOTONIC),
        .max_overhead = options->max_overhead > 0 ? options->max_overhead : RECORDING_MAX_OVERHEAD,
        .off_cpu_ms = options->off_cpu_ms,
        .wants_waits = options->off_cpu_of ? wants_waits : NULL,
        .no_heap = options->no_heap,
        .machine = options->machine,
        .choose = options->choose ? choose : NULL,
        .on_counts = options->on_counts ? on_counts : NULL,
        .on_record = on_record,
        .context = recording,
    };
    sonde_err err = options->store ? begin_storing(recording, diag) : SONDE_OK;
    if (err)
        return err;
    err = record_create(options->engine, &record, &recording->recorder, diag);
    if (err)
        return err;
    if (options->store)
        recording->has_writer =
            pthread_create(&recording->writer, NULL, run_writer, recording) == 0;
    recording->has_clock = pthread_create(&recording->clock, NULL, run_clock, recording) == 0;
    if (recording->has_writer == (options->store != NULL) && recording->has_clock)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "a thread cannot be started");
}

sonde_err recording_start(const struct recording_options *options, struct recording **created,
                          struct sonde_diag *diag) {
    struct recording *recording = calloc(1, sizeof *recording);
    *created = NULL;
    if (!recording)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    recording->options = *options;
    if (!options->frequency_hz)
        recording->options.frequency_hz = RECORDING_HZ;
    if (!options->window_ms)
        recording->options.window_ms = RECORD_WINDOW_MS;
    if (!options->queue_bytes)
        recording->options.queue_bytes = QUEUE_BYTES;
    lock_init(&recording->lock, LOCK_RECORDING);
    pthread_cond_init(&recording->changed, NULL);
    sonde_err err = begin(recording, diag);
    *created = recording;
    return err;
}

void recording_state(struct recording *recording, struct recording_state *state) {
    bool is_finished = atomic_load(&recording->is_finished);
    *state = (struct recording_state){
        .targets = is_finished ? 0 : record_count(recording->recorder),
        .lost_windows = recording->queue ? queue_lost(recording->queue) : 0,
    };
    if (!is_finished) {
        state->guests = record_count_guests(recording->recorder);
        state->since_unix_ns = record_since_unix_ns(recording->recorder);
        state->waits_left_out = record_waits_left_out(recording->recorder);
        record_refusal(recording->recorder, state->refusal);
    }
    lock_take(&recording->lock);
    memcpy(state->trouble, recording->trouble, sizeof state->trouble);
    lock_drop(&recording->lock);
}

/* With the lock held: false if there is nothing to do, or somebody else has done it. */
static bool begin_refresh(struct recording *recording, const struct timespec *until) {
    bool is_in_time = true;
    while (recording->is_refreshing && is_in_time)
        is_in_time = wait_for_change(recording, until);
    int64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    if (!is_in_time || recording->is_stopping || recording->trouble[0] ||
        now_ns - recording->fresh_ns < (int64_t)RECORD_FRESH_MS * (NS_PER_S / 1000))
        return false;
    recording->fresh_ns = now_ns;
    recording->is_refreshing = recording->is_scan_due = true;
    pthread_cond_broadcast(&recording->changed);
    return true;
}

static void await_scan(struct recording *recording, const struct timespec *until) {
    bool is_in_time = true;
    lock_take(&recording->lock);
    while (recording->is_scan_due && is_in_time && !recording->is_stopping)
        is_in_time = wait_for_change(recording, until);
    lock_drop(&recording->lock);
}

/* Until all that was recorded before is stored. */
static void await_writer(struct recording *recording, const struct timespec *until) {
    uint64_t added = queue_added(recording->queue);
    bool is_in_time = true;
    lock_take(&recording->lock);
    recording->is_awaited = true;
    pthread_cond_broadcast(&recording->changed);
    while (recording->written < added && is_in_time && !recording->is_stopping &&
           !recording->trouble[0])
        is_in_time = wait_for_change(recording, until);
    recording->is_refreshing = recording->is_awaited = recording->is_scan_due = false;
    pthread_cond_broadcast(&recording->changed);
    lock_drop(&recording->lock);
}

void recording_refresh(struct recording *recording) {
    const struct timespec until = clock_wait_end(RECORDING_REFRESH_MS);
    lock_take(&recording->lock);
    bool is_needed = recording->has_writer && begin_refresh(recording, &until);
    lock_drop(&recording->lock);
    if (!is_needed)
        return;
    record_cut(recording->recorder, RECORDING_REFRESH_MS / 2);
    await_scan(recording, &until);
    await_writer(recording, &until);
}

void recording_forget(struct recording *recording) {
    batch_forget(&recording->batch);
}

uint64_t recording_next_seq(const struct recording *recording) {
    return recording->batch.seq;
}

bool recording_is_idle(struct recording *recording) {
    return !recording->recorder || record_is_idle(recording->recorder);
}

void recording_finish(struct recording *recording) {
    if (!recording)
        return;
    if (recording->recorder)
        finish_recorder(recording);
    lock_take(&recording->lock);
    recording->is_stopping = true;
    pthread_cond_broadcast(&recording->changed);
    lock_drop(&recording->lock);
    if (recording->queue)
        queue_wake(recording->queue);
    if (recording->has_clock)
        pthread_join(recording->clock, NULL);
    if (recording->has_writer)
        pthread_join(recording->writer, NULL);
    recording->has_clock = recording->has_writer = false;
}

void recording_destroy(struct recording *recording) {
    if (!recording)
        return;
    recording_finish(recording);
    record_destroy(recording->recorder);
    queue_destroy(recording->queue);
    totals_destroy(recording->totals);
    batch_finish(&recording->batch);
    pthread_cond_destroy(&recording->changed);
    lock_finish(&recording->lock);
    free(recording);
}
