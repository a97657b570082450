/* SPDX-License-Identifier: Apache-2.0
 *
 * A client whose unary calls go together over one stream: what its callers see is what calls of
 * their own would have shown them. */
#include "tests/rpc/setup.h"
#include "tests/unit/check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define CALLS 100

static struct setup setup;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t ends, messages, good;
    sonde_err err; /* of the last end */
    char text[160];
} told = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static bool on_message(void *context, struct client_call *call, const ProtobufCMessage *message) {
    pthread_mutex_lock(&told.lock);
    told.messages++;
    pthread_mutex_unlock(&told.lock);
    return true;
}

static void on_end(void *context, sonde_err err, const struct sonde_diag *diag) {
    pthread_mutex_lock(&told.lock);
    told.ends++;
    told.good += !err;
    told.err = err;
    snprintf(told.text, sizeof told.text, "%s", sonde_diag_text(diag, err));
    pthread_cond_signal(&told.changed);
    pthread_mutex_unlock(&told.lock);
}

static void forget(void) {
    told.ends = told.messages = told.good = 0;
    told.err = SONDE_OK;
}

static sonde_err wait_for(uint32_t ends) {
    pthread_mutex_lock(&told.lock);
    while (told.ends < ends)
        pthread_cond_wait(&told.changed, &told.lock);
    sonde_err err = told.err;
    pthread_mutex_unlock(&told.lock);
    return err;
}

static struct client_call *start(struct client *client, const struct client_method *method,
                                 const ProtobufCMessage *request, uint32_t deadline_ms) {
    static const struct client_callbacks callbacks = {.on_message = on_message, .on_end = on_end};
    struct client_call *call =
        client_call_start(client, method, request, deadline_ms, NULL, &callbacks, NULL);
    CHECK(call != NULL);
    return call;
}

static void start_quick(struct client *client) {
    Sonde__V1__ListTargetsRequest request = SONDE__V1__LIST_TARGETS_REQUEST__INIT;
    start(client, &client_list_targets, &request.base, 5000);
}

/* The fake store's "dead" gets no better: answered when wait_ms is over. */
static struct client_call *start_slow(struct client *client, uint32_t deadline_ms) {
    Sonde__V1__SymbolizeRequest request = SONDE__V1__SYMBOLIZE_REQUEST__INIT;
    uint64_t address = 3;
    request.build_id = (char *)"dead";
    request.wait_ms = 30000;
    request.addresses = &address;
    request.n_addresses = 1;
    return start(client, &client_symbolize, &request.base, deadline_ms);
}

static struct client *gathering_client(void) {
    struct client_options options = {.address = setup.address, .gathers = true};
    struct client *client = NULL;
    struct sonde_diag diag = {0};
    if (client_create(&options, &client, &diag))
        check_fail(__FILE__, __LINE__, "no client: %s", diag.text);
    return client;
}

/* The first calls go by themselves, until the stream has answered. */
static void warm_up(struct client *client) {
    for (int i = 0; i < 50; i++) {
        forget();
        start_quick(client);
        client_flush(client);
        CHECK_INT(wait_for(1), ==, SONDE_OK);
    }
    forget();
}

TEST(gathered_calls_are_answered_each) {
    setup_begin(&setup);
    struct client *client = gathering_client();
    warm_up(client);
    for (int i = 0; i < CALLS; i++)
        start_quick(client);
    client_flush(client);
    wait_for(CALLS);
    CHECK_INT(told.good, ==, CALLS);
    CHECK_INT(told.messages, ==, CALLS);
    client_destroy(client);
    setup_stop(&setup, 0);
    CHECK_INT(setup.exchanged, >=, CALLS);
    setup_end(&setup);
}

TEST(gathered_error_has_its_reason_and_sentence) {
    Sonde__V1__GetCommandLineRequest request = SONDE__V1__GET_COMMAND_LINE_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = SONDE__V1__TARGET_SELECTOR__INIT;
    selector.name = (char *)"nobody";
    request.target = &selector;
    setup_begin(&setup);
    struct client *client = gathering_client();
    warm_up(client);
    start(client, &client_get_command_line, &request.base, 5000);
    client_flush(client);
    CHECK_INT(wait_for(1), ==, SONDE_TARGET_NOT_FOUND);
    CHECK(strstr(told.text, "nobody") != NULL);
    CHECK_INT(told.messages, ==, 0);
    client_destroy(client);
    setup_end(&setup);
}

