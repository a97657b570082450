/* SPDX-License-Identifier: Apache-2.0 */
#include "api/base/clock.h"
#include "service/engine/record/record_state.h"
#include "service/host/processes/process_list.h"
#include "tests/unit/check.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND    1000000000ll
#define BEGIN     (1700000000 * SECOND) /* before each process of this machine has started */
#define PERIOD_NS 50000000

static struct {
    struct record record;
    struct engine_target target;
} kept[1100];
static uint32_t kept_count;

static void on_record(void *context, const struct record *record) {
    CHECK_INT(kept_count, <, sizeof kept / sizeof *kept);
    kept[kept_count].record = *record;
    kept[kept_count++].target = *record->target;
}

static void forget(void) {
    for (uint32_t i = 0; i < kept_count; i++)
        sonde_profile_destroy(kept[i].record.profile);
    kept_count = 0;
}

/* The number of the record; fails if there is none. */
static uint32_t find(const char *name, pid_t pid) {
    uint32_t at = 0;
    while (at < kept_count &&
           (strcmp(kept[at].target.name, name) != 0 || kept[at].target.pid != pid))
        at++;
    CHECK_INT(at, <, kept_count);
    return at;
}

/* ---- Windows ---- */

static struct sonde_profile *window(void) {
    static const struct sonde_value_type types[] = {{"samples", "count"}, {"cpu", "nanoseconds"}};
    struct sonde_profile *profile = sonde_profile_create(types, 2, 0);
    CHECK(profile != NULL);
    return profile;
}

static uint32_t frame(struct sonde_profile *profile, const char *name, uint64_t address) {
    struct sonde_line line = {0};
    struct sonde_function function = {0};
    struct sonde_location location = {.address = address, .line_count = 1, .lines = &line};
    uint32_t id;
    CHECK_INT(sonde_profile_string(profile, name, strlen(name), &function.name), ==, SONDE_OK);
    CHECK_INT(sonde_profile_add_function(profile, &function, &line.function), ==, SONDE_OK);
    CHECK_INT(sonde_profile_add_location(profile, &location, &id), ==, SONDE_OK);
    return id;
}

static void add(struct sonde_profile *profile, const char *name, pid_t pid, int64_t samples) {
    const uint32_t stack[] = {frame(profile, "work", 0x1234), frame(profile, name, 0)};
    const int64_t values[] = {samples, samples * PERIOD_NS};
    struct sonde_label label = {.num = pid};
    CHECK_INT(sonde_profile_string(profile, "pid", 3, &label.key), ==, SONDE_OK);
    const struct sonde_sample sample = {.locations = stack,
                                        .location_count = 2,
                                        .values = values,
                                        .labels = &label,
                                        .label_count = 1};
    CHECK_INT(sonde_profile_add_sample(profile, &sample), ==, SONDE_OK);
}

static pid_t unwanted; /* is not drawn; others stand for two */

static struct record_choice choose(void *context, const struct engine_target *target) {
    bool is_wanted = target->pid != unwanted;
    return (struct record_choice){is_wanted ? 19 : 0, 2, !is_wanted};
}

static struct machine_receiver receiver = {NULL, on_record, NULL};

/* Splits and destroys a window of ten seconds. */
static void split(struct machine *machine, struct sonde_profile *profile, int64_t begin_unix_ns,
                  pid_t skipped) {
    const struct machine_skip skip = {&skipped, skipped != 0};
    const struct engine_metadata metadata = {.event = SONDE_ON_CPU,
                                             .start_unix_ns = begin_unix_ns,
                                             .end_unix_ns = begin_unix_ns + 10 * SECOND,
                                             .period_ns = PERIOD_NS,
                                             .dropped = 3,
                                             .clock = "perf-cpu"};
    CHECK_INT(machine_split(machine, profile, &metadata, &skip, &receiver), ==, SONDE_OK);
    sonde_profile_destroy(profile);
}

/* This process under the name that sonde targets shows. */
static const char *own_name(void) {
    static struct process_entry self;
    CHECK(process_read(getpid(), &self));
    return self.name;
}

/* The pid of a process that has ended. */
static pid_t ended(void) {
    pid_t pid = fork();
    CHECK_INT(pid, >=, 0);
    if (pid == 0)
        _exit(0);
    CHECK_INT(waitpid(pid, NULL, 0), ==, pid);
    return pid;
}

/* ---- Tests ---- */

TEST(a_process_that_lives_has_a_record_and_those_that_ended_share_one_by_name) {
    struct machine *machine = machine_create();
    struct sonde_profile *profile = window();
    pid_t one = ended(), two = ended();
    add(profile, own_name(), getpid(), 5);
    add(profile, "compiler", one, 2);
    add(profile, "compiler", two, 7);
    add(profile, "linker", one, 1);
    split(machine, profile, BEGIN, 0);
    CHECK_INT(kept_count, ==, 3);
    const struct record *self = &kept[find(own_name(), getpid())].record;
    CHECK_INT(self->samples, ==, 5);
    CHECK_INT(sonde_profile_total(self->profile, 1), ==, 5 * PERIOD_NS);
    CHECK_INT(kept[find(own_name(), getpid())].target.start_unix_ns, >, BEGIN);
    const struct record *shared = &kept[find("compiler", 0)].record;
    CHECK_INT(shared->samples, ==, 9);
    CHECK_INT(shared->dropped, ==, 3); /* of the whole window, once */
    CHECK_INT(self->dropped + kept[find("linker", 0)].record.dropped, ==, 0);
    struct sonde_sample sample = sonde_profile_sample(shared->profile, 0);
    CHECK_INT(sample.location_count, ==, 1); /* without the process */
    CHECK_INT(sample.label_count, ==, 0);
    CHECK_INT(machine_count(machine), ==, 1);
    forget();
    machine_destroy(machine);
}

