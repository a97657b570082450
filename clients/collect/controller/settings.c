/* SPDX-License-Identifier: Apache-2.0
 *
 * What the controller says to a host: the start of a call, settings, acknowledgements, and requests
 * for stacks. */
#include "clients/collect/controller/controller_state.h"

#include <stdlib.h>

static Sonde__V1__CollectSettings *make_settings(struct link *link, struct sonde_arena *arena) {
    struct controller *controller = link->controller;
    Sonde__V1__CollectSettings *settings = sonde_arena_alloc(arena, sizeof *settings);
    if (!settings)
        return NULL;
    *settings = *controller->options.settings;
    settings->rules = budget_rules(controller->budget, &settings->n_rules);
    settings->is_paused = controller->is_paused;
    link->settings_version = controller->settings_version;
    return settings;
}

static Sonde__V1__CollectRequest *make_request(struct sonde_arena *arena) {
    Sonde__V1__CollectRequest *request = sonde_arena_alloc(arena, sizeof *request);
    if (request)
        sonde__v1__collect_request__init(request);
    return request;
}

Sonde__V1__CollectRequest *settings_start(struct link *link, struct sonde_arena *arena) {
    Sonde__V1__CollectRequest *request = make_request(arena);
    Sonde__V1__CollectStart *start = sonde_arena_alloc(arena, sizeof *start);
    if (!request || !start)
        return NULL;
    sonde__v1__collect_start__init(start);
    start->session = (char *)link->controller->options.session;
    start->controller = (char *)link->controller->options.name;
    if (link->host->durable_seq > 0) {
        start->ack = sonde_arena_alloc(arena, sizeof *start->ack);
        if (!start->ack)
            return NULL;
        sonde__v1__collect_ack__init(start->ack);
        start->ack->epoch = link->host->epoch;
        start->ack->source = link->host->source;
        start->ack->seq = link->host->durable_seq;
    }
    request->start = start;
    request->settings = make_settings(link, arena);
    return request->settings ? request : NULL;
}

static bool add_ack(struct link *link, Sonde__V1__CollectRequest *request,
                    struct sonde_arena *arena) {
    Sonde__V1__CollectAck *ack = sonde_arena_alloc(arena, sizeof *ack);
    if (!ack)
        return false;
    sonde__v1__collect_ack__init(ack);
    ack->epoch = link->decoder.epoch;
    ack->source = link->decoder.source;
    ack->seq = link->acked_seq = link->durable_seq;
    request->ack = ack;
    return true;
}

static bool add_resend(struct link *link, Sonde__V1__CollectRequest *request,
                       struct sonde_arena *arena) {
    request->resend_stacks = sonde_arena_alloc(arena, link->resend_count * sizeof(uint64_t));
    if (!request->resend_stacks)
        return false;
    for (size_t i = 0; i < link->resend_count; i++)
        request->resend_stacks[i] = link->resend[i];
    request->n_resend_stacks = link->resend_count;
    link->resend_count = 0;
    return true;
}

Sonde__V1__CollectRequest *settings_next(struct link *link, struct sonde_arena *arena) {
    bool has_ack = link->durable_seq > link->acked_seq;
    bool has_settings = link->settings_version != link->controller->settings_version;
    if (!has_ack && !has_settings && link->resend_count == 0)
        return NULL;
    Sonde__V1__CollectRequest *request = make_request(arena);
    if (!request)
        return NULL;
    if (has_settings && !(request->settings = make_settings(link, arena)))
        return NULL;
    if (has_ack && !add_ack(link, request, arena))
        return NULL;
    if (link->resend_count > 0 && !add_resend(link, request, arena))
        return NULL;
    return request;
}
