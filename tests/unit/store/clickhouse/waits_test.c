/* SPDX-License-Identifier: Apache-2.0
 *
 * A ClickHouse that answers nothing or too much: what ends the wait, and how much is held. */
#include "service/store/clickhouse/clickhouse.h"
#include "service/store/clickhouse/fleet.h"
#include "tests/unit/check.h"
#include "tests/unit/store/clickhouse/fake_server.h"
#include "tests/unit/store/clickhouse/scene.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Silent at the statement with this text, when it sets `stop`. */
struct scene {
    const char *silent_at;
    struct store_stop stop, end;
    bool ends; /* sets `end` instead */
    atomic_int requests;
    struct store *store;
};

static struct fake_answer on_request(void *context, const char *request) {
    struct scene *scene = context;
    scene->requests++;
    if (scene->silent_at && strstr(request, scene->silent_at)) {
        atomic_store(scene->ends ? &scene->end.is_stopped : &scene->stop.is_stopped, true);
        return (struct fake_answer){.is_silent = true};
    }
    if (strstr(request, "version()"))
        return (struct fake_answer){.status = 200, .body = "\00718.16.1", .len = 8};
    return (struct fake_answer){.status = 200, .body = "", .len = 0};
}

static sonde_err open_scene(struct scene *scene, struct sonde_diag *diag) {
    const struct store_limits limits = {.end = &scene->end};
    char url[100];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/db", fake_server_start(on_request, scene));
    return clickhouse_open(url, &limits, &scene->store, diag);
}

static size_t held(const struct scene *scene) {
    return ((struct fleet *)scene->store)->shared.answer_bytes;
}

typedef sonde_err operation(struct scene *scene, struct sonde_arena *arena,
                            struct sonde_diag *diag);

static sonde_err merge(struct scene *scene, struct sonde_arena *arena, struct sonde_diag *diag) {
    struct store_query query = scene_query();
    struct store_merge result;
    query.stop = &scene->stop;
    return scene->store->ops->merge(scene->store, &query, arena, &result, diag);
}

static sonde_err services(struct scene *scene, struct sonde_arena *arena, struct sonde_diag *diag) {
    struct store_query query = scene_query();
    struct store_service *found;
    size_t count;
    query.stop = &scene->stop;
    return scene->store->ops->services(scene->store, &query, arena, &found, &count, diag);
}

static sonde_err stacks(struct scene *scene, struct sonde_arena *arena, struct sonde_diag *diag) {
    const uint64_t id = 7;
    struct store_stack *found;
    size_t count;
    return scene->store->ops->stacks(scene->store, "shop", &id, 1, &scene->stop, arena, &found,
                                     &count, diag);
}

static sonde_err frames(struct scene *scene, struct sonde_arena *arena, struct sonde_diag *diag) {
    const uint64_t id = 7;
    struct store_frame *found;
    size_t count;
    return scene->store->ops->frames(scene->store, &id, 1, &scene->stop, arena, &found, &count,
                                     diag);
}

static sonde_err lease(struct scene *scene, struct sonde_arena *arena, struct sonde_diag *diag) {
    const struct store_lease_request wanted = {"group", "holder", 60, &scene->stop};
    struct store_lease *live;
    size_t count;
    return scene->store->ops->lease(scene->store, &wanted, arena, &live, &count, diag);
}

/* An info that is not complete says why in its text. */
static sonde_err info(struct scene *scene, struct sonde_arena *arena, struct sonde_diag *diag) {
    struct store_info found;
    (void)arena;
    CHECK_INT(scene->store->ops->info(scene->store, &scene->stop, &found, diag), ==, SONDE_OK);
    snprintf(diag->text, sizeof diag->text, "%s", found.trouble);
    return atomic_load(&scene->end.is_stopped)    ? SONDE_UNAVAILABLE
           : atomic_load(&scene->stop.is_stopped) ? SONDE_CANCELLED
                                                  : SONDE_OK;
}

static sonde_err put(struct scene *scene, struct sonde_arena *arena, struct sonde_diag *diag) {
    struct store_window window = scene_window(0);
    struct store_batch batch = {.windows = &window, .window_count = 1, .stop = &scene->stop};
    struct store_put_result result;
    (void)arena;
    return store_put(scene->store, &batch, &result, diag);
}

static sonde_err maintain(struct scene *scene, struct sonde_arena *arena, struct sonde_diag *diag) {
    (void)arena;
    return scene->store->ops->maintain(scene->store, 1700000000, diag);
}

/* A statement that each operation runs; is_query: its caller may give up. */
static const struct {
    operation *run;
    const char *statement;
    bool is_query;
} operations[] = {
    {merge, "FROM samples", true},
    {services, "SELECT service, arraySort", true},
    {stacks, "FROM%20stacks", true},
    {frames, "FROM%20frames", true},
    {lease, "FROM leases", true},
    {info, "count(), sum(samples)", true},
    {put, "INSERT%20INTO%20samples", false},
    {put, "SELECT source, epoch, seq", false},
    {maintain, "FROM system.parts", false},
};
#define OPERATIONS (sizeof operations / sizeof operations[0])

