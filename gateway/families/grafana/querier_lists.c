/* SPDX-License-Identifier: Apache-2.0
 *
 * What Grafana offers for selection: types of profiles, names and values of labels, and the pairs
 * of service and type. */
#include "api/profile/event.h"
#include "gateway/families/grafana/connect.h"
#include "gateway/families/grafana/grafana_select.h"
#include "gateway/families/history/history_query.h"
#include "gateway/handlers.h"
#include "gateway/reply/reply.h"
#include "proto/querier/v1/querier.pb-c.h"

#include <stdlib.h>
#include <string.h>

struct lists {
    struct connect connect;
    bool has_service, has_type; /* of Series: the labels that were asked for */
};

static void free_message(ProtobufCMessage *message) {
    protobuf_c_message_free_unpacked(message, NULL);
}

static void *must_alloc(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        abort();
    return memory;
}

/* ---- Calls ---- */

static sonde_err select_windows(char *const *matchers, size_t count, int64_t start, int64_t end,
                                struct sonde_arena *arena, Sonde__V1__Selection *selection,
                                struct sonde_diag *diag) {
    sonde__v1__selection__init(selection);
    sonde_err err = grafana_read_range(start, end, selection, diag);
    return err ? err : grafana_read_matchers(matchers, count, arena, selection, diag);
}

static void ask_services(struct lists *lists, const Sonde__V1__Selection *selection) {
    Sonde__V1__ListServicesRequest request = SONDE__V1__LIST_SERVICES_REQUEST__INIT;
    request.from_unix_ns = selection->from_unix_ns;
    request.until_unix_ns = selection->until_unix_ns;
    request.selector = selection->selector;
    relay_call(&lists->connect.relay, &client_list_services, &request.base, HISTORY_DEADLINE_MS);
}

static void refuse(const struct request_context *context, sonde_err err,
                   const struct sonde_diag *diag) {
    reply_error(context->request, context->family, err, diag);
}

/* ---- ProfileTypes ---- */

static bool service_has(const Sonde__V1__ServiceInfo *service, const struct sonde_event *event) {
    for (size_t i = 0; i < service->n_events; i++)
        if (event->is_recorded && strcmp(service->events[i], event->name) == 0)
            return true;
    return false;
}

static bool has_event(const Sonde__V1__ListServicesResponse *list,
                      const struct sonde_event *event) {
    for (size_t i = 0; i < list->n_services; i++)
        if (service_has(list->services[i], event))
            return true;
    return false;
}

static void fill_type(Querier__V1__ProfileType *out, const struct sonde_event *event) {
    querier__v1__profile_type__init(out);
    out->id = (char *)(uintptr_t)event->pyroscope_id;
    out->name = (char *)(uintptr_t)event->pyroscope_name;
    out->sample_type = (char *)(uintptr_t)event->amount.type.type;
    out->sample_unit = (char *)(uintptr_t)event->amount.type.unit;
    out->period_type = (char *)(uintptr_t)event->period.type;
    out->period_unit = (char *)(uintptr_t)event->period.unit;
}

static void on_types(struct relay *relay, const ProtobufCMessage *message) {
    Querier__V1__ProfileTypesResponse response = QUERIER__V1__PROFILE_TYPES_RESPONSE__INIT;
    Querier__V1__ProfileType types[SONDE_EVENTS], *list[SONDE_EVENTS];
    response.profile_types = list;
    for (size_t i = 0; i < SONDE_EVENTS; i++)
        if (has_event((const void *)message, &sonde_events[i])) {
            fill_type(&types[i], &sonde_events[i]);
            list[response.n_profile_types++] = &types[i];
        }
    connect_answer((struct connect *)relay, &response.base);
}

