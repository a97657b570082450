/* SPDX-License-Identifier: Apache-2.0
 *
 * Events of a watch run on the engine thread with watch_lock held. engine_unwatch takes that lock,
 * so no event is running when it returns. The engine thread also sends a new watch its first list,
 * so that the list and later changes arrive in order. */
#include "service/engine/targets/watch.h"

#include "service/engine/core/target.h"

#include <stdlib.h>

struct engine_watch {
    struct engine_watch *next; /* (watch_lock) */
    engine_on_target *on_event;
    void *context;
    bool is_synced;
};

/* Posted once per new watch. Serves all watches without a list, because the new one may be gone. */
static void sync_watches(struct engine *engine, struct message *message) {
    free(message);
    lock_take(&engine->watch_lock);
    for (struct engine_watch *watch = engine->watches; watch; watch = watch->next) {
        if (watch->is_synced)
            continue;
        watch->is_synced = true;
        for (struct target *target = engine->targets; target; target = target->next) {
            if (target->is_attached && !target->host)
                watch->on_event(watch->context, true, &target->info);
        }
        watch->on_event(watch->context, true, NULL);
    }
    lock_drop(&engine->watch_lock);
}

void watch_notify(struct engine *engine, bool attached, const struct engine_target *info) {
    lock_take(&engine->watch_lock);
    for (struct engine_watch *watch = engine->watches; watch; watch = watch->next) {
        if (watch->is_synced)
            watch->on_event(watch->context, attached, info);
    }
    lock_drop(&engine->watch_lock);
}

sonde_err engine_watch(struct engine *engine, engine_on_target *on_event, void *context,
                       struct engine_watch **created) {
    struct engine_watch *watch = calloc(1, sizeof *watch);
    struct message *message = calloc(1, sizeof *message);
    *created = watch;
    if (!watch || !message) {
        free(watch);
        free(message);
        *created = NULL;
        return SONDE_OUT_OF_MEMORY;
    }
    watch->on_event = on_event;
    watch->context = context;
    lock_take(&engine->watch_lock);
    watch->next = engine->watches;
    engine->watches = watch;
    lock_drop(&engine->watch_lock);
    message->run = sync_watches;
    engine_post(engine, message);
    return SONDE_OK;
}

void engine_unwatch(struct engine *engine, struct engine_watch *watch) {
    if (!watch)
        return;
    lock_take(&engine->watch_lock);
    for (struct engine_watch **at = &engine->watches; *at; at = &(*at)->next) {
        if (*at == watch) {
            *at = watch->next;
            break;
        }
    }
    lock_drop(&engine->watch_lock);
    free(watch);
}
