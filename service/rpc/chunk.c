/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/chunk.h"

#include "proto/sonde/v1/profiler.pb-c.h"

#define CHUNK_BYTES (128u << 10)

void rpc_send_chunk(struct rpc_call *call, const struct sonde_buf *bytes, size_t *sent) {
    Sonde__V1__CaptureEvent event = SONDE__V1__CAPTURE_EVENT__INIT;
    size_t left = bytes->len - *sent;
    event.event_case = SONDE__V1__CAPTURE_EVENT__EVENT_CHUNK;
    event.chunk.data = (uint8_t *)bytes->data + *sent;
    event.chunk.len = left < CHUNK_BYTES ? left : CHUNK_BYTES;
    *sent += event.chunk.len;
    rpc_send(call, &event.base);
}
