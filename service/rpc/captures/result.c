/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/captures/result.h"

#include "service/rpc/base/text.h"

#include <stdlib.h>
#include <string.h>

struct rpc_result *rpc_result_create(void *owner, struct sonde_profile *profile,
                                     const struct engine_metadata *metadata) {
    struct rpc_result *result = calloc(1, sizeof *result);
    if (!result) {
        sonde_profile_destroy(profile);
        return NULL;
    }
    result->owner = owner;
    result->profile = profile;
    result->metadata = *metadata;
    rpc_text_copy(result->metadata.clock_note, sizeof result->metadata.clock_note,
                  metadata->clock_note);
    return result;
}

void rpc_result_destroy(struct rpc_result *result) {
    if (!result)
        return;
    sonde_profile_destroy(result->profile);
    free(result);
}

void rpc_metadata_add_drop(struct engine_metadata *metadata, const char *cause, uint64_t count) {
    if (count == 0)
        return;
    metadata->dropped += count;
    for (size_t i = 0; i < metadata->drop_count; i++) {
        if (strcmp(metadata->drops[i].cause, cause) == 0) {
            metadata->drops[i].count += count;
            return;
        }
    }
    if (metadata->drop_count < ENGINE_DROP_CAUSES)
        metadata->drops[metadata->drop_count++] = (struct engine_drop){cause, count};
    else
        metadata->drops[ENGINE_DROP_CAUSES - 1].count += count;
}

/* The number of samples that the merge should have added but could not. */
static uint64_t merge_profiles(struct sonde_profile *into, const struct sonde_profile *from) {
    int64_t before = sonde_profile_total(into, 0), wanted = sonde_profile_total(from, 0);
    if (sonde_profile_merge(into, from, 1, NULL) == SONDE_OK)
        return 0;
    int64_t missing = wanted - (sonde_profile_total(into, 0) - before);
    return missing > 0 ? (uint64_t)missing : 0;
}

void rpc_result_merge(struct rpc_result *into, struct rpc_result *from) {
    struct engine_metadata *metadata = &into->metadata;
    uint64_t missing = merge_profiles(into->profile, from->profile);
    metadata->sequence = from->metadata.sequence;
    metadata->end_unix_ns = from->metadata.end_unix_ns;
    metadata->samples += from->metadata.samples -
                         (missing < from->metadata.samples ? missing : from->metadata.samples);
    metadata->truncated += from->metadata.truncated;
    metadata->guest_cpu_ns += from->metadata.guest_cpu_ns;
    metadata->target_cpu_ns += from->metadata.target_cpu_ns;
    metadata->target_gone = metadata->target_gone || from->metadata.target_gone;
    metadata->target_execed = metadata->target_execed || from->metadata.target_execed;
    uint64_t total = metadata->dropped + from->metadata.dropped;
    for (size_t i = 0; i < from->metadata.drop_count; i++)
        rpc_metadata_add_drop(metadata, from->metadata.drops[i].cause,
                              from->metadata.drops[i].count);
    metadata->dropped = total;
    rpc_metadata_add_drop(metadata, "merge_full", missing);
    into->merged += from->merged + 1;
    rpc_result_destroy(from);
}
