/* SPDX-License-Identifier: Apache-2.0
 *
 * A received chunk in the core's own memory: slices of its read buffers. The chunk holds references
 * to them, so they outlive the call and the client. */
#include "clients/c/chunk_bytes.h"
#include "clients/c/client_state.h"
#include "proto/sonde/v1/profiler.pb-c.h"

#include <stdlib.h>

struct lent {
    struct client_chunk chunk;
    grpc_byte_buffer *bytes;
    struct sonde_slice pieces[];
};

static struct sonde_slice piece_of(const grpc_slice *slice) {
    return (struct sonde_slice){(const char *)GRPC_SLICE_START_PTR(*slice),
                                GRPC_SLICE_LENGTH(*slice)};
}

/* Removes the bytes before the chunk, and the pieces that become empty. */
static void skip_bytes(struct client_chunk *chunk, struct sonde_slice *pieces, size_t skip) {
    chunk->len -= skip;
    while (chunk->count && skip >= pieces->len) {
        skip -= pieces++->len;
        chunk->count--;
    }
    if (chunk->count) {
        pieces->data += skip;
        pieces->len -= skip;
    }
    chunk->pieces = pieces;
}

/* grpc_init keeps the core running until the chunk is destroyed: it owns the memory. */
struct client_chunk *client_chunk_take(const struct client_method *method,
                                       grpc_byte_buffer **bytes) {
    const grpc_slice_buffer *slices = &(*bytes)->data.raw.slice_buffer;
    size_t count = slices->count, skip = 0;
    if (method->response != &sonde__v1__capture_event__descriptor || count > CLIENT_MAX_PIECES ||
        (*bytes)->type != GRPC_BB_RAW || (*bytes)->data.raw.compression != GRPC_COMPRESS_NONE)
        return NULL;
    struct lent *lent = malloc(sizeof *lent + count * sizeof *lent->pieces);
    if (!lent)
        return NULL;
    *lent = (struct lent){.chunk = {.len = slices->length, .count = count}};
    for (size_t i = 0; i < count; i++)
        lent->pieces[i] = piece_of(&slices->slices[i]);
    if (!client_chunk_find(lent->pieces, count, &skip)) {
        free(lent);
        return NULL;
    }
    skip_bytes(&lent->chunk, lent->pieces, skip);
    grpc_init();
    lent->bytes = *bytes;
    *bytes = NULL;
    return &lent->chunk;
}

void client_chunk_destroy(struct client_chunk *chunk) {
    if (!chunk)
        return;
    struct lent *lent = container_of(chunk, struct lent, chunk);
    grpc_byte_buffer_destroy(lent->bytes);
    free(lent);
    grpc_shutdown();
}
