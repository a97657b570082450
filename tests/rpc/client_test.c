/* SPDX-License-Identifier: Apache-2.0
 *
 * The C client on its own: restarts, absence, loops of its caller, ends in every order. */
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

TEST(client_finds_the_service_again_after_a_restart) {
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

TEST(client_of_nobody_says_so_at_once) {
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

TEST(client_refuses_addresses_and_files_that_cannot_be) {
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

/* A caller's loop: events lie in a queue until the test runs them. */
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
} told;

static bool on_message(void *context, struct client_call *call, const ProtobufCMessage *message) {
    told.messages++;
    told.other_thread |= !pthread_equal(pthread_self(), loop.runner);
    return !told.hold;
}

static void on_end(void *context, sonde_err err, const struct sonde_diag *diag) {
    told.ends++;
    told.err = err;
    told.other_thread |= !pthread_equal(pthread_self(), loop.runner);
}

static const struct client_callbacks callbacks = {.on_message = on_message, .on_end = on_end};

static struct client *posting_client(void) {
    struct client_options options = {.address = setup.address, .post = post};
    struct client *client = NULL;
    memset(&told, 0, sizeof told);
    loop.runner = pthread_self();
    CHECK_INT(client_create(&options, &client, NULL), ==, SONDE_OK);
    return client;
}

static struct client_call *start_stream(struct client *client) {
    Sonde__V1__StreamCpuRequest request = SONDE__V1__STREAM_CPU_REQUEST__INIT;
    request.window_ms = 50;
    return client_call_start(client, &client_stream_cpu, &request.base, 0, NULL, &callbacks, NULL);
}

TEST(callbacks_run_where_the_caller_runs_events) {
    setup_begin(&setup);
    struct client *client = posting_client();
    struct client_call *call = start_stream(client);
    while (told.messages < 3)
        CHECK(eventually(run_one, NULL));
    client_call_cancel(call);
    while (!told.ends)
        CHECK(eventually(run_one, NULL));
    CHECK_INT(told.ends, ==, 1);
    CHECK_INT(told.err, ==, SONDE_CANCELLED);
    CHECK(!told.other_thread);
    client_destroy(client);
    setup_end(&setup);
}

TEST(unary_answer_and_end_come_in_order) {
    Sonde__V1__GetInfoRequest request = SONDE__V1__GET_INFO_REQUEST__INIT;
    setup_begin(&setup);
    struct client *client = posting_client();
    client_call_start(client, &client_get_info, &request.base, 0, NULL, &callbacks, NULL);
    while (!told.ends) {
        CHECK(eventually(run_one, NULL));
        CHECK(!told.ends || told.messages == 1);
    }
    CHECK_INT(told.err, ==, SONDE_OK);
    client_destroy(client);
    setup_end(&setup);
}

TEST(cancel_of_a_call_that_nobody_reads_still_brings_its_end) {
    setup_begin(&setup);
    struct client *client = posting_client();
    told.hold = true;
    struct client_call *call = start_stream(client);
    CHECK(eventually(run_one, NULL));
    CHECK_INT(told.messages, ==, 1);
    usleep(200000);
    CHECK(take_event() == NULL);
    client_call_cancel(call);
    client_call_cancel(call);
    CHECK(eventually(run_one, NULL));
    CHECK_INT(told.ends, ==, 1);
    CHECK_INT(told.messages, ==, 1);
    client_destroy(client);
    setup_end(&setup);
}

TEST(destroy_ends_what_runs_on_the_calling_thread) {
    setup_begin(&setup);
    struct client *client = posting_client();
    for (int i = 0; i < 5; i++)
        start_stream(client);
    while (told.messages < 5)
        CHECK(eventually(run_one, NULL));
    for (struct client_event *event; (event = take_event());)
        client_event_run(event);
    client_destroy(client);
    struct client_event *late = take_event(); /* posted between the loop above and destroy */
    CHECK(told.ends == 5 || late != NULL);
    CHECK(!told.other_thread);
    setup_end(&setup);
}

TEST(a_service_without_tokens_looks_at_none) {
    struct client_options options = {.address = setup.address, .token = "wrong-wrong-wrong"};
    struct client *client = NULL;
    setup_begin(&setup);
    CHECK_INT(client_create(&options, &client, NULL), ==, SONDE_OK);
    CHECK_INT(ask(client, NULL), ==, SONDE_OK);
    client_destroy(client);
    setup_end(&setup);
}

/* One self-signed identity plays both sides and its own authority. */
static void make_identity(const char *folder, char *cert, char *key) {
    char command[512];
    sprintf(cert, "%s/cert.pem", folder);
    sprintf(key, "%s/key.pem", folder);
    snprintf(command, sizeof command,
             "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
             "-subj /CN=test -addext subjectAltName=IP:127.0.0.1 -keyout %s -out %s 2>/dev/null",
             key, cert);
    if (system(command) != 0)
        check_skip("no openssl program that makes certificates");
}

TEST(client_and_service_show_each_other_certificates) {
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
