/* SPDX-License-Identifier: Apache-2.0
 *
 * What an OTLP resource says about a process, as history stores it. Internal to service/rpc/otlp.
 * Thread safety: any thread. */
#ifndef SONDE_SERVICE_RPC_OTLP_RESOURCE_H
#define SONDE_SERVICE_RPC_OTLP_RESOURCE_H

#include "service/rpc/otlp/message.h"
#include "service/store/store.h"

struct otlp_resource {
    const char *service; /* service.name; "" = the process's executable */
    const char *executable, *host, *instance_id;
    int64_t pid; /* -1 = unknown */
    struct store_label labels[STORE_MAX_LABELS];
    uint32_t label_count;
};

/* Texts are cut to the store's limits, and labels beyond STORE_MAX_LABELS are left out. resource
 * may be NULL. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err otlp_resource_read(const otlp_dictionary *dictionary,
                                            const otlp_resource_message *resource,
                                            struct sonde_arena *arena,
                                            struct otlp_resource *result);
/* The part of a path after the last slash. */
const char *otlp_base_name(const char *path);

#endif
