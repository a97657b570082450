/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/core/audit.h"

#include "api/base/clock.h"
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/rpc/base/certificate.h"
#include "service/rpc/core/peer.h"
#include "service/rpc/core/server_state.h"

#include <grpc/support/alloc.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

_Static_assert(5 * RPC_AUDIT_MAX_TEXT + 256 <= RPC_AUDIT_MAX_LINE, "a line holds all its fields");

/* ---- Texts that others choose ---- */

/* Bytes that could begin a line, end a field or control a terminal become \xNN. */
static void quote(char out[RPC_AUDIT_MAX_TEXT], struct sonde_slice text) {
    size_t used = 0;
    for (size_t i = 0; i < text.len && used + 5 < RPC_AUDIT_MAX_TEXT; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        if (byte >= ' ' && byte < 0x7f && byte != '"' && byte != '\\')
            out[used++] = (char)byte;
        else
            used += (size_t)snprintf(out + used, 5, "\\x%02x", byte);
    }
    out[used] = 0;
}

static void add_field(struct sonde_buf *line, const char *name, const char *text) {
    char quoted[RPC_AUDIT_MAX_TEXT];
    quote(quoted, sonde_slice_of(text));
    if (*text)
        sonde_buf_printf(line, " %s=\"%s\"", name, quoted);
}

void rpc_audit_metadata(struct rpc_audit *audit, const grpc_metadata_array *metadata) {
    struct sonde_slice sent = rpc_metadata_find(metadata, "sonde-caller");
    quote(audit->claimed, sent);
}

/* ---- What a request is about ---- */

/* Points to a field of the request; NULL if it has none of that name. */
static const void *field_of(const ProtobufCMessage *request, const char *name) {
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(request->descriptor, name);
    return field ? (const char *)request + field->offset : NULL;
}

static void add_target(struct sonde_buf *text, const void *field) {
    const Sonde__V1__TargetSelector *target = *(Sonde__V1__TargetSelector *const *)field;
    if (!target)
        return;
    sonde_buf_puts(text, target->all ? "@all " : "");
    sonde_buf_puts(text, target->name);
    if (target->pid)
        sonde_buf_printf(text, "%spid %d", *target->name ? " " : "", target->pid);
    if (*target->uuid)
        sonde_buf_printf(text, "%suuid %s", *target->name || target->pid ? " " : "", target->uuid);
}

static void add_id(struct sonde_buf *text, const void *field) {
    sonde_buf_puts(text, *(char *const *)field);
}

static void add_all(struct sonde_buf *text, const void *field) {
    sonde_buf_puts(text, *(const protobuf_c_boolean *)field ? "all" : "");
}

static void add_active(struct sonde_buf *text, const void *field) {
    sonde_buf_puts(text, *(const protobuf_c_boolean *)field ? ", on" : ", off");
}

static void add_session(struct sonde_buf *text, const void *field) {
    const Sonde__V1__CollectStart *start = *(Sonde__V1__CollectStart *const *)field;
    if (start)
        sonde_buf_printf(text, "session %s of %s", start->session, start->controller);
}

/* The fields of all requests that name what changes. */
static const struct {
    const char *field;
    void (*add)(struct sonde_buf *text, const void *field);
} objects[] = {{"target", add_target},
               {"active", add_active},
               {"id", add_id},
               {"all", add_all},
               {"start", add_session}};

void rpc_audit_request(struct rpc_audit *audit, const ProtobufCMessage *request) {
    struct sonde_buf text = {.limit = 4096};
    if (!request || !audit->method || audit->method->effect == RPC_EFFECT_NONE || *audit->object)
        return;
    for (size_t i = 0; i < sizeof objects / sizeof objects[0]; i++) {
        const void *field = field_of(request, objects[i].field);
        if (field)
            objects[i].add(&text, field);
    }
    quote(audit->object, sonde_buf_slice(&text));
    sonde_buf_finish(&text);
}

/* ---- The line ---- */

