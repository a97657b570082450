/* SPDX-License-Identifier: Apache-2.0
 *
 * The C client when the service restarts or is missing, with the caller's event loop, and when
 * calls and client end in different orders. */
#include "tests/rpc/setup.h"
#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct setup setup;

static sonde_err ask(struct client *client, struct sonde_diag *diag) {
    Sonde__V1__GetInfoRequest request = SONDE__V1__GET_INFO_REQUEST__INIT;
    ProtobufCMessage *info = NULL;
    sonde_err err = client_unary(client, &client_get_info, &request.base, 5000, &info, diag);
    if (info)
        protobuf_c_message_free_unpacked(info, NULL);
    return err;
}

static bool is_answered(void *context) {
    return ask(context, NULL) == SONDE_OK;
}

TEST(client_reconnects_after_a_restart_of_the_service) {
    struct sonde_diag diag = {0};
    setup_begin(&setup);
    CHECK_INT(ask(setup.client, NULL), ==, SONDE_OK);
    setup_stop(&setup, 0);
    CHECK_INT(ask(setup.client, &diag), ==, SONDE_UNAVAILABLE);
    setup_serve(&setup);
    CHECK(client_wait_ready(setup.client, 10000));
    CHECK(eventually(is_answered, setup.client));
    setup_end(&setup);
}

TEST(client_reports_at_once_that_there_is_no_service) {
    struct client_options options = {.address = "unix:/tmp/x.nobody/there.sock"};
    struct client *client = NULL;
    struct sonde_diag diag = {0};
    CHECK_INT(client_create(&options, &client, &diag), ==, SONDE_OK);
    CHECK(!client_wait_ready(client, 20));
    CHECK_INT(ask(client, &diag), ==, SONDE_UNAVAILABLE);
    CHECK_STR(sonde_diag_text(&diag, SONDE_UNAVAILABLE),
              sonde_error_info(SONDE_UNAVAILABLE)->sentence);
    client_destroy(client);
}

TEST(client_refuses_bad_addresses_and_missing_files) {
    struct client_options options = {.address = "nonsense"};
    struct client *client = NULL;
    struct sonde_diag diag = {0};
    CHECK_INT(client_create(&options, &client, &diag), ==, SONDE_INVALID_ARGUMENT);
    options.address = "127.0.0.1:1";
    options.ca_file = "/nowhere/ca.pem";
    CHECK_INT(client_create(&options, &client, &diag), ==, SONDE_IO);
    CHECK(client == NULL);
    client_destroy(client);
}

/* An event loop of the caller: events wait in a list until the test runs them. */
static struct {
    pthread_mutex_t lock;
    struct client_event *first;
    pthread_t runner;
} loop = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void post(void *context, struct client_event *event) {
    pthread_mutex_lock(&loop.lock);
    event->next = loop.first;
    loop.first = event;
    pthread_mutex_unlock(&loop.lock);
}

static struct client_event *take_event(void) {
    pthread_mutex_lock(&loop.lock);
    struct client_event *event = loop.first;
    if (event)
        loop.first = event->next;
    pthread_mutex_unlock(&loop.lock);
    return event;
}

static bool run_one(void *context) {
    struct client_event *event = take_event();
    if (event)
        client_event_run(event);
    return event != NULL;
}

static struct {
    uint32_t messages, ends;
    sonde_err err;
    bool other_thread, hold;
} received;

static bool on_message(void *context, struct client_call *call, const ProtobufCMessage *message) {
    received.messages++;
    received.other_thread |= !pthread_equal(pthread_self(), loop.runner);
    return !received.hold;
}

static void on_end(void *context, sonde_err err, const struct sonde_diag *diag) {
    received.ends++;
    received.err = err;
    received.other_thread |= !pthread_equal(pthread_self(), loop.runner);
}

static const struct client_callbacks callbacks = {.on_message = on_message, .on_end = on_end};

static struct client *posting_client(void) {
    struct client_options options = {.address = setup.address, .post = post};
    struct client *client = NULL;
    memset(&received, 0, sizeof received);
    loop.runner = pthread_self();
    CHECK_INT(client_create(&options, &client, NULL), ==, SONDE_OK);
    return client;
}

static struct client_call *start_stream(struct client *client) {
    Sonde__V1__StreamCpuRequest request = SONDE__V1__STREAM_CPU_REQUEST__INIT;
    request.window_ms = 50;
    return client_call_start(client, &client_stream_cpu, &request.base, 0, NULL, &callbacks, NULL);
}

TEST(callbacks_run_on_the_thread_that_runs_events) {
    setup_begin(&setup);
    struct client *client = posting_client();
    struct client_call *call = start_stream(client);
    while (received.messages < 3)
        CHECK(eventually(run_one, NULL));
    client_call_cancel(call);
    while (!received.ends)
        CHECK(eventually(run_one, NULL));
    CHECK_INT(received.ends, ==, 1);
    CHECK_INT(received.err, ==, SONDE_CANCELLED);
    CHECK(!received.other_thread);
    client_destroy(client);
    setup_end(&setup);
}

