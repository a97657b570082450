/* SPDX-License-Identifier: Apache-2.0 */
#include "service/programs/store_threads/watching.h"
#include "tests/unit/check.h"
#include "tests/unit/store/fake_store.h"

#include <string.h>

static void log_nothing(const char *line) {
}

static sonde_err check(bool is_on, const char *webhook, bool has_store, struct sonde_diag *diag) {
    return watching_check(&(struct watching_settings){is_on, webhook}, has_store, diag);
}

TEST(a_watcher_needs_a_history_and_a_webhook_a_watcher) {
    struct sonde_diag diag = {0};
    CHECK_INT(check(false, NULL, false, &diag), ==, SONDE_OK);
    CHECK_INT(check(true, "http://a", true, &diag), ==, SONDE_OK);
    CHECK_INT(check(true, NULL, false, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "--watch needs --history");
    CHECK_INT(check(false, "http://a", true, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "--watch-webhook needs --watch");
    CHECK_INT(check(true, "hooks", true, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "--watch-webhook: the URL has an unknown scheme") != NULL);
}

TEST(it_reports_its_state_and_that_of_the_webhook) {
    struct store *store = fake_store_create();
    struct watching *watching;
    struct rpc_watch_state state;
    const struct watching_settings settings = {true, "http://127.0.0.1:9/secret"};
    CHECK_INT(watching_start(&settings, store, log_nothing, &watching, NULL), ==, SONDE_OK);
    watching_info(watching, &state);
    CHECK(state.has_webhook);
    CHECK_STR(state.webhook.receiver, "http://127.0.0.1:9");
    CHECK_INT(state.webhook.lost_count, ==, 4);
    CHECK_STR(state.webhook.lost[0].cause, "queue_full");
    watching_stop(watching);
    store_close(store);
}

TEST(without_the_option_nothing_is_started_and_a_bad_url_is_refused) {
    struct store *store = fake_store_create();
    struct watching *watching;
    const struct watching_settings off = {false, NULL}, bad = {true, "not a URL"};
    CHECK_INT(watching_start(&off, store, log_nothing, &watching, NULL), ==, SONDE_OK);
    CHECK(watching == NULL);
    CHECK_INT(watching_start(&bad, store, log_nothing, &watching, NULL), ==,
              SONDE_INVALID_ARGUMENT);
    CHECK(watching == NULL);
    store_close(store);
}
