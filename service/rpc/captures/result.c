/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/captures/result.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rpc_result *rpc_result_create(void *owner, struct sonde_profile *profile,
                                     const struct engine_facts *facts) {
    struct rpc_result *result = calloc(1, sizeof *result);
    if (!result) {
        sonde_profile_destroy(profile);
        return NULL;
    }
    result->owner = owner;
    result->profile = profile;
    result->facts = *facts;
    snprintf(result->clock, sizeof result->clock, "%s", facts->clock ? facts->clock : "");
    snprintf(result->budget_note, sizeof result->budget_note, "%s",
             facts->budget_note ? facts->budget_note : "");
    result->facts.clock = result->clock;
    result->facts.budget_note = result->budget_note;
    return result;
}

void rpc_result_destroy(struct rpc_result *result) {
    if (!result)
        return;
    sonde_profile_destroy(result->profile);
    free(result);
}

void rpc_facts_drop(struct engine_facts *facts, const char *cause, uint64_t count) {
    if (count == 0)
        return;
    facts->dropped += count;
    for (size_t i = 0; i < facts->drop_count; i++) {
        if (strcmp(facts->drops[i].cause, cause) == 0) {
            facts->drops[i].count += count;
            return;
        }
    }
    if (facts->drop_count < ENGINE_DROP_CAUSES)
        facts->drops[facts->drop_count++] = (struct engine_drop){cause, count};
    else
        facts->drops[ENGINE_DROP_CAUSES - 1].count += count;
}

/* A total of how many samples were asked of the merge and did not arrive. */
static uint64_t merge_profiles(struct sonde_profile *into, const struct sonde_profile *from) {
    int64_t before = sonde_profile_total(into, 0), wanted = sonde_profile_total(from, 0);
    if (sonde_profile_merge(into, from, 1, NULL) == SONDE_OK)
        return 0;
    int64_t missing = wanted - (sonde_profile_total(into, 0) - before);
    return missing > 0 ? (uint64_t)missing : 0;
}

void rpc_result_melt(struct rpc_result *into, struct rpc_result *from) {
    struct engine_facts *facts = &into->facts;
    uint64_t missing = merge_profiles(into->profile, from->profile);
    facts->sequence = from->facts.sequence;
    facts->end_unix_ns = from->facts.end_unix_ns;
    facts->samples +=
        from->facts.samples - (missing < from->facts.samples ? missing : from->facts.samples);
    facts->truncated += from->facts.truncated;
    facts->guest_cpu_ns += from->facts.guest_cpu_ns;
    facts->target_cpu_ns += from->facts.target_cpu_ns;
    facts->target_gone = facts->target_gone || from->facts.target_gone;
    uint64_t total = facts->dropped + from->facts.dropped;
    for (size_t i = 0; i < from->facts.drop_count; i++)
        rpc_facts_drop(facts, from->facts.drops[i].cause, from->facts.drops[i].count);
    facts->dropped = total;
    rpc_facts_drop(facts, "merge_full", missing);
    into->melted += from->melted + 1;
    rpc_result_destroy(from);
}
