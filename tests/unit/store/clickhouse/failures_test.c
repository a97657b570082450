/* SPDX-License-Identifier: Apache-2.0
 *
 * Inserts with unknown outcomes, broken answers and wrong URLs. */
#include "service/store/clickhouse/clickhouse.h"
#include "service/store/clickhouse/http/http.h"
#include "tests/unit/check.h"
#include "tests/unit/store/clickhouse/fake_server.h"
#include "tests/unit/store/clickhouse/scene.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the fake server does, and what it saw. */
struct script {
    struct fake_answer inserts[4]; /* in turn; then 200 */
    int stores_at;                 /* the number of the insert that stores, from 1; 0 = none */
    int running;                   /* how often system.processes says that the insert runs */
    struct fake_answer query;      /* for merges, if .len or .status is set */
    atomic_int insert_count, process_count;
    atomic_bool saw_key, saw_key_in_url;
};

/* The delivery (1, 1, 0) as RowBinary, and numbers. */
static const char delivery[] = "\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0";
static const char one[] = "\1\0\0\0\0\0\0\0", zero[] = "\0\0\0\0\0\0\0\0";

static struct fake_answer say(const char *body, size_t len) {
    return (struct fake_answer){.status = 200, .body = body, .len = len};
}

static struct fake_answer on_insert(struct script *script) {
    int number = ++script->insert_count;
    if (number <= 4 && script->inserts[number - 1].len)
        return script->inserts[number - 1];
    return number <= 4 && script->inserts[number - 1].is_truncated ? (struct fake_answer){0}
                                                                   /* reset */
                                                                   : say("", 0);
}

static struct fake_answer on_request(void *context, const char *request) {
    struct script *script = context;
    const char *line_end = strstr(request, "\r\n");
    bool in_url = memmem(request, (size_t)(line_end - request), "geheim", 6);
    script->saw_key_in_url = script->saw_key_in_url || in_url;
    script->saw_key = script->saw_key || strstr(request, "X-ClickHouse-Key: geheim");
    if (strstr(request, "INSERT%20INTO%20samples"))
        return on_insert(script);
    if (strstr(request, "version()"))
        return say("\x07"
                   "18.16.1",
                   8);
    if (strstr(request, "system.processes")) {
        bool is_running = ++script->process_count <= script->running;
        return say(is_running ? one : zero, 8);
    }
    if (strstr(request, "SELECT source, epoch, seq"))
        return say(delivery,
                   script->stores_at && script->insert_count >= script->stores_at ? 20 : 0);
    if (strstr(request, "SELECT any(stack)") &&
        (script->query.status || script->query.len || script->query.is_silent))
        return script->query;
    return say("", 0);
}

static struct store *open_script(struct script *script) {
    char url[100];
    struct store *store = NULL;
    struct sonde_diag diag = {0};
    snprintf(url, sizeof url, "http://me:geheim@127.0.0.1:%d/db",
             fake_server_start(on_request, script));
    if (clickhouse_open(url, NULL, &store, &diag) != SONDE_OK)
        check_fail(__FILE__, __LINE__, "%s", diag.text);
    return store;
}

/* is_truncated in an insert without a body stands for a reset. */
static const struct fake_answer reset = {.is_truncated = true};

static sonde_err put_one(struct store *store, struct store_put_result *result,
                         struct sonde_diag *diag) {
    struct store_window window = scene_window(0);
    struct store_batch batch = {.windows = &window, .window_count = 1};
    return store_put(store, &batch, result, diag);
}

/* Somebody else may store the windows by then. */
TEST(nothing_is_inserted_for_a_sender_that_has_gone_or_waited_for_long) {
    static struct script script;
    struct store *store = open_script(&script);
    struct store_window window = scene_window(0);
    struct store_stop stops[] = {{.is_stopped = true}, {.deadline_ns = 1}, {.deadline_ns = 0}};
    for (size_t i = 0; i < 3; i++) {
        struct store_batch batch = {.windows = &window, .window_count = 1, .stop = &stops[i]};
        struct store_put_result result;
        struct sonde_diag diag = {0};
        CHECK_INT(store_put(store, &batch, &result, &diag), ==,
                  i < 2 ? SONDE_UNAVAILABLE : SONDE_OK);
        CHECK(i == 2 || strstr(diag.text, "send the windows again"));
        CHECK_INT(script.insert_count, ==, i == 2);
    }
    store_close(store);
}