static void add_time(struct sonde_buf *line) {
    struct timespec now;
    struct tm parts;
    char stamp[40];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &parts);
    sonde_buf_printf(line, "audit: time=%s.%03dZ", stamp, (int)(now.tv_nsec / 1000000));
}

/* A request without a target of its own is described by the handler's note. */
static void add_object(struct sonde_buf *line, const struct rpc_audit *audit) {
    const char *note = audit->note;
    if (*audit->object)
        sonde_buf_printf(line, " target=\"%s\"", audit->object);
    else if (*note)
        add_field(line, "note", *note == ' ' ? note + 1 : note);
}

static void add_token(struct sonde_buf *line, const struct rpc_caller *caller) {
    static const char *const scopes[] = {
        [0] = "", [SONDE_SCOPE_READ] = "read", [SONDE_SCOPE_CONTROL] = "control", "read,control"};
    const struct sonde_token_match *token = &caller->token;
    if (caller->has_token && !token->scopes)
        sonde_buf_puts(line, " token=unknown");
    else if (caller->has_token)
        sonde_buf_printf(line, " token=\"line %d (%s)\"", token->line, scopes[token->scopes & 3]);
}

/* The kernel knows the user of a loopback connection; of a unix socket gRPC hides the descriptor.
 */
static void add_peer(struct sonde_buf *line, const struct rpc_server *server, grpc_call *core) {
    char name[RPC_AUDIT_MAX_TEXT], quoted[RPC_AUDIT_MAX_TEXT];
    char *peer = grpc_call_get_peer(core);
    struct socket_peer_refusal refusal;
    uid_t uid;
    if (rpc_peer_uid(peer, &server->listeners, &uid, &refusal))
        sonde_buf_printf(line, " uid=%u", uid);
    rpc_certificate_name(core, name, sizeof name);
    add_field(line, "certificate", name);
    quote(quoted, sonde_slice_of(peer));
    sonde_buf_printf(line, " peer=%s", quoted);
    gpr_free(peer);
}

static void write_line(struct rpc_server *server, const struct rpc_audit *audit, sonde_err err) {
    struct sonde_buf line = {.limit = RPC_AUDIT_MAX_LINE};
    add_time(&line);
    sonde_buf_printf(&line, " method=%s", strrchr(audit->method->path, '/') + 1);
    add_object(&line, audit);
    add_token(&line, audit->caller);
    add_peer(&line, server, audit->core);
    if (*audit->claimed)
        sonde_buf_printf(&line, " for=\"%s\"", audit->claimed);
    sonde_buf_printf(&line, " result=%s", sonde_error_info(err)->reason);
    if (line.data)
        server->report(line.data);
    sonde_buf_finish(&line);
}

/* ---- The limit ---- */

static void report_left_out(struct rpc_server *server) {
    char line[128];
    uint64_t left_out = line_limit_take(&server->audit_limit);
    if (left_out == 0)
        return;
    snprintf(
        line, sizeof line,
        "audit: %llu more calls failed; at most %d lines a minute are written about such calls",
        (unsigned long long)left_out, LINE_LIMIT_LINES);
    server->report(line);
}

static void on_minute(struct loop_timer *timer) {
    report_left_out(container_of(timer, struct rpc_server, audit_timer));
}

static bool is_within_limit(struct rpc_server *server) {
    if (line_limit_admits(&server->audit_limit, clock_ms(CLOCK_MONOTONIC)))
        return true;
    if (!server->audit_timer.is_set) {
        server->audit_timer.run = on_minute;
        loop_timer_set(server->loop, &server->audit_timer, LINE_LIMIT_SPAN_MS);
    }
    return false;
}

void rpc_audit_write(struct rpc_server *server, struct rpc_audit *audit, sonde_err err) {
    if (!server->report || audit->is_written || !audit->method ||
        audit->method->effect == RPC_EFFECT_NONE)
        return;
    audit->is_written = true;
    if (!err || is_within_limit(server))
        write_line(server, audit, err);
}

void rpc_audit_finish(struct rpc_server *server) {
    if (!server->report)
        return;
    loop_timer_clear(server->loop, &server->audit_timer);
    report_left_out(server);
}
