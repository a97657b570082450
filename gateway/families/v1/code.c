/* SPDX-License-Identifier: Apache-2.0
 *
 * /v1/code: the instructions and lines of a function as JSON, the message Code. Its counts are the
 * client's: it has the profile. */
#include "gateway/handlers.h"
#include "gateway/reply/relay.h"
#include "gateway/reply/reply.h"

#include <stdio.h>
#include <string.h>

#define DEADLINE_MS   60000
#define MAX_ADDRESSES 1024u
#define WAIT_MS       2000u

static bool read_hex(struct sonde_slice text, uint64_t *number) {
    return text.len > 2 && strncasecmp(text.data, "0x", 2) == 0 && query_hex(text, number);
}

static sonde_err refuse(const char *key, struct sonde_slice value, struct sonde_diag *diag) {
    char quoted[QUERY_QUOTED_SIZE];
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                      "%s: \"%.64s\" is not a hexadecimal address such as 0x1f2a", key,
                      query_quote(value, quoted));
}

static sonde_err read_address(const struct query *query, const char *key, uint64_t *address,
                              struct sonde_diag *diag) {
    struct sonde_slice text;
    if (!query_get(query, key, &text))
        return SONDE_OK;
    return read_hex(text, address) ? SONDE_OK : refuse(key, text, diag);
}

static sonde_err read_addresses(const struct query *query, uint64_t addresses[MAX_ADDRESSES],
                                size_t *count, struct sonde_diag *diag) {
    struct sonde_slice text;
    *count = 0;
    if (!query_get(query, "address", &text))
        return SONDE_OK;
    for (struct sonde_slice rest = text;;) {
        const char *comma = memchr(rest.data, ',', rest.len);
        size_t len = comma ? (size_t)(comma - rest.data) : rest.len;
        if (*count == MAX_ADDRESSES)
            return sonde_fail(diag, SONDE_TOO_LARGE, "address: at most %u addresses",
                              MAX_ADDRESSES);
        if (!read_hex((struct sonde_slice){rest.data, len}, &addresses[*count]))
            return refuse("address", text, diag);
        ++*count;
        if (!comma)
            return SONDE_OK;
        rest.data += len + 1, rest.len -= len + 1;
    }
}

struct parameters {
    Sonde__V1__GetCodeRequest message;
    Sonde__V1__SymbolMapping mapping, *mappings[1];
    uint64_t addresses[MAX_ADDRESSES];
    char build_id[80];
};

static sonde_err read_mapping(const struct query *query, struct parameters *to,
                              struct sonde_diag *diag) {
    to->mapping = (Sonde__V1__SymbolMapping)SONDE__V1__SYMBOL_MAPPING__INIT;
    to->mapping.limit = UINT64_MAX;
    to->mappings[0] = &to->mapping;
    to->message.mappings = to->mappings;
    to->message.n_mappings = query_occurrences(query, "start") > 0;
    sonde_err err = read_address(query, "start", &to->mapping.start, diag);
    return err ? err : read_address(query, "offset", &to->mapping.offset, diag);
}

static sonde_err read_request(const struct query *query, struct parameters *to,
                              struct sonde_diag *diag) {
    struct sonde_slice build_id = {"", 0};
    to->message = (Sonde__V1__GetCodeRequest)SONDE__V1__GET_CODE_REQUEST__INIT;
    query_get(query, "build_id", &build_id);
    if (build_id.len == 0 || build_id.len >= sizeof to->build_id)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "build_id: name the file by its build-id in hexadecimal");
    snprintf(to->build_id, sizeof to->build_id, "%.*s", (int)build_id.len, build_id.data);
    to->message.build_id = to->build_id;
    to->message.addresses = to->addresses;
    to->message.wait_ms = WAIT_MS;
    sonde_err err = read_addresses(query, to->addresses, &to->message.n_addresses, diag);
    if (!err)
        err = read_address(query, "function", &to->message.function, diag);
    if (!err)
        err = read_mapping(query, to, diag);
    if (!err && to->message.n_addresses == 0 && !to->message.function)
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                         "address: an address in the function is needed, or function: its start");
    return err;
}

void handle_v1_code(const struct request_context *context) {
    static const struct relay_events events = {.on_message = relay_answer_json};
    struct parameters parameters;
    struct sonde_diag diag = {0};
    sonde_err err = read_request(&context->query, &parameters, &diag);
    if (err)
        reply_error(context->request, context->family, err, &diag);
    else
        relay_call(relay_create(context, sizeof(struct relay), &events), &client_get_code,
                   &parameters.message.base, DEADLINE_MS);
}