TEST(an_insert_that_was_stored_although_it_broke_off_is_not_repeated) {
    static struct script script = {.inserts = {reset}, .stores_at = 1};
    struct store *store = open_script(&script);
    struct store_put_result result;
    CHECK_INT(put_one(store, &result, NULL), ==, SONDE_OK);
    CHECK_INT(result.stored, ==, 1);
    CHECK_INT(result.duplicates, ==, 0);
    CHECK_INT(script.insert_count, ==, 1);
    store_close(store);
}

TEST(an_insert_that_broke_off_and_was_not_stored_is_repeated) {
    static struct script script = {.inserts = {reset, reset}};
    struct store *store = open_script(&script);
    struct store_put_result result;
    CHECK_INT(put_one(store, &result, NULL), ==, SONDE_OK);
    CHECK_INT(script.insert_count, ==, 3);
    store_close(store);
}

TEST(an_insert_that_still_runs_is_waited_for) {
    static struct script script = {.inserts = {reset}, .stores_at = 1, .running = 3};
    struct store *store = open_script(&script);
    struct store_put_result result;
    CHECK_INT(put_one(store, &result, NULL), ==, SONDE_OK);
    CHECK_INT(script.process_count, ==, 4);
    CHECK_INT(script.insert_count, ==, 1);
    store_close(store);
}

TEST(a_refused_insert_is_unavailable_and_the_reason_is_kept) {
    static const char text[] = "Code: 252, e.displayText() = DB::Exception: Too many parts";
    struct fake_answer refused = {.status = 500, .body = text, .len = sizeof text - 1};
    static struct script script;
    script.inserts[0] = script.inserts[1] = script.inserts[2] = script.inserts[3] = refused;
    struct store *store = open_script(&script);
    struct store_put_result result;
    struct store_info info;
    struct sonde_diag diag = {0};
    CHECK_INT(put_one(store, &result, &diag), ==, SONDE_UNAVAILABLE);
    CHECK(strstr(diag.text, "too many small parts"));
    CHECK_INT(store->ops->info(store, NULL, &info, NULL), ==, SONDE_OK);
    CHECK(strstr(info.trouble, "parts") || strstr(info.trouble, "malformed"));
    CHECK(!strstr(info.place, "geheim") && !strstr(info.trouble, "geheim"));
    CHECK(!strstr(diag.text, "geheim"));
    CHECK(script.saw_key && !script.saw_key_in_url);
    store_close(store);
}

static sonde_err merge_with(struct script *script, const struct store_stop *stop,
                            struct sonde_diag *diag) {
    struct store *store = open_script(script);
    struct store_query query = scene_query();
    struct sonde_arena arena = {0};
    struct store_merge merge;
    query.until_unix_s = query.from_unix_s + 60;
    query.stop = stop;
    sonde_err err = store->ops->merge(store, &query, &arena, &merge, diag);
    sonde_arena_finish(&arena);
    store_close(store);
    return err;
}

TEST(broken_answers_are_errors) {
    static const char html[] = "<html>bad gateway</html>", row[] = "12345678";
    static struct script scripts[] = {
        {.query = {.status = 502, .body = html, .len = sizeof html - 1}},
        {.query = {.status = 200, .body = row, .len = 8, .is_truncated = true}},
        {.query = {.status = 200, .body = row, .len = 8}},
    };
    const struct {
        sonde_err err;
        const char *text;
    } expected[] = {{SONDE_UNAVAILABLE, "HTTP status 502"},
                    {SONDE_UNAVAILABLE, "127.0.0.1"},
                    {SONDE_CORRUPT, "malformed"}};
    for (size_t i = 0; i < 3; i++) {
        struct sonde_diag diag = {0};
        CHECK_INT(merge_with(&scripts[i], NULL, &diag), ==, expected[i].err);
        CHECK(strstr(diag.text, expected[i].text));
    }
}

