/* SPDX-License-Identifier: Apache-2.0 */
#include "service/export/answer.h"

#include "api/profile/pprof/wire.h"

#include <stdio.h>
#include <string.h>

/* gRPC's status codes. */
enum {
    GRPC_OK = 0,
    GRPC_CANCELLED = 1,
    GRPC_DEADLINE_EXCEEDED = 4,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_ABORTED = 10,
    GRPC_OUT_OF_RANGE = 11,
    GRPC_UNAVAILABLE = 14,
    GRPC_DATA_LOSS = 15,
};

/* Printable ASCII; everything else becomes a blank. */
static void set_text(struct export_answer *answer, const char *data, size_t len) {
    size_t count = 0;
    for (size_t i = 0; i < len && count < sizeof answer->text - 1; i++) {
        unsigned char byte = (unsigned char)data[i];
        bool is_blank = byte <= ' ' || byte >= 0x7f;
        if (!is_blank)
            answer->text[count++] = (char)byte;
        else if (count > 0 && answer->text[count - 1] != ' ')
            answer->text[count++] = ' ';
    }
    while (count > 0 && answer->text[count - 1] == ' ')
        count--;
    answer->text[count] = 0;
}

static void set_wait(struct export_answer *answer, int64_t seconds, int64_t nanos) {
    if (seconds < 0 || nanos < 0)
        return;
    if (seconds >= ANSWER_MAX_WAIT_S)
        answer->wait_ms = ANSWER_MAX_WAIT_S * 1000u;
    else
        answer->wait_ms = (uint32_t)(seconds * 1000 + nanos % 1000000000 / 1000000);
}

static struct wire_reader reader_of(struct sonde_slice bytes) {
    const uint8_t *at = (const uint8_t *)bytes.data;
    return (struct wire_reader){at, at + bytes.len, at};
}

/* The field of that number and type; false if there is none. */
static bool find(struct wire_reader reader, uint32_t number, uint32_t type,
                 struct wire_field *found) {
    struct wire_field field;
    bool is_found = false;
    while (wire_next(&reader, &field)) {
        if (field.number != number || field.type != type)
            continue;
        *found = field;
        is_found = true;
    }
    return is_found;
}

static void set_nested_text(struct export_answer *answer, struct wire_reader text) {
    set_text(answer, (const char *)text.at, (size_t)(text.end - text.at));
}

/* ---- google.rpc.Status: code = 1, message = 2, details = 3 (Any: type_url = 1, value = 2). Of the
 * details, RetryInfo has retry_delay = 1, a Duration: seconds = 1, nanos = 2. ---- */

static bool is_retry_info(struct wire_reader any) {
    static const char name[] = "google.rpc.RetryInfo";
    struct wire_field url;
    if (!find(any, 1, WIRE_BYTES, &url))
        return false;
    size_t len = (size_t)(url.nested.end - url.nested.at);
    return len >= sizeof name - 1 &&
           memcmp(url.nested.end - (sizeof name - 1), name, sizeof name - 1) == 0;
}

static void read_status(struct sonde_slice bytes, struct export_answer *answer) {
    struct wire_reader reader = reader_of(bytes);
    struct wire_field field, value, delay, part = {0};
    if (find(reader, 2, WIRE_BYTES, &field) && field.nested.end > field.nested.at)
        set_nested_text(answer, field.nested);
    while (wire_next(&reader, &field)) {
        if (field.number != 3 || field.type != WIRE_BYTES || !is_retry_info(field.nested))
            continue;
        if (!find(field.nested, 2, WIRE_BYTES, &value) ||
            !find(value.nested, 1, WIRE_BYTES, &delay))
            continue;
        int64_t seconds = find(delay.nested, 1, WIRE_VARINT, &part) ? (int64_t)part.value : 0;
        int64_t nanos = find(delay.nested, 2, WIRE_VARINT, &part) ? (int64_t)part.value : 0;
        set_wait(answer, seconds, nanos);
    }
}

/* ---- Outcomes ---- */

static bool may_retry_http(long status) {
    return status == 408 || status == 429 || status == 502 || status == 503 || status == 504;
}

void answer_of_http(long status, int64_t retry_after_s, struct sonde_slice body, bool is_protobuf,
                    struct export_answer *answer) {
    *answer = (struct export_answer){.status = status};
    if (status >= 200 && status < 300)
        return;
    char text[sizeof answer->text];
    if (is_protobuf)
        read_status(body, answer);
    else
        set_text(answer, body.data, body.len);
    memcpy(text, answer->text, sizeof text);
    snprintf(answer->text, sizeof answer->text, "HTTP status %ld%s%.160s", status,
             text[0] ? ": " : "", text);
    answer->outcome = status == 413            ? EXPORT_TOO_LARGE
                      : may_retry_http(status) ? EXPORT_RETRY
                                               : EXPORT_REFUSED;
    if (retry_after_s > 0)
        set_wait(answer, retry_after_s, 0);
}

/* RESOURCE_EXHAUSTED also means that the message is larger than the receiver accepts. */
static enum export_outcome outcome_of(int status, const char *message) {
    switch (status) {
    case GRPC_OK:
        return EXPORT_DONE;
    case GRPC_RESOURCE_EXHAUSTED:
        return strstr(message, "larger than") ? EXPORT_TOO_LARGE : EXPORT_RETRY;
    case GRPC_CANCELLED:
    case GRPC_DEADLINE_EXCEEDED:
    case GRPC_ABORTED:
    case GRPC_OUT_OF_RANGE:
    case GRPC_UNAVAILABLE:
    case GRPC_DATA_LOSS:
        return EXPORT_RETRY;
    default:
        return EXPORT_REFUSED;
    }
}

void answer_of_grpc(int status, const char *message, struct sonde_slice extra,
                    struct export_answer *answer) {
    *answer = (struct export_answer){.outcome = outcome_of(status, message)};
    if (answer->outcome == EXPORT_DONE)
        return;
    char text[sizeof answer->text];
    read_status(extra, answer);
    set_text(answer, message, strlen(message));
    memcpy(text, answer->text, sizeof text);
    snprintf(answer->text, sizeof answer->text, "gRPC status %d%s%.160s", status,
             text[0] ? ": " : "", text);
    answer->is_timeout = status == GRPC_DEADLINE_EXCEEDED;
}

/* ExportProfilesServiceResponse: partial_success = 1, with rejected_profiles = 1 and error_message
 * = 2. */
void answer_read_partial(struct sonde_slice body, struct export_answer *answer) {
    struct wire_field partial, field;
    if (!find(reader_of(body), 1, WIRE_BYTES, &partial))
        return;
    if (find(partial.nested, 1, WIRE_VARINT, &field) && (int64_t)field.value > 0)
        answer->rejected = field.value < UINT32_MAX ? field.value : UINT32_MAX;
    if (find(partial.nested, 2, WIRE_BYTES, &field))
        set_nested_text(answer, field.nested);
}
