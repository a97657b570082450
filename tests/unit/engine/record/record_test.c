/* SPDX-License-Identifier: Apache-2.0
 *
 * Continuous recording, with a guest that the test drives. */
#include "service/engine/core/engine_state.h"
#include "service/engine/record/record_state.h"
#include "service/host/processes/process_list.h"

#include "tests/unit/engine/scene.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_RECORDS 64

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct record records[MAX_RECORDS];
    struct engine_target targets[MAX_RECORDS];
    uint32_t count, gone;
} kept = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void on_record(void *context, const struct record *record) {
    pthread_mutex_lock(&kept.mutex);
    if (kept.count < MAX_RECORDS) {
        kept.targets[kept.count] = *record->target;
        kept.records[kept.count++] = *record;
    } else {
        sonde_profile_destroy(record->profile);
    }
    pthread_cond_broadcast(&kept.changed);
    pthread_mutex_unlock(&kept.mutex);
}

static void on_gone(void *context, const struct engine_target *target) {
    pthread_mutex_lock(&kept.mutex);
    kept.gone++;
    pthread_cond_broadcast(&kept.changed);
    pthread_mutex_unlock(&kept.mutex);
}

static void wait_count(const uint32_t *number, uint32_t least) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 30;
    int failed = 0;
    pthread_mutex_lock(&kept.mutex);
    while (*number < least && !failed)
        failed = pthread_cond_timedwait(&kept.changed, &kept.mutex, &until);
    pthread_mutex_unlock(&kept.mutex);
    CHECK(!failed);
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static const struct record_options options = {
    .frequency_hz = 19,
    .window_ms = 200,
    .heap_ms = 1000000,
    .max_overhead = 0.005,
    .on_record = on_record,
    .on_gone = on_gone,
};

/* In a scene that exists. */
static struct recorder *record_scene(struct scene *scene, const struct record_options *how) {
    struct recorder *recorder = NULL;
    for (uint32_t i = 0; i < kept.count; i++)
        sonde_profile_destroy(kept.records[i].profile);
    kept.count = kept.gone = 0;
    CHECK_INT(record_create(scene->engine, how, &recorder, NULL), ==, SONDE_OK);
    return recorder;
}

static struct recorder *record(struct scene *scene, const struct record_options *how) {
    scene_init(scene);
    return record_scene(scene, how);
}

/* The guest's part of the end: it confirms that its clock has stopped. */
static void *confirm_stop(void *guest) {
    fake_stop(guest);
    return NULL;
}

static void finish(struct scene *scene, struct recorder *recorder) {
    pthread_t guest;
    CHECK_INT(pthread_create(&guest, NULL, confirm_stop, &scene->guest), ==, 0);
    record_finish(recorder);
    pthread_join(guest, NULL);
    CHECK_INT(record_count(recorder), ==, 0);
    scene_finish(scene);
    record_destroy(recorder);
}

/* Of value 1, nanoseconds, in all records. */
static int64_t recorded_ns(enum sonde_event_id event) {
    int64_t sum = 0;
    for (uint32_t i = 0; i < kept.count; i++)
        if (kept.records[i].event == event)
            sum += sonde_profile_total(kept.records[i].profile, 1);
    return sum;
}

TEST(a_target_is_recorded_in_aligned_windows_and_the_sums_are_right) {
    struct scene scene;
    struct recorder *recorder = record(&scene, &options);
    CHECK_INT(start_clock(&scene).period_ns, ==, 52631579);
    CHECK_INT(record_count(recorder), ==, 1);
    push_many(&scene, 200, burn_leaf, 7);
    settle(&scene);
    wait_count(&kept.count, 3);
    finish(&scene, recorder);
    CHECK_NEAR((double)recorded_ns(SONDE_ON_CPU), 2000.0 * MS, 60.0 * MS);
    CHECK_STR(kept.targets[0].name, "burner");
    CHECK_STR(kept.targets[0].labels, "team=search");
    int64_t length_ns = 200 * (int64_t)MS;
    for (uint32_t i = 1; i < kept.count; i++) {
        const struct record *window = &kept.records[i];
        CHECK_INT(window->begin_unix_ns, >=, kept.records[i - 1].begin_unix_ns);
        CHECK_INT(window->cpu_from_ns, ==, kept.records[i - 1].cpu_until_ns);
        CHECK_INT(window->cpu_from_ns, >, 0);
        if (i + 1 == kept.count)
            break; /* the last one ends with the recording */
        int64_t late_ns = (window->end_unix_ns + length_ns / 10) % length_ns;
        CHECK_INT(late_ns, >=, 0);
        CHECK_INT(window->end_unix_ns - window->begin_unix_ns, <, 4 * length_ns);
    }
}