TEST(unary_answer_arrives_before_the_end_of_the_call) {
    Sonde__V1__GetInfoRequest request = SONDE__V1__GET_INFO_REQUEST__INIT;
    setup_begin(&setup);
    struct client *client = posting_client();
    client_call_start(client, &client_get_info, &request.base, 0, NULL, &callbacks, NULL);
    while (!received.ends) {
        CHECK(eventually(run_one, NULL));
        CHECK(!received.ends || received.messages == 1);
    }
    CHECK_INT(received.err, ==, SONDE_OK);
    client_destroy(client);
    setup_end(&setup);
}

TEST(a_cancelled_call_ends_although_its_messages_are_not_read) {
    setup_begin(&setup);
    struct client *client = posting_client();
    received.hold = true;
    struct client_call *call = start_stream(client);
    CHECK(eventually(run_one, NULL));
    CHECK_INT(received.messages, ==, 1);
    usleep(200000);
    CHECK(take_event() == NULL);
    client_call_cancel(call);
    client_call_cancel(call);
    CHECK(eventually(run_one, NULL));
    CHECK_INT(received.ends, ==, 1);
    CHECK_INT(received.messages, ==, 1);
    client_destroy(client);
    setup_end(&setup);
}

TEST(destroy_ends_running_calls_on_the_calling_thread) {
    setup_begin(&setup);
    struct client *client = posting_client();
    for (int i = 0; i < 5; i++)
        start_stream(client);
    while (received.messages < 5)
        CHECK(eventually(run_one, NULL));
    for (struct client_event *event; (event = take_event());)
        client_event_run(event);
    client_destroy(client);
    struct client_event *late = take_event(); /* posted between the loop above and destroy */
    CHECK(received.ends == 5 || late != NULL);
    CHECK(!received.other_thread);
    setup_end(&setup);
}

TEST(a_service_without_tokens_ignores_the_clients_token) {
    struct client_options options = {.address = setup.address, .token = "wrong-wrong-wrong"};
    struct client *client = NULL;
    setup_begin(&setup);
    CHECK_INT(client_create(&options, &client, NULL), ==, SONDE_OK);
    CHECK_INT(ask(client, NULL), ==, SONDE_OK);
    client_destroy(client);
    setup_end(&setup);
}

/* Writes one self-signed certificate, which client and server use, and which is also the CA. */
static void make_identity(const char *folder, char *cert, char *key) {
    char command[512];
    sprintf(cert, "%s/cert.pem", folder);
    sprintf(key, "%s/key.pem", folder);
    snprintf(command, sizeof command,
             "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
             "-subj /CN=test -addext subjectAltName=IP:127.0.0.1 -keyout %s -out %s 2>/dev/null",
             key, cert);
    if (system(command) != 0)
        check_skip("no openssl program that can create certificates");
}

TEST(client_and_service_check_each_others_certificates) {
    char folder[32], cert[64], key[64];
    const char *addresses[] = {"127.0.0.1:0"};
    struct rpc_server *server = NULL;
    struct client *client = NULL, *nobody = NULL;
    struct sonde_diag diag = {0};
    CHECK(mkdtemp(temporary_template(folder, sizeof folder)) != NULL);
    make_identity(folder, cert, key);
    struct engine *engine = fake_engine_create();
    struct rpc_server_options options = {.engine = engine,
                                         .addresses = addresses,
                                         .address_count = 1,
                                         .cert_file = cert,
                                         .key_file = key,
                                         .client_ca_file = cert};
    if (rpc_server_create(&options, &server, &diag))
        check_fail(__FILE__, __LINE__, "no service: %s", diag.text);
    struct client_options known = {.address = rpc_server_address(server, 0),
                                   .ca_file = cert,
                                   .cert_file = cert,
                                   .key_file = key};
    struct client_options unknown = {.address = known.address, .ca_file = cert};
    CHECK_INT(client_create(&known, &client, &diag), ==, SONDE_OK);
    CHECK_INT(client_create(&unknown, &nobody, &diag), ==, SONDE_OK);
    sonde_err known_err = ask(client, &diag), unknown_err = ask(nobody, NULL);
    client_destroy(client);
    client_destroy(nobody);
    rpc_server_destroy(server);
    engine_destroy(engine);
    unlink(cert);
    unlink(key);
    rmdir(folder);
    if (known_err)
        check_fail(__FILE__, __LINE__, "refused: %s", diag.text);
    CHECK_INT(unknown_err, ==, SONDE_UNAVAILABLE);
}
