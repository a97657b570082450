/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/targets/target_message.h"

#include "service/rpc/base/text.h"

Sonde__V1__Target *rpc_target(struct sonde_arena *arena, const struct engine_target *target) {
    Sonde__V1__Target *message = sonde_arena_alloc(arena, sizeof *message);
    if (!message)
        return NULL;
    sonde__v1__target__init(message);
    message->name = (char *)rpc_text(arena, target->name);
    message->pid = target->pid;
    message->uuid = (char *)rpc_text(arena, target->uuid);
    message->start_unix_ns = target->start_unix_ns;
    message->attached_unix_ns = target->attached_unix_ns;
    message->executable = (char *)rpc_text(arena, target->executable);
    message->clock = (char *)rpc_text(arena, target->clock);
    message->clock_note = (char *)rpc_text(arena, target->clock_note);
    message->captures_running = target->captures_running;
    message->threads = target->threads;
    message->guest_version = (char *)rpc_text(arena, target->guest_version);
    message->unattached = target->is_unattached;
    message->uid = target->uid;
    message->container = (char *)rpc_text(arena, target->container);
    message->cpu_ns = target->cpu_ns;
    message->unavailable = (char *)rpc_text(arena, target->unavailable);
    return message;
}

Sonde__V1__Drop **rpc_drops(struct sonde_arena *arena, const struct engine_drop *drops,
                            size_t drop_count, size_t *count) {
    Sonde__V1__Drop **list = sonde_arena_alloc(arena, (drop_count + 1) * sizeof *list);
    *count = 0;
    for (size_t i = 0; list && i < drop_count; i++) {
        Sonde__V1__Drop *drop;
        if (drops[i].count == 0 || !(drop = sonde_arena_alloc(arena, sizeof *drop)))
            continue;
        sonde__v1__drop__init(drop);
        drop->cause = (char *)drops[i].cause;
        drop->count = drops[i].count;
        list[(*count)++] = drop;
    }
    return list;
}