TEST(a_recording_takes_no_place_and_is_not_counted) {
    struct scene scene;
    struct engine_counters counters;
    struct recorder *recorder = record(&scene, &options);
    start_clock(&scene);
    size_t count;
    struct engine_target *targets = engine_targets(scene.engine, &count);
    engine_counters(scene.engine, &counters);
    CHECK_INT(count, ==, 1);
    CHECK_INT(targets[0].captures_running, ==, 0);
    CHECK_INT(counters.captures_running, ==, 0);
    CHECK_INT(counters.captures_total, ==, 0);
    CHECK_INT(counters.streams_running, ==, 0);
    free(targets);
    finish(&scene, recorder);
}

TEST(a_recordings_limit_slows_the_recording_but_no_capture) {
    struct scene scene;
    struct record_options slow = options;
    struct engine_cpu_spec spec = {.frequency_hz = 99};
    slow.max_overhead = 0.00004; /* at least 5 us of each sample: 125 ms or more */
    struct recorder *recorder = record(&scene, &slow);
    sonde_guest_v1_CpuConfig config = start_clock(&scene);
    CHECK_INT(config.period_ns, >=, 125 * MS);
    CHECK(config.counts_past);
    begin(&scene, &spec);
    sonde_guest_v1_ToGuest message;
    fake_expect(&scene.guest, sonde_guest_v1_ToGuest_cpu_config_tag, &message);
    CHECK_INT(message.message.cpu_config.period_ns, ==, 10101010);
    CHECK(!message.message.cpu_config.counts_past);
    fake_send_state(&scene.guest, message.message.cpu_config.sequence, true, "fake");
    wait_for_state(scene.engine, message.message.cpu_config.sequence);
    push_many(&scene, 100, burn_leaf, 7);
    settle(&scene);
    engine_capture_finish(scene.capture);
    collect_wait_end(&scene.collected);
    CHECK_INT(scene.collected.err, ==, SONDE_OK);
    CHECK_NEAR((double)sonde_profile_total(scene.collected.profiles[0], 1), 1000.0 * MS, 20.0 * MS);
    CHECK_NEAR(scene.collected.metadata[0].frequency_hz, 99, 0.1);
    /* The clock is the recording's again. */
    fake_expect(&scene.guest, sonde_guest_v1_ToGuest_cpu_config_tag, &message);
    CHECK_INT(message.message.cpu_config.period_ns, >=, 125 * MS);
    finish(&scene, recorder);
    CHECK_NEAR((double)recorded_ns(SONDE_ON_CPU), 1000.0 * MS, 60.0 * MS);
}

TEST(a_captures_limit_does_not_slow_a_recording) {
    struct scene scene;
    struct engine_cpu_spec spec = {.frequency_hz = 99, .max_overhead = 0.00004};
    struct recorder *recorder = record(&scene, &options);
    uint64_t period_ns = start_clock(&scene).period_ns;
    begin(&scene, &spec);
    push_many(&scene, 50, burn_leaf, 7);
    settle(&scene);
    engine_capture_finish(scene.capture);
    collect_wait_end(&scene.collected);
    CHECK_INT(scene.collected.err, ==, SONDE_OK);
    CHECK(fake_is_quiet(&scene.guest, 0)); /* the period has not changed */
    CHECK_INT(period_ns, ==, 52631579);
    finish(&scene, recorder);
    CHECK_NEAR((double)recorded_ns(SONDE_ON_CPU), 500.0 * MS, 60.0 * MS);
}

/* A slow clock's tick stands for time before a capture began. */
TEST(time_before_a_capture_is_not_counted_for_it) {
    struct scene scene;
    const uint64_t pcs[] = PCS(burn_leaf);
    struct engine_cpu_spec spec = {.frequency_hz = 1000};
    struct recorder *recorder = record(&scene, &options);
    start_clock(&scene);
    begin(&scene, &spec);
    sonde_guest_v1_ToGuest message;
    uint64_t before_ns = now_ns();
    fake_expect(&scene.guest, sonde_guest_v1_ToGuest_cpu_config_tag, &message);
    fake_send_state(&scene.guest, message.message.cpu_config.sequence, true, "fake");
    wait_for_state(scene.engine, message.message.cpu_config.sequence);
    struct fake_sample sample = {
        .tid = 7, .generation = 1, .weight_ns = 3600000 * MS, .time_ns = now_ns()};
    CHECK(fake_push(&scene.guest, &sample, pcs, 2));
    settle(&scene);
    uint64_t longest_ns = now_ns() - before_ns + 30 * MS;
    engine_capture_finish(scene.capture);
    collect_wait_end(&scene.collected);
    CHECK_INT(sonde_profile_total(scene.collected.profiles[0], 1), <=, longest_ns);
    fake_expect(&scene.guest, sonde_guest_v1_ToGuest_cpu_config_tag, &message);
    finish(&scene, recorder);
}

