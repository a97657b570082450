/* SPDX-License-Identifier: Apache-2.0
 *
 * A profile on its way from the engine to a call, with a copy of its facts. */
#ifndef SONDE_SERVICE_RPC_CAPTURES_RESULT_H
#define SONDE_SERVICE_RPC_CAPTURES_RESULT_H

#include "service/rpc/core/call.h"

struct rpc_result {
    struct loop_message message;
    struct rpc_result *next;
    void *owner;
    struct sonde_profile *profile;
    struct engine_facts metadata; /* its texts are the two below */
    char clock[32], budget_note[192];
    uint32_t merged; /* windows merged into this one */
};

/* Takes profile, also when out of memory (then NULL). */
struct rpc_result *rpc_result_create(void *owner, struct sonde_profile *profile,
                                     const struct engine_facts *metadata);
void rpc_result_destroy(struct rpc_result *result); /* NULL is fine */

/* Adds to the drops under a cause (static text), in a free place or the last one. */
void rpc_metadata_add_drop(struct engine_facts *metadata, const char *cause, uint64_t count);

/* Melts `from`, the later one, into `into` and destroys it; what does not fit any more is counted
 * as dropped. Any thread. */
void rpc_result_merge(struct rpc_result *into, struct rpc_result *from);

#endif
