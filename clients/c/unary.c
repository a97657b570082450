/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/c/client_state.h"

#include <stdlib.h>
#include <string.h>

struct wait {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_over;
    sonde_err err;
    struct sonde_diag diag;
    ProtobufCMessage *response;
};

/* Copies a message, which is freed after the callback, by packing and unpacking it. */
static ProtobufCMessage *duplicate(const ProtobufCMessage *message) {
    size_t len = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = malloc(len + 1);
    if (!bytes)
        return NULL;
    protobuf_c_message_pack(message, bytes);
    ProtobufCMessage *copy = protobuf_c_message_unpack(message->descriptor, NULL, len, bytes);
    free(bytes);
    return copy;
}

static bool on_message(void *context, struct client_call *call, const ProtobufCMessage *message) {
    struct wait *wait = context;
    (void)call;
    if (!wait->response)
        wait->response = duplicate(message);
    return true;
}

static void on_end(void *context, sonde_err err, const struct sonde_diag *diag) {
    struct wait *wait = context;
    pthread_mutex_lock(&wait->lock);
    wait->err = err;
    wait->diag = *diag;
    wait->is_over = true;
    pthread_cond_signal(&wait->changed);
    pthread_mutex_unlock(&wait->lock);
}

sonde_err client_unary(struct client *client, const struct client_method *method,
                       const ProtobufCMessage *request, uint32_t deadline_ms,
                       ProtobufCMessage **response, struct sonde_diag *diag) {
    static const struct client_callbacks callbacks = {.on_message = on_message, .on_end = on_end};
    struct wait wait = {0};
    pthread_mutex_init(&wait.lock, NULL);
    pthread_cond_init(&wait.changed, NULL);
    if (!client_call_start(client, method, request, deadline_ms, NULL, &callbacks, &wait))
        wait.is_over = true, wait.err = SONDE_OUT_OF_MEMORY;
    pthread_mutex_lock(&wait.lock);
    while (!wait.is_over)
        pthread_cond_wait(&wait.changed, &wait.lock);
    pthread_mutex_unlock(&wait.lock);
    pthread_cond_destroy(&wait.changed);
    pthread_mutex_destroy(&wait.lock);
    *response = wait.response;
    if (wait.err == SONDE_OK && !wait.response)
        return sonde_fail(diag, SONDE_PROTOCOL, "the service ended the call without an answer");
    if (wait.err && wait.response)
        protobuf_c_message_free_unpacked(wait.response, NULL);
    if (wait.err)
        *response = NULL;
    if (diag)
        *diag = wait.diag;
    return wait.err;
}
