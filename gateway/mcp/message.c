/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/mcp/message.h"

#include "gateway/request/path.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* jansson refuses more than 2,048 levels, numbers that do not fit, invalid UTF-8 and NUL. */

static const char *dup_text(struct mcp_message *message, const json_t *value) {
    if (!json_is_string(value))
        return NULL;
    const char *copy =
        sonde_arena_dup(&message->arena, json_string_value(value), json_string_length(value));
    if (!copy)
        abort(); /* the gateway may exit when out of memory */
    return copy;
}

/* A string or a whole number as JSON; NULL for anything else. */
static const char *dup_id(struct mcp_message *message, const json_t *value) {
    if (!json_is_string(value) && !json_is_integer(value))
        return NULL;
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);
    size_t len = text ? strlen(text) : 0;
    const char *copy =
        len > 0 && len <= MCP_MAX_ID ? sonde_arena_dup(&message->arena, text, len) : NULL;
    free(text);
    return copy;
}

static bool put_value(struct sonde_buf *out, const json_t *value) {
    char *text = NULL;
    if (json_is_string(value)) {
        path_append_encoded(
            out, (struct sonde_slice){json_string_value(value), json_string_length(value)});
        return true;
    }
    if (json_is_number(value) || json_is_boolean(value))
        text = json_dumps(value, JSON_ENCODE_ANY);
    if (text)
        path_append_encoded(out, sonde_slice_of(text));
    bool is_put = text != NULL;
    free(text);
    return is_put;
}

/* False if an argument is an array or an object, or if there are too many. */
static bool read_arguments(struct mcp_message *message, const json_t *object) {
    struct sonde_buf form = {0};
    bool is_good = json_object_size(object) <= MCP_MAX_ARGUMENTS;
    /* jansson iterates over objects that it is free to change. */
    json_t *own = (json_t *)(uintptr_t)object;
    for (void *at = json_object_iter(own); is_good && at; at = json_object_iter_next(own, at)) {
        const json_t *value = json_object_iter_value(at);
        if (json_is_null(value))
            continue;
        if (form.len)
            sonde_buf_putc(&form, '&');
        path_append_encoded(&form, sonde_slice_of(json_object_iter_key(at)));
        sonde_buf_putc(&form, '=');
        is_good = put_value(&form, value);
    }
    if (is_good) {
        query_finish(&message->arguments);
        query_parse(&message->arguments, sonde_buf_slice(&form));
    }
    sonde_buf_finish(&form);
    return is_good;
}

static enum mcp_code read_params(struct mcp_message *message, const json_t *params,
                                 const char **problem) {
    const json_t *arguments = json_object_get(params, "arguments");
    message->version = dup_text(message, json_object_get(params, "protocolVersion"));
    message->name = dup_text(message, json_object_get(params, "name"));
    message->cancelled = dup_id(message, json_object_get(params, "requestId"));
    *problem = "params must be an object";
    if (params && !json_is_object(params))
        return MCP_INVALID_PARAMS;
    *problem = "arguments must be an object";
    if (arguments && !json_is_object(arguments) && !json_is_null(arguments))
        return MCP_INVALID_PARAMS;
    *problem = "arguments are at most 32 texts, numbers and booleans";
    return read_arguments(message, arguments) ? MCP_OK : MCP_INVALID_PARAMS;
}

static enum mcp_code read_root(struct mcp_message *message, const json_t *root,
                               const char **problem) {
    const json_t *version = json_object_get(root, "jsonrpc"), *id = json_object_get(root, "id");
    const json_t *method = json_object_get(root, "method");
    message->id = dup_id(message, id);
    *problem = "the message must be one JSON object with \"jsonrpc\": \"2.0\"";
    if (!json_is_object(root) || !json_is_string(version) ||
        strcmp(json_string_value(version), "2.0") != 0)
        return MCP_INVALID_REQUEST;
    *problem = "id must be a whole number, or a string that is not too long";
    if (id && !message->id)
        return MCP_INVALID_REQUEST;
    if (!method && (json_object_get(root, "result") || json_object_get(root, "error")))
        return MCP_OK;
    *problem = "method must be a string";
    message->method = dup_text(message, method);
    if (!message->method)
        return MCP_INVALID_REQUEST;
    return read_params(message, json_object_get(root, "params"), problem);
}

enum mcp_code mcp_message_read(struct sonde_slice body, struct mcp_message *message,
                               const char **problem) {
    *message = (struct mcp_message){0};
    *problem = "the body is not JSON";
    json_t *root = body.len ? json_loadb(body.data, body.len, 0, NULL) : NULL;
    enum mcp_code code = root ? read_root(message, root, problem) : MCP_PARSE_ERROR;
    json_decref(root);
    return code;
}

void mcp_message_finish(struct mcp_message *message) {
    query_finish(&message->arguments);
    sonde_arena_finish(&message->arena);
}
