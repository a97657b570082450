/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends the bytes of a result from the worker's buffer to the client without a copy. */
#include "service/rpc/answer/chunk.h"
#include "tests/rpc/setup.h"
#include "tests/unit/check.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CHUNKS 64

static struct setup setup;

/* What a call returned; valid once is_over is set. */
static struct {
    struct sonde_buf unpacked, sliced;
    struct client_chunk *chunks[MAX_CHUNKS];
    uint32_t chunk_count;
    size_t announced;
    atomic_bool is_over;
    sonde_err err;
} got;

static bool on_message(void *context, struct client_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__CaptureEvent *event = (const void *)message;
    if (event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_RESULT)
        got.announced = event->result->size_bytes;
    if (event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_CHUNK)
        sonde_buf_append(&got.unpacked, event->chunk.data, event->chunk.len);
    return true;
}

static bool on_chunk(void *context, struct client_call *call, struct client_chunk *chunk) {
    CHECK_INT(got.chunk_count, <, MAX_CHUNKS);
    got.chunks[got.chunk_count++] = chunk;
    if (context)
        client_call_cancel(call);
    return true;
}

static void on_end(void *context, sonde_err err, const struct sonde_diag *diag) {
    got.err = err;
    got.is_over = true;
}

static bool is_over(void *context) {
    return got.is_over;
}

static void append_chunks(void) {
    for (uint32_t i = 0; i < got.chunk_count; i++) {
        const struct client_chunk *chunk = got.chunks[i];
        size_t before = got.sliced.len;
        for (size_t k = 0; k < chunk->count; k++)
            sonde_buf_append(&got.sliced, chunk->pieces[k].data, chunk->pieces[k].len);
        CHECK_INT(got.sliced.len - before, ==, chunk->len);
        CHECK_INT(chunk->len, >, 0);
        CHECK_INT(chunk->len, <=, RPC_MAX_CHUNK_BYTES);
    }
}

static void release_chunks(void) {
    for (uint32_t i = 0; i < got.chunk_count; i++)
        client_chunk_destroy(got.chunks[i]);
    sonde_buf_finish(&got.unpacked);
    sonde_buf_finish(&got.sliced);
    memset(&got, 0, sizeof got);
}

static void capture(bool takes_chunks, bool leaves) {
    const struct client_callbacks callbacks = {on_message, on_end, takes_chunks ? on_chunk : NULL};
    Sonde__V1__CaptureCpuRequest request = SONDE__V1__CAPTURE_CPU_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    request.duration_ms = 20;
    request.no_progress = true;
    request.rendering = &rendering;
    rendering.format = SONDE__V1__FORMAT__COLLAPSED;
    got.is_over = false;
    CHECK(client_call_start(setup.client, &client_capture_cpu, &request.base, 0, NULL, &callbacks,
                            leaves ? &got : NULL) != NULL);
    CHECK(eventually(is_over, NULL));
}

static void begin(void) {
    setup_begin(&setup);
    fake_engine_stacks(setup.engine, 4000, false);
    fake_engine_name_len(setup.engine, 400);
}

TEST(zero_copy_chunks_have_the_same_bytes_as_unpacked_ones) {
    begin();
    capture(false, false);
    CHECK_INT(got.err, ==, SONDE_OK);
    CHECK_INT(got.chunk_count, ==, 0);
    capture(true, false);
    CHECK_INT(got.err, ==, SONDE_OK);
    append_chunks();
    CHECK_INT(got.chunk_count, >=, 3);
    CHECK_INT(got.sliced.len, ==, got.announced);
    CHECK_INT(got.sliced.len, ==, got.unpacked.len);
    CHECK(memcmp(got.sliced.data, got.unpacked.data, got.sliced.len) == 0);
    release_chunks();
    setup_end(&setup);
}

TEST(chunks_outlive_their_call_their_service_and_their_client) {
    begin();
    capture(true, false);
    CHECK_INT(got.err, ==, SONDE_OK);
    setup_end(&setup);
    append_chunks();
    CHECK_INT(got.sliced.len, ==, got.announced);
    release_chunks();
}

TEST(a_client_that_cancels_keeps_only_the_chunks_it_has_received) {
    begin();
    for (int i = 0; i < 10; i++) {
        capture(true, true);
        CHECK_INT(got.err, ==, SONDE_CANCELLED);
        CHECK_INT(got.chunk_count, >=, 1);
        release_chunks();
    }
    setup_end(&setup);
}

TEST(the_header_of_a_chunk_is_what_protobuf_would_write) {
    static const uint32_t lens[] = {0, 1, 127, 128, 16383, 16384, RPC_MAX_CHUNK_BYTES};
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        Sonde__V1__CaptureEvent event = SONDE__V1__CAPTURE_EVENT__INIT;
        uint8_t head[RPC_CHUNK_HEAD_BYTES];
        event.event_case = SONDE__V1__CAPTURE_EVENT__EVENT_CHUNK;
        event.chunk.len = lens[i];
        event.chunk.data = calloc(1, lens[i] + 1);
        uint8_t *packed = malloc(sonde__v1__capture_event__get_packed_size(&event));
        size_t len = sonde__v1__capture_event__pack(&event, packed);
        CHECK_INT(rpc_chunk_head(head, lens[i]), ==, len - lens[i]);
        CHECK(memcmp(head, packed, len - lens[i]) == 0);
        free(packed);
        free(event.chunk.data);
    }
}
