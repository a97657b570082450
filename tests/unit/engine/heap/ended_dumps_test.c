/* SPDX-License-Identifier: Apache-2.0
 *
 * Dumps of a process that was killed, as by a crash, before they were fetched. */
#include "api/profile/heap/jemalloc.h"
#include "tests/unit/engine/heap/stage.h"
#include "tests/unit/temporary.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct left {
    pthread_mutex_t mutex;
    pthread_cond_t came;
    bool has_come;
    sonde_err err;
    struct engine_ended_dump *items;
    size_t count;
};

static void on_left(void *context, sonde_err err, const struct sonde_diag *diag,
                    const struct engine_ended_dump *items, size_t count) {
    struct left *left = context;
    pthread_mutex_lock(&left->mutex);
    left->err = err;
    left->items = calloc(count + 1, sizeof *items);
    if (count > 0)
        memcpy(left->items, items, count * sizeof *items);
    left->count = count;
    left->has_come = true;
    pthread_cond_signal(&left->came);
    pthread_mutex_unlock(&left->mutex);
}

/* The caller frees the items. */
static struct left list_ended(struct stage *stage, struct engine_selector selector) {
    struct left left = {.mutex = PTHREAD_MUTEX_INITIALIZER, .came = PTHREAD_COND_INITIALIZER};
    CHECK_INT(engine_heap_list_ended(stage->engine, &selector, on_left, &left, NULL), ==, SONDE_OK);
    pthread_mutex_lock(&left.mutex);
    while (!left.has_come)
        pthread_cond_wait(&left.came, &left.mutex);
    pthread_mutex_unlock(&left.mutex);
    CHECK_INT(left.err, ==, SONDE_OK);
    return left;
}

static size_t count_ended(struct stage *stage, struct engine_selector selector) {
    struct left left = list_ended(stage, selector);
    free(left.items);
    return left.count;
}

/* Starts a holder with periodic dumps of what it holds. */
static void begin_with(struct stage *stage, const char *const *program) {
    stage_init(stage, STAGE_PROF, program);
    stage_tell(stage, 's');
    struct engine_heap_request on = {
        .verb = ENGINE_HEAP_ACTIVATE, .interval_s = 1, .sample_bytes = 65536};
    CHECK_INT(stage_ask(stage, on).err, ==, SONDE_OK);
    stage_tell(stage, 's');
    for (int i = 0; i < 400 && stage_ask_verb(stage, ENGINE_HEAP_LIST).dump_count < 2; i++)
        usleep(25000);
}

static void begin(struct stage *stage) {
    begin_with(stage, NULL);
}

static void end_program(struct stage *stage) {
    CHECK_INT(kill(stage->pid, SIGKILL), ==, 0);
    CHECK_INT(waitpid(stage->pid, NULL, 0), ==, stage->pid);
}

static struct got get_ended(struct stage *stage, const char *name, bool raw) {
    return stage_get(stage, (struct engine_heap_query){.name = name, .raw = raw, .ended = true});
}

TEST(dumps_of_a_process_are_listed_once_it_has_ended_by_name_pid_and_uuid) {
    struct stage stage;
    begin(&stage);
    CHECK_INT(count_ended(&stage, (struct engine_selector){0}), ==, 0);
    end_program(&stage);
    struct left left = list_ended(&stage, (struct engine_selector){0});
    CHECK_INT(left.count, >=, 2);
    for (size_t i = 0; i < left.count; i++) {
        CHECK_STR(left.items[i].process, "holder");
        CHECK_INT(left.items[i].pid, ==, stage.pid);
        CHECK_INT(left.items[i].dump.bytes, >, 1000);
        CHECK_INT(left.items[i].dump.epoch, >, 0);
        CHECK(i == 0 || left.items[i].dump.unix_ns <= left.items[i - 1].dump.unix_ns);
    }
    struct engine_selector uuid = {.uuid = left.items[0].uuid};
    CHECK_INT(count_ended(&stage, uuid), ==, left.count);
    CHECK_INT(count_ended(&stage, (struct engine_selector){.name = "holder"}), ==, left.count);
    CHECK_INT(count_ended(&stage, (struct engine_selector){.pid = stage.pid}), ==, left.count);
    CHECK_INT(count_ended(&stage, (struct engine_selector){.name = "other"}), ==, 0);
    CHECK_INT(count_ended(&stage, (struct engine_selector){.pid = 1}), ==, 0);
    CHECK_INT(count_ended(&stage, (struct engine_selector){.uuid = "../.."}), ==, 0);
    free(left.items);
    stage_finish(&stage);
}