TEST(a_query_of_a_silent_server_can_be_stopped) {
    static struct script scripts[] = {{.query = {.is_silent = true}},
                                      {.query = {.is_silent = true}}};
    struct store_stop deadline = {.deadline_ns = 1}, cancelled = {.is_stopped = true};
    CHECK_INT(merge_with(&scripts[0], &deadline, NULL), ==, SONDE_DEADLINE_EXCEEDED);
    CHECK_INT(merge_with(&scripts[1], &cancelled, NULL), ==, SONDE_CANCELLED);
}

TEST(a_server_that_is_away_is_unavailable) {
    char url[100];
    struct store *store;
    struct sonde_diag diag = {0};
    snprintf(url, sizeof url, "http://u:geheim@127.0.0.1:%d", server_free_port());
    CHECK_INT(clickhouse_open(url, NULL, &store, &diag), ==, SONDE_UNAVAILABLE);
    CHECK(strstr(diag.text, "127.0.0.1"));
    CHECK(!strstr(diag.text, "geheim"));
}

TEST(wrong_urls_are_refused_without_their_password) {
    static const char *const urls[] = {
        "",
        "127.0.0.1:8123",
        "ftp://u:geheim@h/",
        "http://",
        "http://u:geheim@h:99999/",
        "http://u:geheim@h/db?cluster=",
        "http://u:geheim@h/db?cluster",
        "http://u:geheim@h/db?password=geheim",
        "http://u:geheim@h/db?max_memory_usage=0",
        "http://u:geheim@h/db?max_execution_time=-1",
        "http://u:geheim@h/db?insert_quorum=x",
        "http://u:geheim@h,http://u:geheim@g",
        "http://u:geheim@h/\x01",
    };
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        struct store *store;
        struct sonde_diag diag = {0};
        sonde_err err = clickhouse_open(urls[i], NULL, &store, &diag);
        if (err != SONDE_INVALID_ARGUMENT || strstr(diag.text, "geheim"))
            check_fail(__FILE__, __LINE__, "%s: %d %s", urls[i], err, diag.text);
    }
}

TEST(the_servers_exceptions_become_sentences) {
    const struct {
        const char *text, *sentence;
        sonde_err err;
    } cases[] = {
        {"Code: 159, e.displayText() = DB::Exception: Timeout exceeded", "max_execution_time",
         SONDE_DEADLINE_EXCEEDED},
        {"Code: 241. DB::Exception: Memory limit (for query) exceeded. (MEMORY_LIMIT_EXCEEDED)",
         "max_memory_usage", SONDE_TOO_LARGE},
        {"Code: 427, e.displayText() = DB::Exception: OptimizedRegularExpression", "RE2",
         SONDE_INVALID_ARGUMENT},
        {"Code: 279, e.displayText() = DB::NetException: All connection tries failed", "shard",
         SONDE_UNAVAILABLE},
        {"Code: 193, e.displayText() = DB::Exception: Wrong password for user x, e.what() = y",
         "h:1: Wrong password for user x (code 193)", SONDE_PERMISSION_DENIED},
        {"Code: 516. DB::Exception: x: Authentication failed. (AUTH) (version 24.8.1.1)",
         "Authentication failed. (AUTH) (code 516)", SONDE_PERMISSION_DENIED},
        {"Code: 9999, e.displayText() = DB::Exception: new", "new (code 9999)", SONDE_UNAVAILABLE},
        {"", "HTTP status 500", SONDE_UNAVAILABLE},
        {"Code: ", "HTTP status 500", SONDE_UNAVAILABLE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sonde_diag diag = {0};
        CHECK_INT(http_exception("h:1", 500, sonde_slice_of(cases[i].text), &diag), ==,
                  cases[i].err);
        CHECK(strstr(diag.text, cases[i].sentence));
    }
}
