/* SPDX-License-Identifier: Apache-2.0
 *
 * Periodic dumps of a real program, across restarts of sonded and of the program. */
#include "tests/unit/engine/heap/stage.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct asked list(struct stage *stage) {
    return stage_ask_verb(stage, ENGINE_HEAP_LIST);
}

static void wait_for_dumps(struct stage *stage, size_t count) {
    for (int i = 0; i < 300 && list(stage).dump_count < count; i++)
        usleep(50000);
    CHECK_INT(list(stage).dump_count, >=, count);
}

static struct asked activate(struct stage *stage, uint32_t interval_s) {
    return stage_ask(stage, (struct engine_heap_request){.verb = ENGINE_HEAP_ACTIVATE,
                                                         .interval_s = interval_s,
                                                         .keep_dumps = 5,
                                                         .owner = "test"});
}

static struct asked deactivate(struct stage *stage, bool delete_dumps) {
    return stage_ask(stage, (struct engine_heap_request){.verb = ENGINE_HEAP_DEACTIVATE,
                                                         .delete_dumps = delete_dumps});
}

TEST(periodic_dumps_come_in_time_and_go_at_a_deactivation_that_asks_for_it) {
    struct stage stage;
    stage_init(&stage, STAGE_PROF, NULL);
    CHECK_INT(activate(&stage, 1).err, ==, SONDE_OK);
    CHECK_INT(list(&stage).dump_count, ==, 0); /* not at once */
    stage_tell(&stage, 's');
    /* The dump after the next begins after the program has filled its memory. */
    wait_for_dumps(&stage, list(&stage).dump_count + 2);
    struct asked asked = list(&stage);
    CHECK_STR(asked.dumps[asked.dump_count - 1].name, "000001.heap");
    CHECK_STR(asked.dumps[asked.dump_count - 2].name, "000002.heap");
    CHECK(asked.dumps[0].unix_ns > asked.dumps[1].unix_ns);
    CHECK_INT(asked.dumps[0].epoch, ==, 1);
    const char *newest = asked.dumps[0].name;
    struct got got = stage_get(&stage, (struct engine_heap_query){.name = newest});
    CHECK_INT(got.err, ==, SONDE_OK);
    CHECK(profile_bytes(got.result.profile, "hold_large") >= 50 << 20);
    got_finish(&got);
    struct asked after = deactivate(&stage, true);
    CHECK_INT(after.err, ==, SONDE_OK);
    CHECK_INT(after.dump_count, ==, 0);
    got = stage_get(&stage, (struct engine_heap_query){.name = newest});
    CHECK_INT(got.err, ==, SONDE_NOT_FOUND);
    stage_finish(&stage);
}

TEST(h9_dumps_owner_and_interval_survive_a_restart_of_the_service) {
    struct stage stage;
    stage_init(&stage, STAGE_PROF, NULL);
    CHECK_INT(activate(&stage, 1).err, ==, SONDE_OK);
    struct engine_heap_request reset = {.verb = ENGINE_HEAP_RESET, .sample_bytes = 8192};
    CHECK_INT(stage_ask(&stage, reset).err, ==, SONDE_OK);
    wait_for_dumps(&stage, 1);
    stage_restart_engine(&stage);
    struct asked asked = stage_ask_verb(&stage, ENGINE_HEAP_STATUS);
    CHECK_INT(asked.err, ==, SONDE_OK);
    CHECK(asked.state.active);
    CHECK_STR(asked.state.owner, "test");
    CHECK_INT(asked.state.interval_s, ==, 1);
    CHECK_INT(asked.state.epoch, ==, 2);
    CHECK(asked.dump_count >= 1);
    CHECK_INT(asked.dumps[asked.dump_count - 1].epoch, ==, 2);
    size_t before = asked.dump_count;
    wait_for_dumps(&stage, before + 1); /* and the dumps go on */
    CHECK_INT(activate(&stage, 1).err, ==, SONDE_SESSION_BUSY);
    CHECK_INT(deactivate(&stage, false).err, ==, SONDE_OK);
    CHECK(list(&stage).dump_count > before);
    stage_restart_engine(&stage);
    CHECK(stage_ask_verb(&stage, ENGINE_HEAP_STATUS).dump_count > before);
    stage_finish(&stage);
}

