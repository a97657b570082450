/* SPDX-License-Identifier: Apache-2.0
 *
 * What identifies an OTLP profile and its process. OTLP has no counters as Sonde's deliveries do,
 * so identities are hashes. Internal to service/rpc/otlp. Thread safety: any thread. */
#ifndef SONDE_SERVICE_RPC_OTLP_IDENTITY_H
#define SONDE_SERVICE_RPC_OTLP_IDENTITY_H

#include "service/rpc/otlp/resource.h"

/* With epoch 0, the identity of a profile's windows: seq is that of the first. */
struct otlp_identity {
    uint64_t source, seq;
};

/* From profile_id; without one, from the profile's bytes and its resource. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err otlp_identify(const struct otlp_resource *resource,
                                       const otlp_profile *profile, struct otlp_identity *identity);
/* 32 hex digits for a process; NULL when out of memory. */
const char *otlp_instance(const char *host, const char *service, int64_t pid,
                          const char *instance_id, struct sonde_arena *arena);

#endif
