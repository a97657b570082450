/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests for a check: refusals, the limit of those that wait, and a service without the program
 * that walks with libunwind. */
#include "service/engine/unwind_check/unwind_check.h"
#include "tests/unit/check.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct engine *engine;
static struct sonde_diag diag;
static sem_t answered;
static sonde_err last_err;

static void begin(void) {
    static char dir[256], socket[300];
    const char *base = getenv("TEST_TMPDIR");
    snprintf(dir, sizeof dir, "%s/check.XXXXXX", base ? base : "/tmp");
    CHECK(mkdtemp(dir) != NULL);
    snprintf(socket, sizeof socket, "@sonde-check-%d", (int)getpid());
    const struct engine_options options = {.socket_path = socket, .data_dir = dir};
    CHECK_INT(engine_create(&options, &engine, &diag), ==, SONDE_OK);
    sem_init(&answered, 0, 0);
}

static void on_answer(void *context, sonde_err err, const struct sonde_diag *why,
                      const struct engine_unwind_check *check) {
    CHECK(err ? check == NULL : check != NULL);
    last_err = err;
    sem_post(&answered);
}

static sonde_err ask(struct engine_unwind_check_spec spec) {
    memset(&diag, 0, sizeof diag);
    return engine_check_unwind(engine, &spec, on_answer, NULL, &diag);
}

static struct engine_unwind_check_spec valid(void) {
    return (struct engine_unwind_check_spec){
        .target = {.pid = getpid()}, .duration_ms = 1, .frequency_hz = 99, .max_stacks = 10};
}

TEST(what_is_out_of_bounds_is_refused_at_once) {
    begin();
    struct engine_unwind_check_spec spec = valid();
    spec.duration_ms = ENGINE_CHECK_MAX_MS + 1;
    CHECK_INT(ask(spec), ==, SONDE_INVALID_ARGUMENT);
    spec = valid(), spec.frequency_hz = 0;
    CHECK_INT(ask(spec), ==, SONDE_INVALID_ARGUMENT);
    spec = valid(), spec.max_stacks = ENGINE_CHECK_MAX_STACKS + 1;
    CHECK_INT(ask(spec), ==, SONDE_INVALID_ARGUMENT);
    spec = valid(), spec.target.all = true;
    CHECK_INT(ask(spec), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "choose one process by its pid or name");
    spec = valid(), spec.target.pid = 0x3fffffff;
    CHECK(ask(spec) != SONDE_OK);
    engine_destroy(engine);
}

TEST(checks_beyond_the_limit_are_refused_and_the_others_are_answered) {
    begin();
    for (uint32_t i = 0; i < ENGINE_CHECK_MAX_WAITING; i++)
        CHECK_INT(ask(valid()), ==, SONDE_OK);
    CHECK_INT(ask(valid()), ==, SONDE_SESSION_BUSY);
    for (uint32_t i = 0; i < ENGINE_CHECK_MAX_WAITING; i++)
        sem_wait(&answered);
    CHECK(last_err != SONDE_OK); /* there is no program to start */
    engine_destroy(engine);
}

TEST(the_end_of_the_service_answers_checks_that_wait) {
    begin();
    struct engine_unwind_check_spec spec = valid();
    spec.duration_ms = ENGINE_CHECK_MAX_MS;
    CHECK_INT(ask(spec), ==, SONDE_OK);
    CHECK_INT(ask(spec), ==, SONDE_OK);
    engine_destroy(engine);
    for (int i = 0; i < 2; i++)
        CHECK_INT(sem_trywait(&answered), ==, 0);
    CHECK(last_err != SONDE_OK);
}
