/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the bytes of a CaptureEvent that holds a chunk and nothing else, where they lie: without
 * unpacking the message. What has any other shape, however slightly, is left to protobuf-c. */
#ifndef SONDE_CLIENTS_C_CHUNK_BYTES_H
#define SONDE_CLIENTS_C_CHUNK_BYTES_H

#include "api/bytes.h"

/* The message is the pieces in their order; some may be empty. True: *skip bytes stand before the
 * chunk's, which go up to the end. Never reads past the pieces. Thread safety: any thread. */
bool client_chunk_find(const struct sonde_slice *pieces, size_t count, size_t *skip);

#endif
