/* SPDX-License-Identifier: Apache-2.0 */
#include "api/base/container_of.h"
#include "api/text/unreached.h"
#include "service/export/transport.h"
#include "service/rpc/outgoing/outgoing.h"

#include <stdlib.h>
#include <string.h>

static const char export_method[] =
    "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export";

struct grpc {
    struct transport transport;
    struct rpc_outgoing *outgoing;
    char host[sizeof((struct export_address *)0)->host];
};

/* Whether the text is gRPC's own: a status has no mark of who made it. */
static bool has_broken(const char *text) {
    return strstr(text, "Socket closed") || strstr(text, "Connection reset") ||
           strstr(text, "Broken pipe");
}

/* Our sentence in place of gRPC's if the receiver did not say anything. */
static void explain(const struct grpc *grpc, const struct rpc_outgoing_answer *got,
                    struct export_answer *answer) {
    enum unreached why = UNREACHED_NO_ANSWER;
    if (answer->outcome != EXPORT_RETRY)
        return;
    if (!got->was_connected)
        why = strstr(got->message, "DNS") ? UNREACHED_NO_ADDRESS : UNREACHED_REFUSED;
    else if (has_broken(got->message))
        why = UNREACHED_BROKEN;
    else if (!answer->is_timeout)
        return;
    (void)unreached_text(why, grpc->host, answer->text, sizeof answer->text);
}

static void send_request(struct transport *transport, struct sonde_slice request,
                         uint32_t deadline_ms, struct export_answer *answer) {
    struct grpc *grpc = container_of(transport, struct grpc, transport);
    struct rpc_outgoing_answer got = {0};
    rpc_outgoing_call(grpc->outgoing, export_method, request, deadline_ms, &got);
    answer_of_grpc(got.status, got.message, sonde_buf_slice(&got.extra), answer);
    explain(grpc, &got, answer);
    if (answer->outcome == EXPORT_DONE)
        answer_read_partial(sonde_buf_slice(&got.body), answer);
    sonde_buf_finish(&got.body);
    sonde_buf_finish(&got.extra);
}

static void cancel(struct transport *transport) {
    rpc_outgoing_cancel(container_of(transport, struct grpc, transport)->outgoing);
}

static void destroy(struct transport *transport) {
    struct grpc *grpc = container_of(transport, struct grpc, transport);
    rpc_outgoing_destroy(grpc->outgoing);
    free(grpc);
}

sonde_err grpc_transport_create(const struct transport_options *options, struct transport **created,
                                struct sonde_diag *diag) {
    static const struct transport_ops ops = {send_request, cancel, destroy};
    struct rpc_outgoing_header headers[ADDRESS_MAX_HEADERS];
    for (size_t i = 0; i < options->headers->count; i++)
        headers[i] = (struct rpc_outgoing_header){options->headers->items[i].name,
                                                  options->headers->items[i].value};
    const struct rpc_outgoing_options outgoing = {
        .address = options->address->host,
        .is_tls = options->address->is_tls,
        .ca_file = options->ca_file,
        .cert_file = options->cert_file,
        .key_file = options->key_file,
        .log = options->log,
        .headers = headers,
        .header_count = options->headers->count,
    };
    struct grpc *grpc = calloc(1, sizeof *grpc);
    *created = NULL;
    if (!grpc)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    memcpy(grpc->host, options->address->host, sizeof grpc->host);
    grpc->transport.ops = &ops;
    sonde_err err = rpc_outgoing_create(&outgoing, &grpc->outgoing, diag);
    if (err)
        free(grpc);
    else
        *created = &grpc->transport;
    return err;
}
