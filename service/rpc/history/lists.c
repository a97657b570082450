/* SPDX-License-Identifier: Apache-2.0
 *
 * ListServices, ListLabels, ListLabelValues and GetHistoryInfo. */
#include "service/rpc/base/text.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/history/selection.h"

#include <string.h>

#define MAX_ITEMS 10000
#define SECOND    INT64_C(1000000000)

static char **copy_texts(struct history_query *query, const char *const *texts, size_t count) {
    char **copies = sonde_arena_alloc(&query->arena, (count + 1) * sizeof *copies);
    for (size_t i = 0; copies && i < count; i++)
        copies[i] = (char *)rpc_text(&query->arena, texts[i]);
    return copies;
}

/* ---- Services ---- */

static bool fill_service(struct history_query *query, const struct store_service *from,
                         Sonde__V1__ServiceInfo *to) {
    sonde__v1__service_info__init(to);
    to->name = (char *)rpc_text(&query->arena, from->name);
    to->events = copy_texts(query, from->events, from->event_count);
    to->n_events = from->event_count;
    to->hosts = from->hosts;
    to->processes = from->processes;
    to->first_unix_ns = from->first_unix_s * SECOND;
    to->last_unix_ns = from->last_unix_s * SECOND;
    to->on_cpu_ns = from->on_cpu_ns;
    return to->events != NULL;
}

static sonde_err add_services(struct history_query *query, const struct store_service *services,
                              size_t count) {
    Sonde__V1__ListServicesResponse response = SONDE__V1__LIST_SERVICES_RESPONSE__INIT;
    Sonde__V1__ServiceInfo *infos = sonde_arena_alloc(&query->arena, (count + 1) * sizeof *infos);
    response.services = sonde_arena_alloc(&query->arena, (count + 1) * sizeof *response.services);
    if (!infos || !response.services)
        return SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        if (!fill_service(query, &services[i], &infos[i]))
            return SONDE_OUT_OF_MEMORY;
        response.services[response.n_services++] = &infos[i];
    }
    return rpc_document_add(&query->document, &response.base);
}

static sonde_err run_services(struct history_query *query, struct sonde_diag *diag) {
    const Sonde__V1__ListServicesRequest *request = (const void *)query->request;
    struct store *store = query->history->store;
    struct history_selection selection;
    struct store_service *services = NULL;
    size_t count = 0;
    sonde_err err = history_range_read(query, request->from_unix_ns, request->until_unix_ns,
                                       request->selector, &selection, diag);
    if (!err)
        err = store->ops->services(store, &selection.query, &query->arena, &services, &count, diag);
    if (!err && count > MAX_ITEMS)
        err = sonde_fail(diag, SONDE_TOO_LARGE,
                         "%zu services; at most %d are listed: use a selector", count, MAX_ITEMS);
    if (!err)
        err = add_services(query, services, count);
    history_selection_finish(&selection);
    return err;
}

void rpc_list_services(struct rpc_call *call, const ProtobufCMessage *request) {
    history_query_start(call, request, run_services);
}

/* ---- Labels ---- */

static sonde_err run_labels(struct history_query *query, struct sonde_diag *diag) {
    const Sonde__V1__ListLabelsRequest *request = (const void *)query->request;
    Sonde__V1__ListLabelsResponse response = SONDE__V1__LIST_LABELS_RESPONSE__INIT;
    struct store *store = query->history->store;
    struct history_selection selection;
    const char **texts = NULL;
    bool is_cut;
    sonde_err err = history_range_read(query, request->from_unix_ns, request->until_unix_ns,
                                       request->selector, &selection, diag);
    if (!err)
        err = store->ops->labels(store, &selection.query, NULL, MAX_ITEMS, &query->arena, &texts,
                                 &response.n_names, &is_cut, diag);
    if (!err && !(response.names = copy_texts(query, texts, response.n_names)))
        err = SONDE_OUT_OF_MEMORY;
    if (!err)
        err = rpc_document_add(&query->document, &response.base);
    history_selection_finish(&selection);
    return err;
}

void rpc_list_labels(struct rpc_call *call, const ProtobufCMessage *request) {
    history_query_start(call, request, run_labels);
}

static sonde_err check_name(const char *name, struct sonde_diag *diag) {
    size_t len = strlen(name);
    if (len > 0 && len <= STORE_MAX_TEXT)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                      "name: the name of a label has 1 to %d bytes, not %zu", STORE_MAX_TEXT, len);
}

static sonde_err run_values(struct history_query *query, struct sonde_diag *diag) {
    const Sonde__V1__ListLabelValuesRequest *request = (const void *)query->request;
    Sonde__V1__ListLabelValuesResponse response = SONDE__V1__LIST_LABEL_VALUES_RESPONSE__INIT;
    struct store *store = query->history->store;
    struct history_selection selection = {.selector = NULL};
    const char **texts = NULL;
    bool is_cut = false;
    sonde_err err = check_name(request->name, diag);
    if (!err)
        err = history_range_read(query, request->from_unix_ns, request->until_unix_ns,
                                 request->selector, &selection, diag);
    if (!err)
        err = store->ops->labels(store, &selection.query, request->name, MAX_ITEMS, &query->arena,
                                 &texts, &response.n_values, &is_cut, diag);
    if (!err && !(response.values = copy_texts(query, texts, response.n_values)))
        err = SONDE_OUT_OF_MEMORY;
    response.is_cut = is_cut;
    if (!err)
        err = rpc_document_add(&query->document, &response.base);
    history_selection_finish(&selection);
    return err;
}

