/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits of History: how many queries and deliveries run, and how they end early. The store of
 * these tests answers only when it is told to. */
#include "service/rpc/history/history.h"
#include "service/store/store.h"
#include "tests/rpc/recording.h"
#include "tests/rpc/setup.h"
#include "tests/unit/check.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct setup setup;

static struct {
    struct store base;
    atomic_bool is_open;
    atomic_uint running, stopped, begun;
} gate;

static sonde_err wait_at_gate(const struct store_stop *stop) {
    sonde_err err = SONDE_OK;
    atomic_fetch_add(&gate.begun, 1);
    atomic_fetch_add(&gate.running, 1);
    while (!atomic_load(&gate.is_open) && !err) {
        err = store_stop_check(stop, NULL);
        usleep(1000);
    }
    atomic_fetch_sub(&gate.running, 1);
    atomic_fetch_add(&gate.stopped, err != SONDE_OK);
    return err;
}

static sonde_err gate_services(struct store *store, const struct store_query *query,
                               struct sonde_arena *arena, struct store_service **services,
                               size_t *count, struct sonde_diag *diag) {
    *count = 0;
    return wait_at_gate(query->stop);
}

static sonde_err gate_put(struct store *store, const struct store_batch *batch,
                          struct store_put_result *result, struct sonde_diag *diag) {
    result->stored = (uint32_t)batch->window_count;
    return wait_at_gate(NULL);
}

static void begin(void) {
    static const struct store_ops ops = {.services = gate_services, .put = gate_put};
    atomic_store(&gate.is_open, false);
    gate.base.ops = &ops;
    gate.running = gate.stopped = gate.begun = 0;
    setup_begin_history(&setup, &gate.base, true);
}

static void ask_for(struct watcher *watcher, const struct client_caller *caller,
                    uint32_t deadline_ms) {
    Sonde__V1__ListServicesRequest request = SONDE__V1__LIST_SERVICES_REQUEST__INIT;
    *watcher = (struct watcher){.caller = caller};
    watcher_start(watcher, setup.client, &client_list_services, &request.base, deadline_ms);
}

static void ask(struct watcher *watcher, uint32_t deadline_ms) {
    ask_for(watcher, NULL, deadline_ms);
}

static bool all_run(void *context) {
    return atomic_load(&gate.running) == HISTORY_QUERIES;
}

static bool nothing_runs(void *context) {
    return atomic_load(&gate.running) == 0;
}

/* Calls that begin at the same time reach the service in any order, so any one of them may be the
 * one too many. */
struct crowd {
    struct watcher *calls;
    int count;
};

static bool one_is_over(void *context) {
    const struct crowd *crowd = context;
    for (int i = 0; i < crowd->count; i++)
        if (watcher_is_over(&crowd->calls[i]))
            return true;
    return false;
}

/* Opens the gate once a call was refused, and checks that the others are served. */
static void end_crowd(struct crowd crowd, const char *text) {
    int refused = 0;
    CHECK(eventually(one_is_over, &crowd));
    atomic_store(&gate.is_open, true);
    for (int i = 0; i < crowd.count; i++) {
        struct sonde_diag diag = {0};
        sonde_err err = watcher_end(&crowd.calls[i], &diag);
        CHECK(err == SONDE_OK || err == SONDE_TOO_MANY_CAPTURES);
        CHECK(err == SONDE_OK || strstr(diag.text, text));
        refused += err != SONDE_OK;
    }
    CHECK_INT(refused, ==, 1);
}

TEST(four_queries_run_64_wait_and_more_are_refused) {
    enum { MOST = HISTORY_QUERIES + HISTORY_QUERIES_WAITING };
    static const struct client_caller callers[] = {
        {.name = "uid 1"}, {.name = "uid 2"}, {.name = "uid 3"}};
    static struct watcher calls[MOST + 1];
    begin();
    for (int i = 0; i < HISTORY_QUERIES; i++)
        ask(&calls[i], 60000);
    CHECK(eventually(all_run, NULL));
    for (int i = HISTORY_QUERIES; i <= MOST; i++)
        ask_for(&calls[i], &callers[i / 30], 60000);
    CHECK_INT(atomic_load(&gate.begun), ==, HISTORY_QUERIES);
    end_crowd((struct crowd){calls, MOST + 1},
              "4 queries of history are running and 64 are waiting");
    CHECK_INT(atomic_load(&gate.begun), ==, MOST);
    setup_end(&setup);
}

TEST(one_caller_leaves_room_for_others) {
    enum { MOST = HISTORY_QUERIES_OF_CALLER };
    static const struct client_caller greedy = {.name = "uid 1"}, other = {.name = "uid 2"};
    static struct watcher calls[MOST + 1], served;
    struct crowd crowd = {calls, MOST + 1};
    begin();
    for (int i = 0; i <= MOST; i++)
        ask_for(&calls[i], &greedy, 60000);
    CHECK(eventually(one_is_over, &crowd));
    ask_for(&served, &other, 60000);
    end_crowd(crowd, "32 queries of history of this caller");
    CHECK_INT(watcher_end(&served, NULL), ==, SONDE_OK);
    ask_for(&served, &greedy, 60000);
    CHECK_INT(watcher_end(&served, NULL), ==, SONDE_OK);
    setup_end(&setup);
}

TEST(a_query_stops_when_its_client_goes_and_one_that_waits_never_begins) {
    struct watcher running[HISTORY_QUERIES], waiting;
    begin();
    for (int i = 0; i < HISTORY_QUERIES; i++)
        ask(&running[i], 60000);
    CHECK(eventually(all_run, NULL));
    ask(&waiting, 50); /* which ends before there is a worker for it */
    CHECK_INT(watcher_end(&waiting, NULL), ==, SONDE_DEADLINE_EXCEEDED);
    for (int i = 0; i < HISTORY_QUERIES; i++) {
        client_call_cancel(running[i].call);
        CHECK_INT(watcher_end(&running[i], NULL), ==, SONDE_CANCELLED);
    }
    CHECK(eventually(nothing_runs, NULL));
    CHECK_INT(atomic_load(&gate.stopped), ==, HISTORY_QUERIES);
    setup_end(&setup);
    CHECK_INT(atomic_load(&gate.begun), ==, HISTORY_QUERIES);
}

TEST(a_service_that_stops_ends_its_queries) {
    struct watcher running[HISTORY_QUERIES];
    begin();
    for (int i = 0; i < HISTORY_QUERIES; i++)
        ask(&running[i], 60000);
    CHECK(eventually(all_run, NULL));
    setup_stop(&setup, 10);
    for (int i = 0; i < HISTORY_QUERIES; i++)
        CHECK(watcher_end(&running[i], NULL) != SONDE_OK);
    CHECK_INT(atomic_load(&gate.stopped), ==, HISTORY_QUERIES);
    setup_end(&setup);
}

TEST(more_deliveries_than_the_limit_are_refused) {
    static struct watcher writes[HISTORY_WRITES + 1];
    Sonde__V1__WriteRequest request = SONDE__V1__WRITE_REQUEST__INIT;
    begin();
    for (int i = 0; i <= HISTORY_WRITES; i++) {
        writes[i] = (struct watcher){.on_message = NULL};
        watcher_start(&writes[i], setup.client, &client_write, &request.base, 60000);
    }
    end_crowd((struct crowd){writes, HISTORY_WRITES + 1}, "the limit is 32");
    setup_end(&setup);
}