static sonde_err run(struct scene *scene, size_t i, bool ends, struct sonde_diag *diag) {
    struct sonde_arena arena = {0};
    scene->ends = ends;
    CHECK_INT(open_scene(scene, diag), ==, SONDE_OK);
    scene->silent_at = operations[i].statement;
    sonde_err err = operations[i].run(scene, &arena, diag);
    CHECK(atomic_load(ends ? &scene->end.is_stopped : &scene->stop.is_stopped));
    CHECK_INT(held(scene), ==, 0);
    sonde_arena_finish(&arena);
    store_close(scene->store);
    return err;
}

/* Without this, each of them lasts until its timeout of up to two minutes. */
TEST(a_caller_that_gives_up_ends_the_wait_for_each_answer) {
    static struct scene scenes[OPERATIONS];
    for (size_t i = 0; i < OPERATIONS; i++) {
        struct sonde_diag diag = {0};
        if (operations[i].is_query && run(&scenes[i], i, false, &diag) != SONDE_CANCELLED)
            check_fail(__FILE__, __LINE__, "%s: %s", operations[i].statement, diag.text);
    }
}

TEST(a_store_that_is_told_to_end_waits_for_no_answer_and_sends_nothing_more) {
    static struct scene scenes[OPERATIONS];
    for (size_t i = 0; i < OPERATIONS; i++) {
        struct sonde_diag diag = {0};
        if (run(&scenes[i], i, true, &diag) != SONDE_UNAVAILABLE || !strstr(diag.text, "stopping"))
            check_fail(__FILE__, __LINE__, "%s: %s", operations[i].statement, diag.text);
    }
}

TEST(a_store_that_is_told_to_end_while_it_is_opened_is_unavailable) {
    static struct scene scenes[] = {{.silent_at = "version()", .ends = true},
                                    {.silent_at = "CREATE TABLE", .ends = true}};
    for (size_t i = 0; i < 2; i++) {
        struct sonde_diag diag = {0};
        CHECK_INT(open_scene(&scenes[i], &diag), ==, SONDE_UNAVAILABLE);
        CHECK(strstr(diag.text, "stopping"));
    }
    struct sonde_diag diag = {0};
    int before = scenes[0].requests;
    CHECK_INT(open_scene(&scenes[0], &diag), ==, SONDE_UNAVAILABLE);
    CHECK_INT(scenes[0].requests, ==, before);
}

/* ---- How much is held ---- */

static struct fake_answer say_it(void *context, const char *request) {
    (void)request;
    return *(const struct fake_answer *)context;
}

static sonde_err ask(int port, struct http_shared *shared, struct sonde_buf *answer,
                     struct sonde_diag *diag) {
    char url[100];
    struct http_server *server;
    struct http_request request = {.sql = "SELECT 1", .timeout_ms = 60000};
    snprintf(url, sizeof url, "http://127.0.0.1:%d", port);
    CHECK_INT(http_server_create(url, NULL, shared, &server, NULL), ==, SONDE_OK);
    sonde_err err = http_run(server, &request, answer, NULL, diag);
    http_server_destroy(server);
    return err;
}

TEST(answers_that_are_read_at_the_same_time_have_a_limit_for_all) {
    static struct fake_answer said = {.status = 200, .body = "12345678", .len = 8};
    int port = fake_server_start(say_it, &said);
    struct http_shared shared = {.answer_bytes = HTTP_MAX_ANSWERS - 12};
    struct sonde_buf first = {0}, second = {0};
    struct sonde_diag diag = {0};
    CHECK_INT(ask(port, &shared, &first, NULL), ==, SONDE_OK);
    CHECK_INT(ask(port, &shared, &second, &diag), ==, SONDE_TOO_MANY_CAPTURES);
    CHECK(strstr(diag.text, "768 MiB"));
    CHECK_INT(shared.answer_bytes, ==, HTTP_MAX_ANSWERS - 4);
    http_answer_finish(&shared, &first);
    CHECK_INT(ask(port, &shared, &second, NULL), ==, SONDE_OK);
    CHECK_INT(ask(port, &shared, &second, NULL), !=, SONDE_OK); /* behind the first answer */
    CHECK_INT(second.len, ==, 8);
    http_answer_finish(&shared, &second);
    CHECK_INT(shared.answer_bytes, ==, HTTP_MAX_ANSWERS - 12);
}

TEST(an_error_longer_than_64_kib_is_not_read_to_its_end) {
    static char text[HTTP_MAX_ERROR + 1];
    static struct fake_answer said = {.status = 500, .body = text, .len = sizeof text};
    int port = fake_server_start(say_it, &said);
    struct http_shared shared = {0};
    struct sonde_buf answer = {0};
    struct sonde_diag diag = {0};
    CHECK_INT(ask(port, &shared, &answer, &diag), ==, SONDE_UNAVAILABLE);
    CHECK(strstr(diag.text, "64 KiB"));
    CHECK_INT(shared.answer_bytes, ==, 0);
    http_answer_finish(&shared, &answer);
}