TEST(a_process_that_is_recorded_by_its_guest_has_no_record) {
    struct machine *machine = machine_create();
    struct sonde_profile *profile = window();
    add(profile, own_name(), getpid(), 5);
    split(machine, profile, BEGIN, getpid());
    CHECK_INT(kept_count, ==, 0);
    CHECK_INT(machine_count(machine), ==, 0);
    machine_destroy(machine);
}

TEST(a_process_that_is_not_drawn_has_no_record_and_the_others_stand_for_it) {
    struct machine *machine = machine_create();
    receiver.choose = choose;
    unwanted = getpid();
    for (int i = 0; i < 2; i++) {
        struct sonde_profile *profile = window();
        add(profile, own_name(), getpid(), 9);
        add(profile, "init", 1, 5);
        split(machine, profile, BEGIN + 10 * i * SECOND, 0);
        const struct record *drawn = &kept[0].record;
        CHECK_INT(kept_count, ==, 1);
        CHECK_INT(drawn->samples, ==, 5);
        CHECK(drawn->weight == 2);
        CHECK_INT(drawn->dropped, ==, 3); /* the largest that is delivered says it */
        CHECK_INT(machine_left_out(machine), ==, 1);
        forget();
    }
    receiver.choose = NULL;
    machine_destroy(machine);
}

TEST(all_kernel_threads_are_one) {
    struct machine *machine = machine_create();
    struct sonde_profile *profile = window();
    size_t count, found = 0;
    struct process_entry *list = process_list(&count);
    for (size_t i = 0; i < count && found < 2; i++)
        if (list[i].is_kernel && ++found)
            add(profile, list[i].name, list[i].pid, 4);
    free(list);
    if (found < 2)
        check_skip("there are no kernel threads in this pid namespace");
    split(machine, profile, BEGIN, 0);
    CHECK_INT(kept_count, ==, 1);
    CHECK_INT(kept[find(MACHINE_KERNEL, 0)].record.samples, ==, 8);
    forget();
    machine_destroy(machine);
}

TEST(a_process_that_waited_is_said_to_have_had_no_samples) {
    struct machine *machine = machine_create();
    struct sonde_profile *profile = window();
    add(profile, own_name(), getpid(), 5);
    split(machine, profile, BEGIN, 0);
    for (int64_t i = 1; i < 4; i++)
        split(machine, window(), BEGIN + 10 * i * SECOND, 0);
    CHECK_INT(kept_count, ==, 1);
    profile = window();
    add(profile, own_name(), getpid(), 6);
    split(machine, profile, BEGIN + 40 * SECOND, 0);
    CHECK_INT(kept_count, ==, 3);
    CHECK_INT(kept[1].record.samples, ==, 0);
    CHECK_INT(sonde_profile_sample_count(kept[1].record.profile), ==, 0);
    CHECK_INT(kept[1].record.begin_unix_ns, ==, BEGIN + 10 * SECOND);
    CHECK_INT(kept[1].record.end_unix_ns, ==, BEGIN + 40 * SECOND);
    CHECK_INT(kept[2].record.samples, ==, 6);
    CHECK_STR(kept[2].target.uuid, kept[0].target.uuid);
    forget();
    machine_destroy(machine);
}

TEST(a_process_that_waits_for_long_has_a_record_at_intervals_and_one_that_ends_has_no_more) {
    struct machine *machine = machine_create();
    struct sonde_profile *profile = window();
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    add(profile, own_name(), getpid(), 1);
    add(profile, own_name(), child, 1);
    split(machine, profile, BEGIN, 0);
    CHECK_INT(machine_count(machine), ==, 2);
    CHECK_INT(kill(child, SIGKILL), ==, 0);
    CHECK_INT(waitpid(child, NULL, 0), ==, child);
    forget();
    for (int64_t at = 10; at <= 2 * MACHINE_IDLE_S; at += 10)
        split(machine, window(), BEGIN + at * SECOND, 0);
    CHECK_INT(machine_count(machine), ==, 1);
    CHECK_INT(kept_count, ==, 2);
    for (uint32_t i = 0; i < kept_count; i++) {
        CHECK_INT(kept[i].target.pid, ==, getpid());
        CHECK_INT(kept[i].record.end_unix_ns - kept[i].record.begin_unix_ns, ==,
                  MACHINE_IDLE_S * SECOND);
    }
    forget();
    machine_destroy(machine);
}

