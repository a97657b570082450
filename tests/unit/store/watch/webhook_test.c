/* SPDX-License-Identifier: Apache-2.0
 *
 * The webhook with a receiver that answers as a test wants. */
#include "service/watch/webhook.h"
#include "tests/unit/check.h"
#include "tests/unit/store/clickhouse/fake_server.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SECRET "/hook/T0SECRET"

static struct fake_answer answers[2]; /* the first request's, and that of all others */
static atomic_int requests;
static char body[256], log_text[2048];

static struct fake_answer script(void *context, const char *request) {
    const char *end = strstr(request, "\r\n\r\n");
    snprintf(body, sizeof body, "%s", end ? end + 4 : "");
    return answers[atomic_fetch_add(&requests, 1) > 0];
}

static void on_log(const char *line) {
    size_t len = strlen(log_text);
    snprintf(log_text + len, sizeof log_text - len, "%s\n", line);
}

static struct webhook *begin(struct fake_answer first, struct fake_answer others) {
    static int port;
    char url[80];
    struct webhook *webhook;
    if (!port)
        port = fake_server_start(script, NULL);
    answers[0] = first;
    answers[1] = others;
    atomic_store(&requests, 0);
    log_text[0] = 0;
    snprintf(url, sizeof url, "http://127.0.0.1:%d" SECRET, port);
    const struct webhook_options options = {
        .url = url, .retry_ms = 1, .deadline_ms = 300, .log = on_log};
    CHECK_INT(webhook_create(&options, &webhook, NULL), ==, SONDE_OK);
    return webhook;
}

static void add(struct webhook *webhook, const char *json) {
    webhook_add(webhook, sonde_slice_of(json));
}

static struct webhook_state state(struct webhook *webhook) {
    struct webhook_state now;
    webhook_state(webhook, &now);
    return now;
}

/* Waits until something was sent or lost. */
static struct webhook_state wait_for(struct webhook *webhook, uint64_t changes) {
    struct webhook_state now = state(webhook);
    for (uint64_t done = 0; done < changes; usleep(1000)) {
        now = state(webhook);
        done = now.sent;
        for (int i = 0; i < WEBHOOK_LOSSES; i++)
            done += now.lost[i];
    }
    return now;
}

static const struct fake_answer good = {.status = 200, .body = ""};

TEST(a_change_is_posted) {
    struct webhook *webhook = begin(good, good);
    add(webhook, "{\"service\":\"shop\"}");
    struct webhook_state now = wait_for(webhook, 1);
    CHECK_INT(now.sent, ==, 1);
    CHECK_INT(now.retries, ==, 0);
    CHECK_STR(body, "{\"service\":\"shop\"}");
    CHECK_STR(log_text, "");
    webhook_destroy(webhook);
}

TEST(an_error_of_the_server_is_retried) {
    struct webhook *webhook = begin((struct fake_answer){.status = 500, .body = ""}, good);
    add(webhook, "{}");
    struct webhook_state now = wait_for(webhook, 1);
    CHECK_INT(now.sent, ==, 1);
    CHECK_INT(now.retries, ==, 1);
    CHECK_STR(now.trouble, "");
    webhook_destroy(webhook);
}

TEST(a_server_that_fails_for_ever_is_given_up) {
    const struct fake_answer bad = {.status = 500, .body = ""};
    struct webhook *webhook = begin(bad, bad);
    add(webhook, "{}");
    struct webhook_state now = wait_for(webhook, 1);
    CHECK_INT(now.lost[WEBHOOK_GIVEN_UP], ==, 1);
    CHECK_INT(atomic_load(&requests), ==, WEBHOOK_TRIES);
    CHECK(strstr(now.trouble, "HTTP status 500") != NULL);
    CHECK(strstr(log_text, "given_up") != NULL);
    CHECK(strstr(log_text, "SECRET") == NULL);
    webhook_destroy(webhook);
}

/* A redirect would send the change to another place. */
TEST(a_redirect_and_a_refusal_are_not_retried) {
    const int statuses[] = {302, 307, 404, 413};
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        struct webhook *webhook = begin((struct fake_answer){.status = statuses[i],
                                                             .body = "",
                                                             .header = "Location: /elsewhere"},
                                        good);
        add(webhook, "{}");
        struct webhook_state now = wait_for(webhook, 1);
        CHECK_INT(now.lost[WEBHOOK_REFUSED], ==, 1);
        CHECK_INT(atomic_load(&requests), ==, 1);
        webhook_destroy(webhook);
    }
}

/* Its deadline ends each request; meanwhile the queue fills up. */
TEST(a_receiver_that_hangs_costs_changes_and_not_the_watcher) {
    const struct fake_answer silent = {.is_silent = true};
    struct webhook *webhook = begin(silent, silent);
    for (int i = 0; i < WEBHOOK_QUEUE + 10; i++)
        add(webhook, "{}");
    CHECK_INT(state(webhook).lost[WEBHOOK_QUEUE_FULL], >=, 9);
    while (state(webhook).retries == 0)
        usleep(1000);
    CHECK_INT(state(webhook).sent, ==, 0);
    webhook_destroy(webhook);
    CHECK(strstr(log_text, "queue_full") && strstr(log_text, "shutdown"));
}

TEST(urls_that_cannot_be_posted_to_are_refused) {
    const char *const urls[] = {"grpc://127.0.0.1:1", "ftp://a", "http://", "http://a b/"};
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        const struct webhook_options options = {.url = urls[i], .log = on_log};
        struct webhook *webhook;
        struct sonde_diag diag = {0};
        CHECK_INT(webhook_create(&options, &webhook, &diag), ==, SONDE_INVALID_ARGUMENT);
        CHECK(strstr(diag.text, "--watch-webhook") != NULL);
        CHECK(webhook == NULL);
    }
}
