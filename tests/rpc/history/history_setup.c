/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/rpc/history/history_setup.h"

#include "service/store/store.h"
#include "tests/unit/check.h"
#include "tests/unit/store/fake_store.h"

#include <stdlib.h>

/* The answers of a watched call; one at a time. */
static struct {
    struct history_setup *setup;
    Sonde__V1__WriteResponse *response;
} got;

static ProtobufCMessage *dup_message(const ProtobufCMessage *message) {
    size_t len = protobuf_c_message_get_packed_size(message);
    uint8_t *packed = malloc(len + 1);
    protobuf_c_message_pack(message, packed);
    ProtobufCMessage *copy = protobuf_c_message_unpack(message->descriptor, NULL, len, packed);
    free(packed);
    return copy;
}

static void forget(struct history_setup *setup) {
    if (setup->start)
        sonde__v1__result_start__free_unpacked(setup->start, NULL);
    setup->start = NULL;
    sonde_buf_finish(&setup->document);
}

void history_setup_begin(struct history_setup *setup, bool has_engine) {
    memset(setup, 0, sizeof *setup);
    setup->store = fake_store_create();
    setup_begin_history(&setup->base, setup->store, has_engine);
}

void history_setup_end(struct history_setup *setup) {
    forget(setup);
    setup_end(&setup->base);
    store_close(setup->store);
}

static bool on_event(struct watcher *watcher, const ProtobufCMessage *message) {
    const Sonde__V1__CaptureEvent *event = (const void *)message;
    struct history_setup *setup = got.setup;
    if (event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_RESULT)
        setup->start = (void *)dup_message(&event->result->base);
    else if (event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_CHUNK)
        sonde_buf_append(&setup->document, event->chunk.data, event->chunk.len);
    return true;
}

sonde_err history_profile(struct history_setup *setup, const struct client_method *method,
                          const ProtobufCMessage *request, struct sonde_diag *diag) {
    struct watcher watcher = {.on_message = on_event};
    forget(setup);
    got.setup = setup;
    watcher_start(&watcher, setup->base.client, method, request, 30000);
    return watcher_end(&watcher, diag);
}

static bool on_response(struct watcher *watcher, const ProtobufCMessage *message) {
    got.response = (void *)dup_message(message);
    return true;
}

sonde_err history_try_write(struct history_setup *setup, const Sonde__V1__WriteRequest *request,
                            struct sonde_diag *diag) {
    struct watcher watcher = {.on_message = on_response};
    got.response = NULL;
    watcher_start(&watcher, setup->base.client, &client_write, &request->base, 30000);
    return watcher_end(&watcher, diag);
}

Sonde__V1__WriteResponse *history_write(struct history_setup *setup,
                                        const Sonde__V1__WriteRequest *request) {
    struct sonde_diag diag = {0};
    sonde_err err = history_try_write(setup, request, &diag);
    if (err || !got.response)
        check_fail(__FILE__, __LINE__, "Write: %s", sonde_diag_text(&diag, err));
    return got.response;
}

void *history_ask(struct history_setup *setup, const struct client_method *method,
                  const ProtobufCMessage *request, sonde_err *err, struct sonde_diag *diag) {
    ProtobufCMessage *response = NULL;
    struct sonde_diag own = {0};
    sonde_err code = client_unary(setup->base.client, method, request, 30000, &response, &own);
    if (!err && code)
        check_fail(__FILE__, __LINE__, "%s: %s", method->path, sonde_diag_text(&own, code));
    if (err)
        *err = code;
    if (diag)
        *diag = own;
    return response;
}
