/* SPDX-License-Identifier: Apache-2.0 */
#include "service/programs/store_threads/watching.h"

#include "service/watch/watcher.h"

#include <stdlib.h>
#include <string.h>

struct watching {
    struct webhook *webhook;
    struct watcher *watcher;
};

sonde_err watching_check(const struct watching_settings *settings, bool has_store,
                         struct sonde_diag *diag) {
    if (settings->webhook && !settings->is_on)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "--watch-webhook needs --watch");
    if (settings->is_on && !has_store)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "--watch needs --history");
    return settings->webhook ? webhook_check(settings->webhook, diag) : SONDE_OK;
}

sonde_err watching_start(const struct watching_settings *settings, struct store *store,
                         void (*log)(const char *line), struct watching **started,
                         struct sonde_diag *diag) {
    *started = NULL;
    if (!settings->is_on)
        return SONDE_OK;
    struct watching *watching = calloc(1, sizeof *watching);
    const struct webhook_options webhook = {.url = settings->webhook, .log = log};
    sonde_err err = watching ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    if (!err && settings->webhook)
        err = webhook_create(&webhook, &watching->webhook, diag);
    if (!err) {
        const struct watcher_options options = {
            .store = store, .webhook = watching->webhook, .rest = WATCHER_REST, .log = log};
        watching->watcher = watcher_create(&options);
        err = watching->watcher ? watcher_start(watching->watcher, diag) : SONDE_OUT_OF_MEMORY;
    }
    if (err)
        watching_stop(watching);
    else
        *started = watching;
    return err;
}

void watching_info(void *context, struct rpc_watch_state *info) {
    struct watching *watching = context;
    struct watcher_state state;
    struct webhook_state sending;
    watcher_state(watching->watcher, &state);
    *info = (struct rpc_watch_state){.services = state.services,
                                     .functions = state.functions,
                                     .changes = state.changes,
                                     .repeated = state.repeated,
                                     .failed = state.failed,
                                     .skipped_slots = state.skipped_slots,
                                     .skipped_services = state.skipped_services,
                                     .until_unix_s = state.until_unix_s};
    memcpy(info->trouble, state.trouble, sizeof info->trouble);
    if (!watching->webhook)
        return;
    webhook_state(watching->webhook, &sending);
    info->has_webhook = true;
    info->webhook.destination = "webhook";
    memcpy(info->webhook.receiver, sending.receiver, sizeof info->webhook.receiver);
    memcpy(info->webhook.trouble, sending.trouble, sizeof info->webhook.trouble);
    info->webhook.sent = sending.sent;
    info->webhook.retries = sending.retries;
    for (size_t i = 0; i < WEBHOOK_LOSSES; i++) {
        info->webhook.lost[i].cause = webhook_loss_names[i];
        info->webhook.lost[i].count = sending.lost[i];
    }
    info->webhook.lost_count = WEBHOOK_LOSSES;
}

void watching_stop(struct watching *watching) {
    if (!watching)
        return;
    watcher_destroy(watching->watcher);
    webhook_destroy(watching->webhook);
    free(watching);
}