TEST(a_target_that_ends_delivers_its_last_window) {
    struct scene scene;
    struct record_options long_windows = options;
    long_windows.window_ms = 3600000;
    struct recorder *recorder = record(&scene, &long_windows);
    start_clock(&scene);
    push_many(&scene, 30, burn_leaf, 7);
    settle(&scene);
    fake_close(&scene.guest);
    wait_count(&kept.gone, 1);
    wait_count(&kept.count, 1);
    CHECK_NEAR((double)recorded_ns(SONDE_ON_CPU), 300.0 * MS, 60.0 * MS);
    CHECK_INT(record_count(recorder), ==, 0);
    record_finish(recorder);
    scene_finish(&scene);
    record_destroy(recorder);
}

static void refuse_clock(struct scene *scene, struct recorder *recorder) {
    sonde_guest_v1_ToGuest message;
    do {
        fake_expect(&scene->guest, sonde_guest_v1_ToGuest_cpu_config_tag, &message);
        fake_send_state(&scene->guest, message.message.cpu_config.sequence, false, "");
    } while (message.message.cpu_config.period_ns == 0); /* the stop before */
    while (record_count(recorder) > 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

TEST(a_refused_clock_is_tried_again_after_pauses_that_double) {
    struct scene scene;
    struct recorder *recorder = record(&scene, &options);
    uint64_t now_ms = 1000, pause_ms = RECORD_RETRY_MS;
    record_tick(recorder, now_ms);
    for (int i = 0; i < 7; i++) {
        refuse_clock(&scene, recorder);
        record_tick(recorder, now_ms + pause_ms - 1);
        CHECK_INT(record_count(recorder), ==, 0);
        now_ms += pause_ms;
        record_tick(recorder, now_ms);
        CHECK_INT(record_count(recorder), ==, 1);
        pause_ms = pause_ms < RECORD_MAX_TRY_MS / 2 ? pause_ms * 2 : RECORD_MAX_TRY_MS;
    }
    start_clock(&scene);
    finish(&scene, recorder);
}

/* A capture beside it fails, because somebody waits for it. */
TEST(a_recording_of_a_stopped_process_begins_when_the_process_goes_on) {
    struct scene scene;
    struct engine_cpu_spec spec = {.frequency_hz = 19};
    scene_init(&scene);
    scene.engine->start_ns = 20 * MS;
    struct recorder *recorder = record_scene(&scene, &options);
    begin(&scene, &spec);
    collect_wait_end(&scene.collected);
    CHECK_INT(scene.collected.err, ==, SONDE_NOT_AVAILABLE);
    CHECK_INT(record_count(recorder), ==, 1);
    start_clock(&scene);
    push_many(&scene, 30, burn_leaf, 7);
    settle(&scene);
    finish(&scene, recorder);
    CHECK_NEAR((double)recorded_ns(SONDE_ON_CPU), 300.0 * MS, 60.0 * MS);
}

TEST(off_cpu_time_is_recorded_beside) {
    struct scene scene;
    struct record_options both = options;
    both.off_cpu_ms = 20;
    both.window_ms = 3600000;
    struct recorder *recorder = record(&scene, &both);
    start_clock(&scene);
    push_many(&scene, 10, burn_leaf, 7);
    nanosleep(&(struct timespec){.tv_nsec = 100 * (long)MS}, NULL);
    CHECK(fake_push_unseen(&scene.guest, 9, 80 * MS, RING_UNSEEN_ASLEEP));
    settle(&scene);
    finish(&scene, recorder);
    CHECK_NEAR((double)recorded_ns(SONDE_ON_CPU), 100.0 * MS, 60.0 * MS);
    CHECK_NEAR((double)recorded_ns(SONDE_OFF_CPU), 80.0 * MS, 25.0 * MS);
    for (uint32_t i = 0; i < kept.count; i++)
        CHECK_INT(kept.records[i].period_ns, ==,
                  kept.records[i].event == SONDE_OFF_CPU ? 20 * MS : 52631579);
}

TEST(a_heap_without_profiling_is_asked_and_left_alone) {
    struct scene scene;
    struct record_options often = options;
    sonde_guest_v1_ToGuest command;
    often.heap_ms = 50;
    struct recorder *recorder = record(&scene, &often);
    start_clock(&scene);
    record_tick(recorder, 1000);
    fake_expect(&scene.guest, sonde_guest_v1_ToGuest_heap_command_tag, &command);
    CHECK_INT(command.message.heap_command.verb, ==, sonde_guest_v1_HeapVerb_HEAP_STATUS);
    sonde_guest_v1_FromGuest answer = sonde_guest_v1_FromGuest_init_zero;
    answer.which_message = sonde_guest_v1_FromGuest_heap_answer_tag;
    answer.message.heap_answer.sequence = command.message.heap_command.sequence;
    fake_send(&scene.guest, &answer, -1);
    finish(&scene, recorder);
    for (uint32_t i = 0; i < kept.count; i++)
        CHECK_INT(kept.records[i].event, !=, SONDE_MEM_INUSE);
}

static struct recorder *asked;

/* It would wait for itself if the recorder's lock were held. */
static bool wants_waits(void *context, const struct engine_target *target, const char *cgroup) {
    return asked ? record_count(asked) < UINT32_MAX : false;
}

static void add_process(struct sonde_profile *profile, const char *name, pid_t pid) {
    struct sonde_function function = {0};
    struct sonde_line line = {0};
    uint32_t frame;
    CHECK_INT(sonde_profile_string(profile, name, strlen(name), &function.name), ==, SONDE_OK);
    CHECK_INT(sonde_profile_add_function(profile, &function, &line.function), ==, SONDE_OK);
    const struct sonde_location location = {.line_count = 1, .lines = &line};
    CHECK_INT(sonde_profile_add_location(profile, &location, &frame), ==, SONDE_OK);
    struct sonde_label label = {.num = pid};
    CHECK_INT(sonde_profile_string(profile, "pid", 3, &label.key), ==, SONDE_OK);
    const struct sonde_sample sample = {.locations = &frame,
                                        .location_count = 1,
                                        .values = (int64_t[]){1, MS},
                                        .labels = &label,
                                        .label_count = 1};
    CHECK_INT(sonde_profile_add_sample(profile, &sample), ==, SONDE_OK);
}

static void drop_record(void *context, const struct record *record) {
    sonde_profile_destroy(record->profile);
}

/* A window of the machine with these processes. */
static struct machine *machine_of(const pid_t *pids, int count) {
    static const struct sonde_value_type types[] = {{"samples", "count"}, {"cpu", "nanoseconds"}};
    struct sonde_profile *profile = sonde_profile_create(types, 2, 0);
    struct machine *machine = machine_create();
    struct process_entry self;
    CHECK(profile && machine && process_read(getpid(), &self));
    for (int i = 0; i < count; i++)
        add_process(profile, self.name, pids[i]);
    const struct machine_skip skip = {NULL, 0};
    const struct machine_receiver receiver = {NULL, drop_record, NULL};
    const struct engine_metadata window = {.event = SONDE_ON_CPU, .end_unix_ns = 1, .clock = ""};
    CHECK_INT(machine_split(machine, profile, &window, &skip, &receiver), ==, SONDE_OK);
    sonde_profile_destroy(profile);
    return machine;
}

TEST(processes_beyond_the_limit_of_off_cpu_time_are_counted) {
    enum { COUNT = RECORD_MAX_WAITS + 3 };
    struct scene scene;
    struct record_options waits = options;
    pid_t pids[COUNT];
    for (int i = 0; i < COUNT; i++)
        if ((pids[i] = fork()) == 0)
            for (;;)
                pause();
    waits.off_cpu_ms = 20;
    waits.wants_waits = wants_waits;
    struct recorder *recorder = record(&scene, &waits);
    start_clock(&scene);
    struct machine *machine = machine_of(pids, COUNT);
    CHECK_INT(record_waits_left_out(recorder), ==, 0);
    asked = recorder;
    record_waits_update(recorder, machine);
    asked = NULL;
    CHECK_INT(record_waits_left_out(recorder), ==, 3);
    for (int i = 0; i < COUNT; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    machine_destroy(machine);
    finish(&scene, recorder);
}
