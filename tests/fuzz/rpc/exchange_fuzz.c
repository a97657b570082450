/* SPDX-License-Identifier: Apache-2.0
 *
 * Hostile messages of Exchange, at a service over the fake engine: whatever calls a message has,
 * each is answered once if the stream ends well, none twice, and the next stream is served. */
#include "clients/c/client.h"
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/rpc/core/server.h"
#include "tests/unit/rpc/fake_engine.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_CANCELLED 1024

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    const Sonde__V1__ExchangeRequest *asked;
    size_t answers;
    uint32_t sent;
    bool is_over;
    sonde_err err;
} told = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static struct client *client;

static void must(bool condition) {
    if (!condition)
        abort();
}

static size_t times_asked(uint64_t id) {
    size_t times = 0;
    for (size_t i = 0; i < told.asked->n_calls; i++)
        times += told.asked->calls[i]->id == id;
    return times;
}

static bool on_message(void *context, struct client_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__ExchangeResponse *response = (const void *)message;
    told.answers += response->n_answers;
    for (size_t i = 0; i < response->n_answers; i++) {
        must(times_asked(response->answers[i]->id) > 0);
        must(response->answers[i]->code <= 16);
        must((response->answers[i]->code == 0) == (response->answers[i]->reason[0] == 0));
    }
    must(told.answers <= told.asked->n_calls);
    return true;
}

static void on_end(void *context, sonde_err err, const struct sonde_diag *diag) {
    pthread_mutex_lock(&told.lock);
    told.err = err;
    told.is_over = true;
    pthread_cond_signal(&told.changed);
    pthread_mutex_unlock(&told.lock);
}

/* After the message: all that it asked is taken back, then the end. */
static void on_sent(void *context, struct client_call *call) {
    Sonde__V1__ExchangeRequest request = SONDE__V1__EXCHANGE_REQUEST__INIT;
    uint64_t ids[MAX_CANCELLED];
    if (told.sent++) {
        client_call_send(call, NULL);
        return;
    }
    for (size_t i = 0; i < told.asked->n_calls && i < MAX_CANCELLED; i++)
        ids[request.n_cancelled++] = told.asked->calls[i]->id;
    request.cancelled = ids;
    client_call_send(call, &request.base);
}

static void begin(void) {
    static char folder[] = "/tmp/x.XXXXXX", address[64];
    const char *addresses[] = {address};
    struct rpc_server *server = NULL;
    must(mkdtemp(folder) != NULL);
    snprintf(address, sizeof address, "unix:%s/rpc", folder);
    struct rpc_server_options rpc = {
        .engine = fake_engine_create(), .addresses = addresses, .address_count = 1};
    must(rpc_server_create(&rpc, &server, NULL) == SONDE_OK);
    struct client_options options = {.address = address};
    must(client_create(&options, &client, NULL) == SONDE_OK);
    must(client_wait_ready(client, 10000));
    unlink(address + strlen("unix:")); /* connected for good: nothing is left behind */
    unlink(strcat(address, ".lock") + strlen("unix:"));
    rmdir(folder);
}

static void exchange(const Sonde__V1__ExchangeRequest *request) {
    static const struct client_callbacks callbacks = {.on_message = on_message, .on_end = on_end};
    told.asked = request;
    told.answers = told.sent = 0;
    told.is_over = false;
    must(client_call_start_sending(client, &client_exchange, &request->base, 0, NULL, &callbacks,
                                   on_sent, NULL) != NULL);
    pthread_mutex_lock(&told.lock);
    while (!told.is_over)
        pthread_cond_wait(&told.changed, &told.lock);
    pthread_mutex_unlock(&told.lock);
    must(told.err || told.answers == request->n_calls);
    must(told.err != SONDE_UNAVAILABLE && told.err != SONDE_INTERNAL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!client)
        begin();
    Sonde__V1__ExchangeRequest *request = sonde__v1__exchange_request__unpack(NULL, size, data);
    if (!request)
        return 0;
    exchange(request);
    sonde__v1__exchange_request__free_unpacked(request, NULL);
    return 0;
}