void rpc_list_label_values(struct rpc_call *call, const ProtobufCMessage *request) {
    history_query_start(call, request, run_values);
}

/* ---- The store ---- */

static void add_recorder(const struct rpc_history *history, Sonde__V1__HistoryInfo *info,
                         struct sonde_arena *arena) {
    struct rpc_recorder_state state = {.targets = 0};
    if (!history->recorder)
        return;
    history->recorder(history->recorder_context, &state);
    info->is_recording = true;
    info->recording_targets = state.targets;
    info->recording_guests = state.guests;
    info->recording_since_unix_ns = state.since_unix_ns;
    info->lost_windows = state.lost_windows;
    info->off_cpu_left_out = state.waits_left_out;
    if (!*info->trouble)
        info->trouble = (char *)rpc_text(arena, state.trouble);
    info->refusal = (char *)rpc_text(arena, state.refusal);
}

static sonde_err add_webhook(const struct rpc_export_state *state, Sonde__V1__WatchInfo *watch,
                             struct sonde_arena *arena) {
    Sonde__V1__WebhookInfo *info = sonde_arena_alloc(arena, sizeof *info);
    Sonde__V1__WebhookLoss *losses = sonde_arena_alloc(arena, sizeof *losses * state->lost_count);
    Sonde__V1__WebhookLoss **lost = sonde_arena_alloc(arena, sizeof *lost * state->lost_count);
    if (!info || !losses || !lost)
        return SONDE_OUT_OF_MEMORY;
    sonde__v1__webhook_info__init(info);
    info->receiver = (char *)rpc_text(arena, state->receiver);
    info->trouble = (char *)rpc_text(arena, state->trouble);
    info->sent = state->sent;
    info->retries = state->retries;
    info->lost = lost;
    for (size_t i = 0; i < state->lost_count; i++) {
        sonde__v1__webhook_loss__init(&losses[i]);
        losses[i].cause = (char *)state->lost[i].cause;
        losses[i].changes = state->lost[i].count;
        lost[info->n_lost++] = &losses[i];
    }
    watch->webhook = info;
    return SONDE_OK;
}

static sonde_err add_watch(const struct rpc_history *history, Sonde__V1__HistoryInfo *info,
                           struct sonde_arena *arena) {
    struct rpc_watch_state state;
    if (!history->watch)
        return SONDE_OK;
    history->watch(history->watch_context, &state);
    Sonde__V1__WatchInfo *watch = sonde_arena_alloc(arena, sizeof *watch);
    if (!watch)
        return SONDE_OUT_OF_MEMORY;
    sonde__v1__watch_info__init(watch);
    watch->services = state.services;
    watch->functions = state.functions;
    watch->changes = state.changes;
    watch->repeated = state.repeated;
    watch->failed = state.failed;
    watch->until_unix_ns = state.until_unix_s * SECOND;
    watch->skipped_slots = state.skipped_slots;
    watch->skipped_services = state.skipped_services;
    watch->trouble = (char *)rpc_text(arena, state.trouble);
    info->watch = watch;
    return state.has_webhook ? add_webhook(&state.webhook, watch, arena) : SONDE_OK;
}

static sonde_err run_info(struct history_query *query, struct sonde_diag *diag) {
    struct store *store = query->history->store;
    struct store_info from = {.engine = ""};
    Sonde__V1__HistoryInfo info = SONDE__V1__HISTORY_INFO__INIT;
    sonde_err err = store->ops->info(store, &query->stop, &from, diag);
    if (err)
        return err;
    info.engine = (char *)from.engine;
    info.place = (char *)rpc_text(&query->arena, from.place);
    info.first_unix_ns = from.first_unix_s * SECOND;
    info.last_unix_ns = from.last_unix_s * SECOND;
    info.size_bytes = from.size_bytes;
    info.size_limit_bytes = from.size_limit_bytes;
    info.keep_s = from.keep_s;
    info.windows = from.windows;
    info.samples = from.samples;
    info.dropped = from.dropped;
    info.stacks = from.stacks;
    info.frames = from.frames;
    info.hosts = from.hosts;
    info.trouble = (char *)rpc_text(&query->arena, from.trouble);
    add_recorder(query->history, &info, &query->arena);
    err = add_watch(query->history, &info, &query->arena);
    return err ? err : rpc_document_add(&query->document, &info.base);
}

void rpc_get_history_info(struct rpc_call *call, const ProtobufCMessage *request) {
    history_query_start(call, request, run_info);
}
