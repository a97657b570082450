/* SPDX-License-Identifier: Apache-2.0
 *
 * Hostile answers of Exchange, at a client that gathers: a service of the core alone answers each
 * message with the input, its ids turned into those that were asked (and some more). Each call ends
 * once, whatever comes. */
#include "clients/c/client.h"
#include "proto/sonde/v1/profiler.pb-c.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CALLS 4

static void must(bool condition) {
    if (!condition)
        abort();
}

/* --- the service, on a thread of its own ------------------------------------------------------ */

struct tag {
    void (*run)(struct tag *tag);
};

static struct {
    grpc_completion_queue *queue;
    grpc_server *server;
    void *method;
    grpc_call *stream, *other;
    grpc_metadata_array metadata, other_metadata;
    grpc_call_details details;
    gpr_timespec deadline;
    grpc_byte_buffer *received, *sending;
    bool has_begun;
    pthread_mutex_t lock; /* guards input */
    Sonde__V1__ExchangeResponse *input;
    atomic_uint answered;
    atomic_bool is_over;
} service = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void on_received(struct tag *tag);
static void on_sent(struct tag *tag);
static void on_stream(struct tag *tag);
static void on_other(struct tag *tag);
static struct tag received = {on_received}, sent = {on_sent}, stream = {on_stream},
                  other = {on_other};

static void receive(void) {
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
    op.data.recv_message.recv_message = &service.received;
    must(grpc_call_start_batch(service.stream, &op, 1, &received, NULL) == GRPC_CALL_OK);
}

static void on_stream(struct tag *tag) {
    receive();
}

/* Calls by themselves are for somebody else. */
static void on_other(struct tag *tag) {
    grpc_call_cancel_with_status(service.other, GRPC_STATUS_UNIMPLEMENTED, "", NULL);
    grpc_call_unref(service.other);
    grpc_metadata_array_destroy(&service.other_metadata);
    grpc_metadata_array_init(&service.other_metadata);
    grpc_call_details_destroy(&service.details);
    grpc_call_details_init(&service.details);
    grpc_server_request_call(service.server, &service.other, &service.details,
                             &service.other_metadata, service.queue, service.queue, &other);
}

static void answer(const ProtobufCMessage *message) {
    grpc_op ops[2] = {{0}};
    grpc_slice slice = grpc_slice_malloc(protobuf_c_message_get_packed_size(message));
    protobuf_c_message_pack(message, GRPC_SLICE_START_PTR(slice));
    service.sending = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    ops[0].op = GRPC_OP_SEND_MESSAGE;
    ops[0].data.send_message.send_message = service.sending;
    ops[1].op = GRPC_OP_SEND_INITIAL_METADATA;
    must(grpc_call_start_batch(service.stream, ops, service.has_begun ? 1 : 2, &sent, NULL) ==
         GRPC_CALL_OK);
    service.has_begun = true;
}

static void answer_calls(const Sonde__V1__ExchangeRequest *request) {
    Sonde__V1__ExchangeResponse nothing = SONDE__V1__EXCHANGE_RESPONSE__INIT;
    pthread_mutex_lock(&service.lock);
    for (size_t i = 0; service.input && i < service.input->n_answers; i++) {
        size_t which = service.input->answers[i]->id % (request->n_calls + 1);
        if (which < request->n_calls)
            service.input->answers[i]->id = request->calls[which]->id;
    }
    answer(service.input ? &service.input->base : &nothing.base);
    pthread_mutex_unlock(&service.lock);
    atomic_fetch_add(&service.answered, (unsigned)request->n_calls);
}

static void on_received(struct tag *tag) {
    Sonde__V1__ExchangeResponse nothing = SONDE__V1__EXCHANGE_RESPONSE__INIT;
    grpc_byte_buffer_reader reader;
    if (!service.received) { /* the process ends, or the client took an answer for no message */
        atomic_store(&service.is_over, true);
        return;
    }
    must(grpc_byte_buffer_reader_init(&reader, service.received));
    grpc_slice slice = grpc_byte_buffer_reader_readall(&reader);
    grpc_byte_buffer_reader_destroy(&reader);
    Sonde__V1__ExchangeRequest *request = sonde__v1__exchange_request__unpack(
        NULL, GRPC_SLICE_LENGTH(slice), GRPC_SLICE_START_PTR(slice));
    must(request != NULL);
    grpc_byte_buffer_destroy(service.received);
    service.received = NULL;
    if (request->n_calls)
        answer_calls(request);
    else if (request->n_cancelled)
        receive();
    else
        answer(&nothing.base);
    sonde__v1__exchange_request__free_unpacked(request, NULL);
    grpc_slice_unref(slice);
}

static void on_sent(struct tag *tag) {
    grpc_byte_buffer_destroy(service.sending);
    receive();
}

