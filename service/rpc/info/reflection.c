/* SPDX-License-Identifier: Apache-2.0
 *
 * Server reflection, v1 and v1alpha (their messages are equal). The binary contains the descriptors
 * of its files as one FileDescriptorSet. Splitting that set takes no generated code: field 1 of the
 * set is a file, whose field 1 is its name and field 2 its package. An answer has one file; clients
 * ask for its imports by name. */
#include "proto/grpc/reflection/v1alpha/reflection.pb-c.h"
#include "service/rpc/base/text.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/core/server_state.h"
#include "service/rpc/info/services.h"

#include <stdio.h>
#include <string.h>

#define ALPHA(name) Grpc__Reflection__V1alpha__##name
#define CASE(name)  GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_##name

static const uint8_t descriptors[] = {
#include "proto/services.inc"
};

struct span {
    const uint8_t *at, *end;
};

static bool take_varint(struct span *span, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; span->at < span->end && shift < 64; shift += 7) {
        *value |= (uint64_t)(*span->at & 0x7f) << shift;
        if (!(*span->at++ & 0x80))
            return true;
    }
    return false;
}

/* The next length-delimited field. Fields of other types end the loop; they follow all fields that
 * matter here. */
static bool take_field(struct span *span, uint64_t *number, struct span *body) {
    uint64_t tag, len;
    if (!take_varint(span, &tag) || (tag & 7) != 2 || !take_varint(span, &len) ||
        len > (uint64_t)(span->end - span->at))
        return false;
    *number = tag >> 3;
    *body = (struct span){span->at, span->at + len};
    span->at += len;
    return true;
}

struct file {
    struct span bytes, name, package;
};

static bool next_file(struct span *set, struct file *file) {
    uint64_t number;
    struct span body;
    memset(file, 0, sizeof *file);
    if (!take_field(set, &number, &file->bytes) || number != 1)
        return false;
    for (struct span rest = file->bytes; take_field(&rest, &number, &body);) {
        if (number == 1)
            file->name = body;
        else if (number == 2)
            file->package = body;
    }
    return true;
}

static size_t length(struct span span) {
    return (size_t)(span.end - span.at);
}

/* Whether the file declares this name at top level. The name is field 1 of messages, enums and
 * services. */
static bool declares(const struct file *file, const char *name, size_t len) {
    uint64_t number, inner;
    struct span body, text;
    for (struct span rest = file->bytes; take_field(&rest, &number, &body);)
        if (number >= 4 && number <= 6 && take_field(&body, &inner, &text) && inner == 1 &&
            length(text) == len && memcmp(text.at, name, len) == 0)
            return true;
    return false;
}

/* "sonde.v1.Profiler.GetInfo" is in the file of package "sonde.v1" that declares Profiler. */
static bool has_symbol(const struct file *file, const char *symbol) {
    size_t package = length(file->package);
    if (strncmp(symbol, (const char *)file->package.at, package) != 0 || symbol[package] != '.')
        return false;
    const char *name = symbol + package + 1;
    return declares(file, name, strcspn(name, "."));
}

static bool has_name(const struct file *file, const char *name) {
    return strlen(name) == length(file->name) &&
           memcmp(name, file->name.at, length(file->name)) == 0;
}

static void send(struct rpc_call *call, const ALPHA(ServerReflectionRequest) * request,
                 ALPHA(ServerReflectionResponse) * response) {
    response->valid_host = (char *)rpc_text(rpc_call_arena(call), request->host);
    response->original_request = (ALPHA(ServerReflectionRequest) *)request;
    rpc_send(call, &response->base);
}

static void send_error(struct rpc_call *call, const ALPHA(ServerReflectionRequest) * request,
                       sonde_err err, const char *text) {
    ALPHA(ErrorResponse) error = GRPC__REFLECTION__V1ALPHA__ERROR_RESPONSE__INIT;
    ALPHA(ServerReflectionResponse)
    response = GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_RESPONSE__INIT;
    error.error_code = sonde_error_info(err)->grpc_status;
    error.error_message = (char *)text;
    response.message_response_case = CASE(RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE);
    response.error_response = &error;
    send(call, request, &response);
}

static void send_file(struct rpc_call *call, const ALPHA(ServerReflectionRequest) * request,
                      bool (*fits)(const struct file *file, const char *text), const char *text) {
    ALPHA(FileDescriptorResponse)
    answer = GRPC__REFLECTION__V1ALPHA__FILE_DESCRIPTOR_RESPONSE__INIT;
    ALPHA(ServerReflectionResponse)
    response = GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_RESPONSE__INIT;
    struct span set = {descriptors, descriptors + sizeof descriptors};
    struct file file;
    bool is_found = false;
    while (!is_found && next_file(&set, &file))
        is_found = fits(&file, text);
    if (!is_found) {
        send_error(call, request, SONDE_NOT_FOUND, "there is no such file or symbol here");
        return;
    }
    ProtobufCBinaryData bytes = {length(file.bytes), (uint8_t *)file.bytes.at};
    answer.n_file_descriptor_proto = 1;
    answer.file_descriptor_proto = &bytes;
    response.message_response_case = CASE(RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE);
    response.file_descriptor_response = &answer;
    send(call, request, &response);
}

static void send_services(struct rpc_call *call, const ALPHA(ServerReflectionRequest) * request) {
    enum { MOST = 8 };
    ALPHA(ServiceResponse) services[MOST], *list[MOST];
    ALPHA(ListServiceResponse) answer = GRPC__REFLECTION__V1ALPHA__LIST_SERVICE_RESPONSE__INIT;
    ALPHA(ServerReflectionResponse)
    response = GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_RESPONSE__INIT;
    for (size_t i = 0; i < MOST && rpc_service_name(i); i++) {
        if (!rpc_serves(rpc_call_server(call), rpc_service_name(i)))
            continue;
        grpc__reflection__v1alpha__service_response__init(&services[i]);
        services[i].name = (char *)rpc_service_name(i);
        list[answer.n_service++] = &services[i];
    }
    answer.service = list;
    response.message_response_case = CASE(RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE);
    response.list_services_response = &answer;
    send(call, request, &response);
}

void rpc_reflect(struct rpc_call *call, const ProtobufCMessage *message) {
    const ALPHA(ServerReflectionRequest) *request = (const void *)message;
    switch (request->message_request_case) {
    case CASE(REQUEST__MESSAGE_REQUEST_LIST_SERVICES):
        send_services(call, request);
        break;
    case CASE(REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME):
        send_file(call, request, has_name, request->file_by_filename);
        break;
    case CASE(REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL):
        send_file(call, request, has_symbol, request->file_containing_symbol);
        break;
    default:
        send_error(call, request, SONDE_NOT_FOUND, "there are no extensions here");
    }
}
