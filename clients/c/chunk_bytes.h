/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the chunk's bytes in a packed CaptureEvent that holds only a chunk, without unpacking it.
 * Messages of any other form are left to protobuf-c. */
#ifndef SONDE_CLIENTS_C_CHUNK_BYTES_H
#define SONDE_CLIENTS_C_CHUNK_BYTES_H

#include "api/bytes.h"

/* The message is the concatenation of the pieces; some may be empty. Returns true if the chunk
 * starts after *skip bytes and extends to the end. Never reads past the pieces. Any thread. */
bool client_chunk_find(const struct sonde_slice *pieces, size_t count, size_t *skip);

#endif