TEST(a_gap_between_windows_is_no_wait) {
    struct machine *machine = machine_create();
    for (int64_t at = 0; at <= 100; at += 100) {
        struct sonde_profile *profile = window();
        add(profile, own_name(), getpid(), 5);
        split(machine, profile, BEGIN + at * SECOND, 0);
    }
    CHECK_INT(kept_count, ==, 2);
    CHECK_INT(kept[1].record.begin_unix_ns, ==, BEGIN + 100 * SECOND);
    forget();
    machine_destroy(machine);
}

TEST(names_beyond_the_limit_share_a_record_and_no_sample_is_lost) {
    struct machine *machine = machine_create();
    struct sonde_profile *profile = window();
    pid_t pid = ended();
    uint64_t sum = 0;
    for (int i = 0; i < MACHINE_NAMES + 50; i++) {
        char name[32];
        snprintf(name, sizeof name, "job-%d", i);
        add(profile, name, pid, 1);
    }
    split(machine, profile, BEGIN, 0);
    CHECK_INT(kept_count, ==, MACHINE_NAMES + 1);
    CHECK_INT(kept[find(MACHINE_OTHER, 0)].record.samples, ==, 50);
    for (uint32_t i = 0; i < kept_count; i++)
        sum += kept[i].record.samples;
    CHECK_INT(sum, ==, MACHINE_NAMES + 50);
    forget();
    machine_destroy(machine);
}

/* Records that were read late, or the time of its exit. */
TEST(the_last_samples_of_a_process_in_the_next_window_are_its_own) {
    struct machine *machine = machine_create();
    pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    struct process_entry entry;
    CHECK(process_read(child, &entry));
    for (int number = 0; number < 5; number++) {
        struct sonde_profile *profile = window();
        if (number == 1) {
            kill(child, SIGKILL);
            CHECK_INT(waitpid(child, NULL, 0), ==, child);
        }
        if (number != 3)
            add(profile, entry.name, child, 5);
        split(machine, profile, BEGIN + number * 10 * SECOND, 0);
        CHECK_INT(machine_count(machine), ==, number == 0);
    }
    CHECK_INT(kept_count, ==, 4);
    for (uint32_t i = 0; i < kept_count; i++) /* in the end nobody knows it any more */
        CHECK_INT(kept[i].target.pid, ==, i < 3 ? child : 0);
    machine_destroy(machine);
    forget();
}

/* A window arrives some time after its end. The guest was there in the next one, too. */
TEST(a_guest_that_goes_before_a_window_arrives_has_the_time_of_the_next_one_too) {
    struct recorder recorder = {.options.on_record = on_record};
    lock_init(&recorder.lock, LOCK_RECORDER);
    CHECK_INT(record_machine_create(&recorder), ==, SONDE_OK);
    recorder.machine->slots[CPU].capture = (void *)&recorder; /* one runs */
    record_machine_leave(&recorder, getpid());
    int64_t begin = clock_ns(CLOCK_REALTIME) - 11 * SECOND;
    for (uint32_t number = 0; number < 3; number++) {
        struct sonde_profile *profile = window();
        const struct engine_metadata metadata = {.event = SONDE_ON_CPU,
                                                 .start_unix_ns = begin + number * 10 * SECOND,
                                                 .end_unix_ns = begin + (number + 1) * 10 * SECOND};
        add(profile, own_name(), getpid(), 5);
        record_machine_add(recorder.machine, profile, &metadata);
        CHECK_INT(kept_count, ==, number == 2);
    }
    machine_destroy(recorder.machine->machine);
    free(recorder.machine);
    record_machine_finish(&recorder);
    forget();
}

static void burn(int64_t ns) {
    int64_t end = clock_ns(CLOCK_PROCESS_CPUTIME_ID) + ns;
    while (clock_ns(CLOCK_PROCESS_CPUTIME_ID) < end)
        continue;
}

/* What the process used between two windows is before the begin of the second. A process that ended
 * has no clock: its last window counts as sampled. */
TEST(records_have_the_clock_that_the_kernel_keeps_for_their_process) {
    struct machine *machine = machine_create();
    uint64_t ends[3];
    for (int i = 0; i < 3; i++) {
        struct sonde_profile *profile = window();
        add(profile, own_name(), getpid(), 1);
        add(profile, "gone", ended(), 1);
        split(machine, profile, BEGIN + 10 * i * SECOND, 0);
        const struct record *own = &kept[find(own_name(), getpid())].record;
        const struct record *gone = &kept[find("gone", 0)].record;
        CHECK_INT(own->cpu_until_ns, <=, (uint64_t)clock_ns(CLOCK_PROCESS_CPUTIME_ID));
        CHECK_INT(own->cpu_from_ns, <, own->cpu_until_ns);
        CHECK_INT(i == 0 || own->cpu_from_ns == ends[i - 1], ==, 1);
        CHECK_INT(i == 0 || own->cpu_until_ns >= ends[i - 1] + SECOND / 50, ==, 1);
        CHECK_INT(gone->cpu_until_ns, ==, 0);
        ends[i] = own->cpu_until_ns;
        forget();
        burn(SECOND / 50);
    }
    machine_destroy(machine);
}