TEST(h8_a_dump_that_cannot_be_saved_is_counted_and_profiling_continues) {
    struct stage stage;
    struct rlimit old;
    stage_init(&stage, STAGE_PROF, NULL);
    stage_tell(&stage, 's');
    signal(SIGXFSZ, SIG_IGN);
    CHECK_INT(getrlimit(RLIMIT_FSIZE, &old), ==, 0);
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &(struct rlimit){1024, old.rlim_max}), ==, 0);
    CHECK_INT(activate(&stage, 1).err, ==, SONDE_OK);
    struct asked asked = {0};
    for (int i = 0; i < 300 && asked.state.dump_failures == 0; i++, usleep(50000))
        asked = stage_ask_verb(&stage, ENGINE_HEAP_STATUS);
    CHECK(asked.state.dump_failures > 0);
    CHECK(strstr(asked.state.last_failure, "cannot be written") != NULL);
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &old), ==, 0);
    CHECK(asked.state.active);
    CHECK_INT(asked.dump_count, ==, 0);
    wait_for_dumps(&stage, 1);
    stage_finish(&stage);
}

TEST(h8_a_program_that_is_killed_in_mid_dump_leaves_no_part_of_it) {
    struct stage stage;
    char command[256];
    stage_init(&stage, STAGE_PROF, NULL);
    CHECK_INT(activate(&stage, 1).err, ==, SONDE_OK);
    CHECK_INT(kill(stage.pid, SIGSTOP), ==, 0);
    usleep(1500000); /* the request for a dump is not answered */
    CHECK_INT(list(&stage).dump_count, ==, 0);
    CHECK_INT(kill(stage.pid, SIGKILL), ==, 0);
    struct got got = stage_get(&stage, (struct engine_heap_query){0});
    /* While the kernel still ends it, it is a process without a guest. */
    for (int i = 0; i < 1000 && got.err == SONDE_NOT_AVAILABLE; i++, usleep(10000))
        got = stage_get(&stage, (struct engine_heap_query){0});
    CHECK(got.err == SONDE_TARGET_GONE || got.err == SONDE_TARGET_NOT_FOUND);
    snprintf(command, sizeof command, "! find %s/heap -type f | grep -v /state$", stage.place.data);
    CHECK_INT(system(command), ==, 0);
    stage_finish(&stage);
}

TEST(an_activation_with_dumps_is_refused_without_a_data_directory) {
    struct stage stage;
    char path[128];
    stage_init(&stage, STAGE_PROF, NULL);
    snprintf(path, sizeof path, "%s/heap", stage.place.data);
    FILE *file = fopen(path, "w"); /* a file where the directory should be */
    CHECK(file != NULL);
    fclose(file);
    CHECK_INT(activate(&stage, 1).err, ==, SONDE_IO);
    CHECK(!stage_ask_verb(&stage, ENGINE_HEAP_STATUS).state.active);
    CHECK_INT(activate(&stage, 0).err, ==, SONDE_OK);
    stage_finish(&stage);
}

TEST(a_lease_ends_by_itself_and_keeps_the_dumps) {
    struct stage stage;
    stage_init(&stage, STAGE_PROF, NULL);
    struct engine_heap_request request = {
        .verb = ENGINE_HEAP_ACTIVATE, .interval_s = 1, .lease_ms = 1500, .owner = "test"};
    struct asked asked = stage_ask(&stage, request);
    CHECK_INT(asked.err, ==, SONDE_OK);
    CHECK(asked.state.lease_until_unix_ns > asked.state.active_since_unix_ns);
    for (int i = 0; i < 300 && asked.state.active; i++, usleep(50000))
        asked = stage_ask_verb(&stage, ENGINE_HEAP_STATUS);
    CHECK(!asked.state.active);
    CHECK_INT(asked.state.interval_s, ==, 0);
    CHECK_INT(asked.state.lease_until_unix_ns, ==, 0);
    CHECK_INT(asked.dump_count, ==, 1);
    stage_finish(&stage);
}
