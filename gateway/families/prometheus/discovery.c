/* SPDX-License-Identifier: Apache-2.0
 *
 * /v1/sd: the targets for Prometheus' HTTP service discovery (http_sd), which Parca, Grafana Alloy
 * and Prometheus read. All targets are reached at the gateway's own address, as the client wrote it
 * in its Host header; they differ in __profile_path_prefix__. Behind a proxy that serves the
 * gateway below a path, X-Forwarded-Prefix is part of it. */
#include "gateway/handlers.h"
#include "gateway/reply/relay.h"
#include "gateway/reply/reply.h"
#include "gateway/reply/target_path.h"

#include "api/json/json.h"

#include <stdio.h>

#define DEADLINE_MS      5000
#define LONG_DEADLINE_MS 30000 /* for thousands of processes */

struct discovery {
    struct relay relay;
    struct sonde_buf address; /* as JSON */
    char base[FORWARDED_PREFIX_SIZE];
};

static void append_label(struct sonde_buf *out, const char *name, const char *value) {
    sonde_buf_printf(out, ",\"%s\":", name);
    sonde_json_string(out, sonde_slice_of(value));
}

static void append_target(struct sonde_buf *out, const struct discovery *discovery,
                          const Sonde__V1__ListTargetsResponse *list,
                          const Sonde__V1__Target *target) {
    struct sonde_buf prefix = {0};
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)target->pid);
    sonde_buf_puts(out, "{\"targets\":[");
    sonde_buf_append(out, discovery->address.data, discovery->address.len);
    sonde_buf_puts(out, "],\"labels\":{");
    sonde_buf_puts(out, "\"__profile_path_prefix__\":");
    sonde_buf_puts(&prefix, discovery->base);
    target_path_append(&prefix, list, target);
    sonde_json_string(out, sonde_buf_slice(&prefix));
    sonde_buf_finish(&prefix);
    append_label(out, "service_name", target->name);
    append_label(out, "pid", pid);
    append_label(out, "__meta_sonde_executable", target->executable);
    append_label(out, "__meta_sonde_user", target->user);
    append_label(out, "__meta_sonde_container", target->container);
    append_label(out, "__meta_sonde_attached", target->unattached ? "false" : "true");
    sonde_buf_puts(out, "}}");
}

static void on_targets(struct relay *relay, const ProtobufCMessage *message) {
    static const struct http_answer answer = {.status = 200, .content_type = REPLY_JSON};
    const Sonde__V1__ListTargetsResponse *list = (const void *)message;
    struct sonde_buf out = {0};
    bool is_first = true;
    sonde_buf_putc(&out, '[');
    for (size_t i = 0; i < list->n_targets; i++) {
        if (list->targets[i]->unavailable[0])
            continue;
        sonde_buf_puts(&out, is_first ? "\n" : ",\n");
        append_target(&out, (struct discovery *)relay, list, list->targets[i]);
        is_first = false;
    }
    sonde_buf_puts(&out, is_first ? "]\n" : "\n]\n");
    http_answer_take(relay_take_request(relay), &answer, &out);
}

static void finish(struct relay *relay) {
    sonde_buf_finish(&((struct discovery *)relay)->address);
}

void handle_discovery(const struct request_context *context) {
    static const struct relay_events events = {.on_message = on_targets, .finish = finish};
    Sonde__V1__ListTargetsRequest request = SONDE__V1__LIST_TARGETS_REQUEST__INIT;
    struct sonde_diag diag = {0};
    bool all = false;
    sonde_err err = query_flag(&context->query, "all", &all, &diag);
    if (err) {
        reply_error(context->request, context->family, err, &diag);
        return;
    }
    struct discovery *discovery = relay_create(context, sizeof *discovery, &events);
    request.include_unattached = all;
    reply_base(context->request, discovery->base);
    sonde_json_string(&discovery->address, http_request_authority(context->request));
    relay_call(&discovery->relay, &client_list_targets, &request.base,
               all ? LONG_DEADLINE_MS : DEADLINE_MS);
}