void handle_querier_profile_types(const struct request_context *context) {
    static const struct relay_events events = {on_types, history_on_end, NULL};
    ProtobufCMessage *message =
        connect_read(context, &querier__v1__profile_types_request__descriptor);
    const Querier__V1__ProfileTypesRequest *request = (const void *)message;
    Sonde__V1__Selection selection;
    struct sonde_arena arena = {0};
    struct sonde_diag diag = {0};
    if (!request)
        return;
    sonde_err err =
        select_windows(NULL, 0, request->start, request->end, &arena, &selection, &diag);
    if (err)
        refuse(context, err, &diag);
    else
        ask_services(connect_create(context, sizeof(struct lists), &events), &selection);
    free_message(message);
    sonde_arena_finish(&arena);
}

/* ---- LabelNames ---- */

static void on_names(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__ListLabelsResponse *list = (const void *)message;
    Querier__V1__LabelsResponse response = QUERIER__V1__LABELS_RESPONSE__INIT;
    response.names = must_alloc(list->n_names, sizeof response.names[0]);
    for (size_t i = 0; i < list->n_names; i++)
        response.names[response.n_names++] =
            (char *)(uintptr_t)grafana_label_from_sonde(list->names[i]);
    connect_answer((struct connect *)relay, &response.base);
    free(response.names);
}

void handle_querier_label_names(const struct request_context *context) {
    static const struct relay_events events = {on_names, history_on_end, NULL};
    ProtobufCMessage *message =
        connect_read(context, &querier__v1__label_names_request__descriptor);
    const Querier__V1__LabelNamesRequest *request = (const void *)message;
    Sonde__V1__ListLabelsRequest wanted = SONDE__V1__LIST_LABELS_REQUEST__INIT;
    Sonde__V1__Selection selection;
    struct sonde_arena arena = {0};
    struct sonde_diag diag = {0};
    if (!request)
        return;
    sonde_err err = select_windows(request->matchers, request->n_matchers, request->start,
                                   request->end, &arena, &selection, &diag);
    wanted.from_unix_ns = selection.from_unix_ns;
    wanted.until_unix_ns = selection.until_unix_ns;
    wanted.selector = selection.selector;
    if (err)
        refuse(context, err, &diag);
    else
        relay_call(connect_create(context, sizeof(struct connect), &events), &client_list_labels,
                   &wanted.base, HISTORY_DEADLINE_MS);
    free_message(message);
    sonde_arena_finish(&arena);
}

/* ---- LabelValues ---- */

static void on_values(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__ListLabelValuesResponse *list = (const void *)message;
    Querier__V1__LabelsResponse response = QUERIER__V1__LABELS_RESPONSE__INIT;
    response.names = list->values;
    response.n_names = list->n_values;
    connect_answer((struct connect *)relay, &response.base);
}

static void on_type_values(struct relay *relay, const ProtobufCMessage *message) {
    Querier__V1__LabelsResponse response = QUERIER__V1__LABELS_RESPONSE__INIT;
    char *names[SONDE_EVENTS];
    response.names = names;
    for (size_t i = 0; i < SONDE_EVENTS; i++)
        if (has_event((const void *)message, &sonde_events[i]))
            names[response.n_names++] = (char *)(uintptr_t)sonde_events[i].pyroscope_id;
    connect_answer((struct connect *)relay, &response.base);
}

static void ask_values(const struct request_context *context, const char *name,
                       const Sonde__V1__Selection *selection) {
    static const struct relay_events events = {on_values, history_on_end, NULL};
    static const struct relay_events type_events = {on_type_values, history_on_end, NULL};
    Sonde__V1__ListLabelValuesRequest wanted = SONDE__V1__LIST_LABEL_VALUES_REQUEST__INIT;
    if (strcmp(name, GRAFANA_TYPE) == 0) {
        ask_services(connect_create(context, sizeof(struct lists), &type_events), selection);
        return;
    }
    wanted.name = (char *)(uintptr_t)grafana_label_to_sonde(name);
    wanted.from_unix_ns = selection->from_unix_ns;
    wanted.until_unix_ns = selection->until_unix_ns;
    wanted.selector = selection->selector;
    relay_call(connect_create(context, sizeof(struct connect), &events), &client_list_label_values,
               &wanted.base, HISTORY_DEADLINE_MS);
}

