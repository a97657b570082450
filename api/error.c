/* SPDX-License-Identifier: Apache-2.0 */
#include "api/error.h"

#include <stdio.h>
#include <string.h>

/* gRPC: 1 CANCELLED 3 INVALID_ARGUMENT 4 DEADLINE_EXCEEDED 5 NOT_FOUND 7 PERMISSION_DENIED 8
 * RESOURCE_EXHAUSTED 9 FAILED_PRECONDITION 10 ABORTED 12 UNIMPLEMENTED 13 INTERNAL 14 UNAVAILABLE
 * 16 UNAUTHENTICATED */
static const struct sonde_error_info table[SONDE_ERR_COUNT] = {
    {SONDE_OK, "OK", 0, 200, 0, "success"},
    {SONDE_INVALID_ARGUMENT, "INVALID_ARGUMENT", 3, 400, 2, "invalid argument"},
    {SONDE_TARGET_AMBIGUOUS, "TARGET_AMBIGUOUS", 3, 400, 2, "name the target, or give its pid"},
    {SONDE_TARGET_CONFLICT, "TARGET_CONFLICT", 3, 400, 2,
     "the request names two different targets"},
    {SONDE_TARGET_NOT_FOUND, "TARGET_NOT_FOUND", 5, 404, 1, "target not found"},
    {SONDE_TARGET_GONE, "TARGET_GONE", 9, 410, 1, "the target has exited"},
    {SONDE_NOT_FOUND, "NOT_FOUND", 5, 404, 1, "not found"},
    {SONDE_SESSION_BUSY, "SESSION_BUSY", 10, 409, 4, "a session is already running"},
    {SONDE_TOO_MANY_CAPTURES, "TOO_MANY_CAPTURES", 8, 429, 4, "too many captures are running"},
    {SONDE_NO_CLOCK, "NO_CLOCK", 9, 501, 4, "no sampling clock works in the target"},
    {SONDE_NOT_ACTIVE, "NOT_ACTIVE", 9, 409, 4,
     "heap profiling is not activated; `sonde heap on` starts it, or GET "
     "/debug/pprof/heap_activate"},
    {SONDE_NOT_AVAILABLE, "NOT_AVAILABLE", 9, 501, 4, "not available in the target"},
    {SONDE_UNIMPLEMENTED, "UNIMPLEMENTED", 12, 501, 1,
     "the service does not have this method; it may be an older version"},
    {SONDE_UNAUTHENTICATED, "UNAUTHENTICATED", 16, 401, 4,
     "a token is required; send \"authorization: Bearer TOKEN\""},
    {SONDE_PERMISSION_DENIED, "PERMISSION_DENIED", 7, 403, 4, "the token does not allow this"},
    {SONDE_UNAVAILABLE, "UNAVAILABLE", 14, 503, 3,
     "cannot reach the Sonde service; is it running?"},
    {SONDE_DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED", 4, 504, 1, "deadline exceeded"},
    {SONDE_CANCELLED, "CANCELLED", 1, 499, 1, "cancelled by the client"},
    {SONDE_OUT_OF_MEMORY, "OUT_OF_MEMORY", 13, 500, 1, "out of memory"},
    {SONDE_TOO_LARGE, "TOO_LARGE", 3, 413, 2, "too large"},
    {SONDE_CORRUPT, "CORRUPT", 3, 400, 1, "malformed data"},
    {SONDE_IO, "IO", 13, 500, 1, "a system call failed"},
    {SONDE_PROTOCOL, "PROTOCOL", 13, 500, 1, "protocol error"},
    {SONDE_INTERNAL, "INTERNAL", 13, 500, 1, "internal error; please report it"},
};

const struct sonde_error_info *sonde_error_info(sonde_err code) {
    return &table[(unsigned)code < SONDE_ERR_COUNT ? code : SONDE_INTERNAL];
}

sonde_err sonde_error_from_reason(const char *reason) {
    for (int i = 0; i < SONDE_ERR_COUNT; i++)
        if (strcmp(table[i].reason, reason) == 0)
            return table[i].code;
    return SONDE_INTERNAL;
}

sonde_err sonde_error_from_grpc(int grpc_status) {
    static const sonde_err codes[] = {
        [0] = SONDE_OK,
        [1] = SONDE_CANCELLED,
        [2] = SONDE_INTERNAL,
        [3] = SONDE_INVALID_ARGUMENT,
        [4] = SONDE_DEADLINE_EXCEEDED,
        [5] = SONDE_NOT_FOUND,
        [6] = SONDE_SESSION_BUSY,
        [7] = SONDE_PERMISSION_DENIED,
        [8] = SONDE_TOO_MANY_CAPTURES,
        [9] = SONDE_NOT_AVAILABLE,
        [10] = SONDE_SESSION_BUSY,
        [11] = SONDE_INVALID_ARGUMENT,
        [12] = SONDE_UNIMPLEMENTED,
        [13] = SONDE_INTERNAL,
        [14] = SONDE_UNAVAILABLE,
        [15] = SONDE_INTERNAL,
        [16] = SONDE_UNAUTHENTICATED,
    };
    if (grpc_status < 0 || grpc_status >= (int)(sizeof codes / sizeof codes[0]))
        return SONDE_INTERNAL;
    return codes[grpc_status];
}

static void fill(struct sonde_diag *diag, sonde_err code, int os_error, const char *format,
                 va_list arguments) {
    if (!diag)
        return;
    diag->code = code;
    diag->os_error = os_error;
    vsnprintf(diag->text, sizeof diag->text, format, arguments);
}

sonde_err sonde_fail(struct sonde_diag *diag, sonde_err code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fill(diag, code, 0, format, arguments);
    va_end(arguments);
    return code;
}

sonde_err sonde_fail_os(struct sonde_diag *diag, int os_error, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fill(diag, SONDE_IO, os_error, format, arguments);
    va_end(arguments);
    if (diag) {
        char reason[64];
        const char *text =
            strerror_r(os_error, reason, sizeof reason); /* GNU version: may return a static text */
        size_t used = strlen(diag->text);
        snprintf(diag->text + used, sizeof diag->text - used, ": %s", text);
    }
    return SONDE_IO;
}

const char *sonde_diag_text(const struct sonde_diag *diag, sonde_err code) {
    return diag && diag->text[0] ? diag->text : sonde_error_info(code)->sentence;
}
