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
    struct engine_metadata metadata;
    uint32_t merged; /* number of windows merged into this one */
};

/* Takes the profile, even if it returns NULL because it is out of memory. */
struct rpc_result *rpc_result_create(void *owner, struct sonde_profile *profile,
                                     const struct engine_metadata *metadata);
void rpc_result_destroy(struct rpc_result *result); /* NULL is fine */

/* Adds drops under a cause (static text): in a free entry, otherwise in the last one. */
void rpc_metadata_add_drop(struct engine_metadata *metadata, const char *cause, uint64_t count);

/* Merges `from`, the later window, into `into` and destroys it. Samples that no longer fit count as
 * dropped. Any thread. */
void rpc_result_merge(struct rpc_result *into, struct rpc_result *from);

#endif