TEST(a_dump_of_a_process_that_has_ended_is_read_with_names_and_raw_by_the_next_sonded_too) {
    struct stage stage;
    begin(&stage);
    end_program(&stage);
    engine_destroy(stage.engine);
    stage.engine = place_engine(&stage.place);
    struct got got = get_ended(&stage, "000001.heap", false);
    CHECK_INT(got.err, ==, SONDE_OK);
    CHECK_INT(got.result.epoch, >, 0);
    CHECK_INT(profile_bytes(got.result.profile, "hold_large"), >=, 50ll << 20);
    CHECK_INT(profile_bytes(got.result.profile, "main"), >=, 50ll << 20);
    got_finish(&got);
    got = get_ended(&stage, "000001.heap", true);
    CHECK_INT(got.err, ==, SONDE_OK);
    CHECK(sonde_jemalloc_is_dump(sonde_buf_slice(&got.result.text)));
    got_finish(&got);
    stage_finish(&stage);
}

/* The dump is the ended process's own text, so it can name any file. */
TEST(a_dump_of_an_ended_process_names_only_files_that_its_user_may_read) {
    char program[4096], command[8192];
    const char *const words[] = {program, NULL};
    struct stage stage;
    if (geteuid() != 0)
        check_skip("only root can read for other users");
    CHECK(close(mkstemp(temporary_template(program, sizeof program))) == 0);
    snprintf(command, sizeof command,
             "cp --remove-destination tests/unit/engine/heap/holder %s && chmod 700 %s", program,
             program);
    CHECK_INT(system(command), ==, 0);
    begin_with(&stage, words);
    end_program(&stage);
    struct got got = get_ended(&stage, "000001.heap", false);
    CHECK_INT(got.err, ==, SONDE_OK);
    CHECK_INT(profile_bytes(got.result.profile, "hold_large"), >=, 50ll << 20);
    got_finish(&got);
    snprintf(command, sizeof command, "sed -i 's/ uid 0$/ uid 12345/' %s/heap/*/state",
             stage.place.data);
    CHECK_INT(system(command), ==, 0);
    got = get_ended(&stage, "000001.heap", false);
    CHECK_INT(got.err, ==, SONDE_OK);
    CHECK_INT(profile_bytes(got.result.profile, "hold_large"), ==, 0);
    got_finish(&got);
    stage_finish(&stage);
    unlink(program);
}

TEST(missing_dumps_of_ended_processes_are_an_error) {
    struct stage stage;
    begin(&stage);
    struct got got = get_ended(&stage, "000001.heap", false); /* it is alive */
    CHECK_INT(got.err, ==, SONDE_NOT_FOUND);
    end_program(&stage);
    got = get_ended(&stage, "999998.heap", false);
    CHECK_INT(got.err, ==, SONDE_NOT_FOUND);
    CHECK(strstr(got.diag.text, "999998.heap") != NULL);
    got = get_ended(&stage, "../000001.heap", true);
    CHECK_INT(got.err, ==, SONDE_INVALID_ARGUMENT);
    got = get_ended(&stage, NULL, true);
    CHECK_INT(got.err, ==, SONDE_INVALID_ARGUMENT);
    stage_finish(&stage);
}
