/* SPDX-License-Identifier: Apache-2.0
 *
 * The definitions of frames and stacks that went into the spool lately. Hosts that run the same
 * programs define the same ones; the store needs each only once. When one is lost on the way,
 * History reports the stack as unknown: then everything is forgotten, and the host that is asked
 * sends it again.
 *
 * Memory is bounded: at PASSED_MAX definitions, and after an hour, it begins anew. Thread safety:
 * one thread at a time. */
#ifndef SONDE_CLIENTS_COLLECT_HOST_PASSED_H
#define SONDE_CLIENTS_COLLECT_HOST_PASSED_H

#include "api/hash_index.h"

#define PASSED_MAX      (1u << 19) /* definitions; 16 MiB */
#define PASSED_FORGET_S 3600       /* the store may have deleted old stacks */

struct passed {
    struct hash_index index;
    uint64_t (*keys)[2];
    uint32_t capacity, count;
    int64_t begin_ms;
};

void passed_init(struct passed *passed);
void passed_finish(struct passed *passed);
void passed_clear(struct passed *passed);
/* Forgets what is older than PASSED_FORGET_S. now_ms: of a monotonic clock. */
void passed_expire(struct passed *passed, int64_t now_ms);

/* Whether the definition has to be passed on; it counts as passed on from then on. Names of a frame
 * that are newer than those before have to be. Without memory everything is. */
bool passed_needs_frame(struct passed *passed, uint64_t id, uint32_t version, bool has_names);
bool passed_needs_stack(struct passed *passed, const char *service, uint64_t id);

#endif
