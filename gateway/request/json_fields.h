/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the fields of a JSON object in a request's body. Fields that the table does not have are
 * ignored, so are bytes after the object; if a field is repeated the last one counts. Thread
 * safety: any thread. */
#ifndef SONDE_GATEWAY_REQUEST_JSON_FIELDS_H
#define SONDE_GATEWAY_REQUEST_JSON_FIELDS_H

#include "api/bytes.h"
#include "api/error.h"

enum json_kind {
    JSON_TEXT,  /* const char *; never has a NUL inside */
    JSON_WHOLE, /* int64_t; 5, but not 5.0, 5e0 or "5" */
    JSON_FLAG,  /* bool */
};

struct json_field {
    const char *name;
    enum json_kind kind;
    bool is_required; /* absent, null, "" and 0 are errors */
    size_t offset;    /* of the value in the result */
};

/* Fields that are absent or null leave the result unchanged. Texts live in the arena. Errors:
 * SONDE_INVALID_ARGUMENT. The text has the byte at which the JSON is malformed, the names of all
 * required fields that are missing, or the field that has the wrong type and the right type. */
SONDE_MUST_USE sonde_err json_fields_read(struct sonde_slice body, const struct json_field *fields,
                                          size_t count, struct sonde_arena *arena, void *result,
                                          struct sonde_diag *diag);

#endif