TEST(gathered_call_that_is_cancelled_ends_at_once) {
    setup_begin(&setup);
    struct client *client = gathering_client();
    warm_up(client);
    struct client_call *sent = start_slow(client, 0);
    client_flush(client);
    struct client_call *unsent = start_slow(client, 0);
    client_call_cancel(unsent);
    CHECK_INT(wait_for(1), ==, SONDE_CANCELLED);
    client_call_cancel(sent);
    CHECK_INT(wait_for(2), ==, SONDE_CANCELLED);
    start_quick(client);
    client_flush(client);
    CHECK_INT(wait_for(3), ==, SONDE_OK);
    client_destroy(client);
    setup_end(&setup);
}

TEST(gathered_call_ends_at_its_deadline_and_others_do_not) {
    setup_begin(&setup);
    struct client *client = gathering_client();
    warm_up(client);
    struct client_call *other = start_slow(client, 60000);
    start_slow(client, 50);
    client_flush(client);
    CHECK_INT(wait_for(1), ==, SONDE_DEADLINE_EXCEEDED);
    CHECK_INT(told.ends, ==, 1);
    client_call_cancel(other);
    CHECK_INT(wait_for(2), ==, SONDE_CANCELLED);
    client_destroy(client);
    setup_end(&setup);
}

TEST(gathered_calls_end_when_the_service_does_and_are_answered_by_the_next) {
    setup_begin(&setup);
    struct client *client = gathering_client();
    warm_up(client);
    for (int i = 0; i < CALLS; i++)
        start_slow(client, 60000);
    client_flush(client);
    setup_stop(&setup, 0);
    wait_for(CALLS);
    CHECK_INT(told.good, ==, 0);
    forget();
    start_quick(client);
    client_flush(client);
    CHECK_INT(wait_for(1), ==, SONDE_UNAVAILABLE);
    setup_serve(&setup);
    CHECK(client_wait_ready(client, 10000));
    warm_up(client);
    client_destroy(client);
    setup_end(&setup);
}

TEST(gathering_client_that_is_destroyed_ends_every_call) {
    setup_begin(&setup);
    struct client *client = gathering_client();
    warm_up(client);
    for (int i = 0; i < CALLS; i++) {
        start_slow(client, 60000);
        if (i == CALLS / 2)
            client_flush(client);
    }
    client_destroy(client);
    CHECK_INT(told.ends, ==, CALLS);
    CHECK_INT(told.err, ==, SONDE_CANCELLED);
    setup_end(&setup);
}

TEST(gathering_client_of_nobody_says_so) {
    struct client_options options = {.address = "unix:/tmp/x.nobody/there.sock", .gathers = true};
    struct client *client = NULL;
    struct sonde_diag diag = {0};
    CHECK_INT(client_create(&options, &client, &diag), ==, SONDE_OK);
    for (int i = 0; i < 3; i++) {
        forget();
        start_quick(client);
        client_flush(client);
        CHECK_INT(wait_for(1), ==, SONDE_UNAVAILABLE);
    }
    client_destroy(client);
}

TEST(more_calls_than_go_together_go_by_themselves) {
    setup_begin(&setup);
    struct client *client = gathering_client();
    warm_up(client);
    for (int i = 0; i < 1500; i++)
        start_quick(client);
    client_flush(client);
    wait_for(1500);
    CHECK_INT(told.good, ==, 1500);
    client_destroy(client);
    setup_end(&setup);
}

static void *load(void *context) {
    struct client *client = context;
    for (int i = 0; i < 300; i++) {
        if (i % 7 == 3)
            client_call_cancel(start_slow(client, 60000));
        else
            start_quick(client);
        client_flush(client);
    }
    return NULL;
}

TEST(many_threads_may_share_a_gathering_client) {
    pthread_t threads[4];
    setup_begin(&setup);
    struct client *client = gathering_client();
    warm_up(client);
    for (size_t i = 0; i < 4; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, load, client), ==, 0);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    wait_for(1200);
    CHECK_INT(told.ends, ==, 1200);
    client_destroy(client);
    setup_end(&setup);
}

TEST(gathering_client_may_be_asked_and_waited_for) {
    Sonde__V1__GetInfoRequest request = SONDE__V1__GET_INFO_REQUEST__INIT;
    ProtobufCMessage *info = NULL;
    struct sonde_diag diag = {0};
    setup_begin(&setup);
    struct client *client = gathering_client();
    warm_up(client);
    CHECK_INT(client_unary(client, &client_get_info, &request.base, 5000, &info, &diag), ==,
              SONDE_OK);
    protobuf_c_message_free_unpacked(info, NULL);
    client_destroy(client);
    setup_end(&setup);
}