void handle_querier_label_values(const struct request_context *context) {
    ProtobufCMessage *message =
        connect_read(context, &querier__v1__label_values_request__descriptor);
    const Querier__V1__LabelValuesRequest *request = (const void *)message;
    Sonde__V1__Selection selection;
    struct sonde_arena arena = {0};
    struct sonde_diag diag = {0};
    if (!request)
        return;
    sonde_err err = select_windows(request->matchers, request->n_matchers, request->start,
                                   request->end, &arena, &selection, &diag);
    if (!err && (!request->name[0] || !grafana_is_text(request->name)))
        err = sonde_fail(&diag, SONDE_INVALID_ARGUMENT, "name: expected the name of a label");
    if (err)
        refuse(context, err, &diag);
    else
        ask_values(context, request->name, &selection);
    free_message(message);
    sonde_arena_finish(&arena);
}

/* ---- Series ---- */

/* The labels of one service and event, with storage for them. */
struct pair {
    Querier__V1__Labels labels;
    Querier__V1__LabelPair pairs[2], *list[2];
};

static void add_pair(struct pair *pair, const char *name, const char *value) {
    Querier__V1__LabelPair *next = &pair->pairs[pair->labels.n_labels];
    querier__v1__label_pair__init(next);
    next->name = (char *)(uintptr_t)name;
    next->value = (char *)(uintptr_t)value;
    pair->list[pair->labels.n_labels++] = next;
}

static size_t pairs_of(const struct lists *lists, const Sonde__V1__ServiceInfo *service,
                       struct pair *out) {
    size_t count = 0;
    for (size_t i = 0; i < SONDE_EVENTS; i++) {
        if (!service_has(service, &sonde_events[i]) || (!lists->has_type && count))
            continue;
        querier__v1__labels__init(&out[count].labels);
        out[count].labels.labels = out[count].list;
        if (lists->has_type)
            add_pair(&out[count], GRAFANA_TYPE, sonde_events[i].pyroscope_id);
        if (lists->has_service)
            add_pair(&out[count], GRAFANA_SERVICE, service->name);
        count++;
    }
    return count;
}

static void on_series(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__ListServicesResponse *list = (const void *)message;
    const struct lists *lists = (const struct lists *)relay;
    Querier__V1__SeriesResponse response = QUERIER__V1__SERIES_RESPONSE__INIT;
    size_t most = list->n_services * SONDE_EVENTS;
    struct pair *pairs = must_alloc(most, sizeof *pairs);
    response.labels_set = must_alloc(most, sizeof response.labels_set[0]);
    for (size_t i = 0; i < list->n_services; i++)
        response.n_labels_set += pairs_of(lists, list->services[i], pairs + response.n_labels_set);
    for (size_t i = 0; i < response.n_labels_set; i++)
        response.labels_set[i] = &pairs[i].labels;
    connect_answer((struct connect *)relay, &response.base);
    free(response.labels_set);
    free(pairs);
}

static bool names_label(const Querier__V1__SeriesRequest *request, const char *name) {
    for (size_t i = 0; i < request->n_label_names; i++)
        if (strcmp(request->label_names[i], name) == 0)
            return true;
    return request->n_label_names == 0;
}

void handle_querier_series(const struct request_context *context) {
    static const struct relay_events events = {on_series, history_on_end, NULL};
    ProtobufCMessage *message = connect_read(context, &querier__v1__series_request__descriptor);
    const Querier__V1__SeriesRequest *request = (const void *)message;
    Sonde__V1__Selection selection;
    struct sonde_arena arena = {0};
    struct sonde_diag diag = {0};
    if (!request)
        return;
    sonde_err err = select_windows(request->matchers, request->n_matchers, request->start,
                                   request->end, &arena, &selection, &diag);
    if (err) {
        refuse(context, err, &diag);
    } else {
        struct lists *lists = connect_create(context, sizeof *lists, &events);
        lists->has_service = names_label(request, GRAFANA_SERVICE);
        lists->has_type = names_label(request, GRAFANA_TYPE);
        ask_services(lists, &selection);
    }
    free_message(message);
    sonde_arena_finish(&arena);
}
