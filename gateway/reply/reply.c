/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/reply/reply.h"

#include "api/json/json.h"

#include <string.h>

static const struct http_header go_pprof = {"x-go-pprof", "1"};

void reply_bytes(struct http_request *request, const char *content_type, struct sonde_slice body) {
    http_answer(request, &(struct http_answer){.status = 200, .content_type = content_type}, body);
}

static void answer_text(struct http_request *request, int status, bool pprof, const char *text) {
    struct http_answer answer = {.status = status, .content_type = REPLY_TEXT};
    if (pprof)
        answer.headers[answer.header_count++] = go_pprof;
    if (status == 401)
        answer.headers[answer.header_count++] = (struct http_header){"www-authenticate", "Bearer"};
    http_answer(request, &answer, sonde_slice_of(text));
}

void reply_text(struct http_request *request, int status, const char *text) {
    answer_text(request, status, false, text);
}

/* Texts of the service can contain names that targets chose. Escapes all but printable ASCII and
 * line ends. */
static void append_escaped(struct sonde_buf *out, const char *text) {
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if ((byte >= ' ' && byte < 0x7f) || byte == '\n')
            sonde_buf_putc(out, (char)byte);
        else
            sonde_buf_printf(out, "\\x%02x", byte);
    }
}

static void answer_json(struct http_request *request, int status, const char *type,
                        struct sonde_buf *body) {
    struct http_answer answer = {.status = status, .content_type = type};
    if (status == 401)
        answer.headers[answer.header_count++] = (struct http_header){"www-authenticate", "Bearer"};
    http_answer(request, &answer, sonde_buf_slice(body));
}

/* The code that clients of Connect know for a status. */
static const char *connect_code(int status, const char *reason) {
    static const struct {
        int status;
        const char *code;
    } codes[] = {
        {400, "invalid_argument"},  {401, "unauthenticated"},
        {403, "permission_denied"}, {404, "not_found"},
        {409, "aborted"},           {413, "resource_exhausted"},
        {421, "permission_denied"}, {429, "resource_exhausted"},
        {499, "canceled"},          {501, "unimplemented"},
        {503, "unavailable"},       {504, "deadline_exceeded"},
    };
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (codes[i].status == status)
            return strcmp(reason, "UNKNOWN_METHOD") == 0 ? "unimplemented" : codes[i].code;
    return "internal";
}

static void append_shape(struct sonde_buf *body, enum family family, int status, const char *reason,
                         struct sonde_slice text) {
    switch (family) {
    case FAMILY_PROF:
        sonde_buf_puts(body, "{\"error\":");
        sonde_json_string(body, text);
        sonde_buf_puts(body, "}");
        break;
    case FAMILY_V1:
        sonde_buf_printf(body, "{\"code\":%d,\"status\":\"%s\",\"message\":", status, reason);
        sonde_json_string(body, text);
        sonde_buf_puts(body, "}");
        break;
    case FAMILY_CONNECT:
        sonde_buf_printf(body, "{\"code\":\"%s\",\"message\":", connect_code(status, reason));
        sonde_json_string(body, text);
        sonde_buf_puts(body, "}");
        break;
    case FAMILY_MCP: /* a request that was not read has no id */
        sonde_buf_puts(body, "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32000,"
                             "\"message\":");
        sonde_json_string(body, text);
        sonde_buf_puts(body, "}}");
        break;
    default:
        sonde_buf_printf(body, "{\"OPT_STATUS\":\"%s\",\"DESCRIPTION\":",
                         strcmp(reason, "INVALID_POST_DATA") == 0 ? reason : "FAIL");
        sonde_json_string(body, text);
        sonde_buf_puts(body, ",\"result\":null,\"debug\":null}");
    }
}

void reply_status(struct http_request *request, enum family family, int status, const char *reason,
                  const char *text) {
    struct sonde_buf escaped = {0}, body = {0};
    append_escaped(&escaped, text);
    if (family == FAMILY_PROF || family == FAMILY_V1 || family == FAMILY_TRACING ||
        family == FAMILY_CONNECT || family == FAMILY_MCP) {
        append_shape(&body, family, status, reason, sonde_buf_slice(&escaped));
        answer_json(request, status,
                    family == FAMILY_TRACING ? "application/json; charset=utf-8" : REPLY_JSON,
                    &body);
    } else {
        answer_text(request, status, family == FAMILY_PPROF, escaped.data ? escaped.data : "");
    }
    sonde_buf_finish(&escaped);
    sonde_buf_finish(&body);
}

void reply_error(struct http_request *request, enum family family, sonde_err err,
                 const struct sonde_diag *diag) {
    const struct sonde_error_info *info = sonde_error_info(err);
    reply_status(request, family, info->http_status, info->reason, sonde_diag_text(diag, err));
}

const char *reply_allowed(const struct route *route) {
    switch (route->methods) {
    case METHOD_GET:
        return "GET,HEAD";
    case METHOD_POST:
        return "POST";
    default:
        return "GET,HEAD,POST";
    }
}

void reply_method(struct http_request *request, const struct route *route) {
    const char *text = route->family == FAMILY_PROF ? "" : "method not allowed";
    struct http_answer answer = {.status = 405,
                                 .content_type = *text ? REPLY_TEXT : NULL,
                                 .headers = {{"allow", reply_allowed(route)}},
                                 .header_count = 1};
    http_answer(request, &answer, sonde_slice_of(text));
}

void reply_base(struct http_request *request, char base[FORWARDED_PREFIX_SIZE]) {
    forwarded_prefix(http_request_header(request, "x-forwarded-prefix"), base);
}

void reply_elsewhere(struct http_request *request, const char *where) {
    struct http_answer answer = {.status = 307,
                                 .content_type = REPLY_TEXT,
                                 .headers = {{"location", where}},
                                 .header_count = 1};
    http_answer(request, &answer, sonde_slice_of(where));
}

void reply_no_path(struct http_request *request, enum family family) {
    if (family == FAMILY_TRACING) {
        reply_text(request, 404, "404 page not found");
        return;
    }
    if (family == FAMILY_CONNECT) {
        reply_status(request, family, 404, "UNKNOWN_METHOD", "path not found");
        return;
    }
    /* Only these families have a documented shape for unknown paths. */
    enum family shape = family == FAMILY_PPROF || family == FAMILY_PROF ? family : FAMILY_PLAIN;
    reply_status(request, shape, 404, "NOT_FOUND", "path not found");
}
