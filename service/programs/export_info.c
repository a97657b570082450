/* SPDX-License-Identifier: Apache-2.0 */
#include "service/programs/export_info.h"

#include "service/export/export.h"

#include <assert.h>
#include <stdio.h>

static_assert(RPC_MAX_EXPORTS == EXPORT_MAX_DESTINATIONS, "one state per destination");
static_assert(RPC_MAX_EXPORT_CAUSES >= LOSS_CAUSES, "one count per cause");

static void convert(const struct sender_state *from, struct rpc_export_state *state) {
    *state = (struct rpc_export_state){.destination = from->name,
                                       .sent = from->sent,
                                       .retries = from->retries,
                                       .queue_bytes = from->queue_bytes};
    snprintf(state->receiver, sizeof state->receiver, "%s", from->shown);
    snprintf(state->trouble, sizeof state->trouble, "%s", from->trouble);
    for (int cause = 0; cause < LOSS_CAUSES; cause++) {
        if (from->lost[cause] == 0)
            continue;
        state->lost[state->lost_count].cause = sender_loss_names[cause];
        state->lost[state->lost_count++].count = from->lost[cause];
    }
}

size_t export_info(void *context, struct rpc_export_state states[RPC_MAX_EXPORTS]) {
    struct sender_state from[EXPORT_MAX_DESTINATIONS];
    size_t count = context ? export_states(context, from) : 0;
    for (size_t i = 0; i < count; i++)
        convert(&from[i], &states[i]);
    return count;
}
