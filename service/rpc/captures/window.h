/* SPDX-License-Identifier: Apache-2.0
 *
 * Encodes a window of samples as CpuWindow messages. Each name, frame and stack is sent once per
 * stream. Thread safety: one thread at a time per dictionary. */
#ifndef SONDE_SERVICE_RPC_CAPTURES_WINDOW_H
#define SONDE_SERVICE_RPC_CAPTURES_WINDOW_H

#include "service/rpc/base/dictionary.h"
#include "service/rpc/captures/result.h"

#define WINDOW_DICTIONARY_BYTES (64u << 20) /* all three tables */
#define WINDOW_PART_BYTES       (1u << 20)

/* What the client of a stream has received so far. */
struct window_dictionary {
    struct dictionary texts, frames, stacks;
    struct window_mark *marks; /* one per stack: its position in the part being built */
    uint32_t mark_count;
    uint64_t generation;
};

void window_dictionary_init(struct window_dictionary *dictionary, size_t limit_bytes);
void window_dictionary_finish(struct window_dictionary *dictionary);

struct window_parts {
    grpc_slice *items;
    size_t count, capacity;
    bool is_last; /* these end the stream */
};

/* end_reason NULL: the stream continues, unless the dictionary is full. The caller unrefs the
 * slices and frees the list. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err window_encode(struct window_dictionary *dictionary,
                                       const struct rpc_result *window, const char *end_reason,
                                       struct window_parts *parts);

#endif
