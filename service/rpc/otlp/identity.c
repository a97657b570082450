/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/otlp/identity.h"

#include "service/store/ids.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ID_BYTES 16 /* of a profile_id */

static bool has_id(const otlp_profile *profile) {
    static const uint8_t zeros[ID_BYTES];
    return profile->profile_id.len == ID_BYTES &&
           memcmp(profile->profile_id.data, zeros, ID_BYTES) != 0;
}

static sonde_err hash_contents(const struct otlp_resource *resource, const otlp_profile *profile,
                               struct otlp_identity *identity) {
    size_t size = protobuf_c_message_get_packed_size(&profile->base);
    uint8_t *bytes = malloc(size + 1);
    if (!bytes)
        return SONDE_OUT_OF_MEMORY;
    protobuf_c_message_pack(&profile->base, bytes);
    uint64_t who[] = {store_hash(resource->service, strlen(resource->service)),
                      store_hash(resource->host, strlen(resource->host)), (uint64_t)resource->pid};
    identity->source = store_hash(who, sizeof who);
    identity->seq = store_hash(bytes, size);
    free(bytes);
    return SONDE_OK;
}

sonde_err otlp_identify(const struct otlp_resource *resource, const otlp_profile *profile,
                        struct otlp_identity *identity) {
    if (!has_id(profile))
        return hash_contents(resource, profile, identity);
    memcpy(&identity->source, profile->profile_id.data, sizeof identity->source);
    memcpy(&identity->seq, profile->profile_id.data + sizeof identity->source,
           sizeof identity->seq);
    return SONDE_OK;
}

const char *otlp_instance(const char *host, const char *service, int64_t pid,
                          const char *instance_id, struct sonde_arena *arena) {
    char text[33];
    uint64_t where[] = {store_hash(host, strlen(host)), (uint64_t)pid};
    uint64_t what[] = {store_hash(service, strlen(service)),
                       store_hash(instance_id, strlen(instance_id))};
    snprintf(text, sizeof text, "%016llx%016llx",
             (unsigned long long)store_hash(where, sizeof where),
             (unsigned long long)store_hash(what, sizeof what));
    return sonde_arena_dup(arena, text, 32);
}