static void *serve(void *context) {
    for (;;) {
        grpc_event event =
            grpc_completion_queue_next(service.queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        ((struct tag *)event.tag)->run(event.tag);
    }
    return NULL;
}

static void start_service(const char *address) {
    pthread_t thread;
    grpc_init();
    service.queue = grpc_completion_queue_create_for_next(NULL);
    service.server = grpc_server_create(NULL, NULL);
    grpc_server_register_completion_queue(service.server, service.queue, NULL);
    service.method = grpc_server_register_method(service.server, "/sonde.v1.Profiler/Exchange",
                                                 NULL, GRPC_SRM_PAYLOAD_NONE, 0);
    grpc_server_credentials *plain = grpc_insecure_server_credentials_create();
    must(grpc_server_add_http2_port(service.server, address, plain) != 0);
    grpc_server_credentials_release(plain);
    grpc_server_start(service.server);
    grpc_metadata_array_init(&service.metadata);
    grpc_metadata_array_init(&service.other_metadata);
    grpc_call_details_init(&service.details);
    grpc_server_request_registered_call(service.server, service.method, &service.stream,
                                        &service.deadline, &service.metadata, NULL, service.queue,
                                        service.queue, &stream);
    grpc_server_request_call(service.server, &service.other, &service.details,
                             &service.other_metadata, service.queue, service.queue, &other);
    must(pthread_create(&thread, NULL, serve, NULL) == 0);
    pthread_detach(thread);
}

/* --- the client, whose events run here -------------------------------------------------------- */

static struct client *client;
static _Atomic(struct client_event *) posted;

static void post(void *context, struct client_event *event) {
    event->next = atomic_load(&posted);
    while (!atomic_compare_exchange_weak(&posted, &event->next, event))
        ;
}

static void run_posted(void) {
    struct client_event *event = atomic_exchange(&posted, NULL);
    for (struct client_event *next; event; event = next) {
        next = event->next;
        client_event_run(event);
    }
}

static struct {
    struct client_call *calls[CALLS];
    uint32_t ends[CALLS], messages;
} told;

static bool on_message(void *context, struct client_call *call, const ProtobufCMessage *message) {
    must(message->descriptor == &sonde__v1__list_targets_response__descriptor);
    return true;
}

static void on_end(void *context, sonde_err err, const struct sonde_diag *diag) {
    uint32_t *ends = context;
    must(++*ends == 1);
    must(strlen(diag->text) < sizeof diag->text);
}

static void start_calls(void) {
    static const struct client_callbacks callbacks = {.on_message = on_message, .on_end = on_end};
    Sonde__V1__ListTargetsRequest request = SONDE__V1__LIST_TARGETS_REQUEST__INIT;
    memset(&told, 0, sizeof told);
    for (size_t i = 0; i < CALLS; i++)
        told.calls[i] = client_call_start(client, &client_list_targets, &request.base, 0, NULL,
                                          &callbacks, &told.ends[i]);
    client_flush(client);
}

static void end_calls(void) {
    for (size_t i = 0; i < CALLS; i++)
        if (!told.ends[i])
            client_call_cancel(told.calls[i]);
    for (size_t i = 0; i < CALLS; i++)
        while (!told.ends[i])
            run_posted();
}

/* Until the calls are not for somebody else any more. */
static void begin(void) {
    static char folder[] = "/tmp/x.XXXXXX", address[64];
    must(mkdtemp(folder) != NULL);
    snprintf(address, sizeof address, "unix:%s/rpc", folder);
    start_service(address);
    struct client_options options = {.address = address, .post = post, .gathers = true};
    must(client_create(&options, &client, NULL) == SONDE_OK);
    must(client_wait_ready(client, 10000));
    while (!atomic_load(&service.answered)) {
        start_calls();
        usleep(2000);
        run_posted();
        end_calls();
    }
    unlink(address + strlen("unix:"));
    rmdir(folder);
}

/* NULL: no message, or none any more once it is packed again (with unknown fields that happens):
 * such a one would end the stream. */
static Sonde__V1__ExchangeResponse *read_input(const uint8_t *data, size_t size) {
    Sonde__V1__ExchangeResponse *first = sonde__v1__exchange_response__unpack(NULL, size, data);
    if (!first)
        return NULL;
    size_t len = sonde__v1__exchange_response__get_packed_size(first);
    uint8_t *bytes = malloc(len + 1);
    sonde__v1__exchange_response__pack(first, bytes);
    sonde__v1__exchange_response__free_unpacked(first, NULL);
    Sonde__V1__ExchangeResponse *input = sonde__v1__exchange_response__unpack(NULL, len, bytes);
    free(bytes);
    return input;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!client)
        begin();
    Sonde__V1__ExchangeResponse *input = read_input(data, size);
    if (!input)
        return 0;
    must(!atomic_load(&service.is_over));
    pthread_mutex_lock(&service.lock);
    service.input = input;
    pthread_mutex_unlock(&service.lock);
    unsigned before = atomic_load(&service.answered);
    start_calls();
    for (int i = 0; i < 2000 && atomic_load(&service.answered) == before; i++)
        usleep(20);
    for (int i = 0; i < 5; i++, usleep(20))
        run_posted();
    end_calls();
    pthread_mutex_lock(&service.lock);
    service.input = NULL;
    pthread_mutex_unlock(&service.lock);
    sonde__v1__exchange_response__free_unpacked(input, NULL);
    return 0;
}
