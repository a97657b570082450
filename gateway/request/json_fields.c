/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/request/json_fields.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* jansson refuses more than 2,048 levels, numbers that do not fit, invalid UTF-8 and NUL. */
#define FLAGS JSON_DISABLE_EOF_CHECK

static const char *type_name(enum json_kind kind) {
    static const char *const names[] = {"a string", "an integer", "true or false"};
    return names[kind];
}

static sonde_err wrong_type(const struct json_field *field, struct sonde_diag *diag) {
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%s must be %s", field->name,
                      type_name(field->kind));
}

static bool fits(const json_t *value, enum json_kind kind) {
    return kind == JSON_TEXT    ? json_is_string(value)
           : kind == JSON_WHOLE ? json_is_integer(value)
                                : json_is_boolean(value);
}

static sonde_err store(const json_t *value, const struct json_field *field,
                       struct sonde_arena *arena, void *result, struct sonde_diag *diag) {
    char *at = (char *)result + field->offset;
    if (!fits(value, field->kind))
        return wrong_type(field, diag);
    if (field->kind == JSON_TEXT) {
        const char *text =
            sonde_arena_dup(arena, json_string_value(value), json_string_length(value));
        if (!text)
            return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
        memcpy(at, &text, sizeof text);
    } else if (field->kind == JSON_WHOLE) {
        int64_t number = json_integer_value(value);
        memcpy(at, &number, sizeof number);
    } else {
        bool flag = json_boolean_value(value);
        memcpy(at, &flag, sizeof flag);
    }
    return SONDE_OK;
}

static bool is_empty(const json_t *value) {
    return !value || json_is_null(value) ||
           (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_integer(value) && json_integer_value(value) == 0);
}

/* Names all missing fields at once. */
static sonde_err check_required(const json_t *object, const struct json_field *fields, size_t count,
                                struct sonde_diag *diag) {
    char names[200] = "";
    size_t used = 0;
    for (size_t i = 0; i < count; i++)
        if (fields[i].is_required && is_empty(json_object_get(object, fields[i].name)) &&
            used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "",
                                     fields[i].name);
    return used ? sonde_fail(diag, SONDE_INVALID_ARGUMENT, "required and missing, empty or 0: %s",
                             names)
                : SONDE_OK;
}

static sonde_err read_object(const json_t *object, const struct json_field *fields, size_t count,
                             struct sonde_arena *arena, void *result, struct sonde_diag *diag) {
    if (!json_is_object(object))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "the body must be a JSON object");
    sonde_err err = check_required(object, fields, count, diag);
    for (size_t i = 0; !err && i < count; i++) {
        const json_t *value = json_object_get(object, fields[i].name);
        if (value && !json_is_null(value))
            err = store(value, &fields[i], arena, result, diag);
    }
    return err;
}

sonde_err json_fields_read(struct sonde_slice body, const struct json_field *fields, size_t count,
                           struct sonde_arena *arena, void *result, struct sonde_diag *diag) {
    json_error_t error = {.position = 0};
    if (body.len == 0)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "byte 0: the body is empty");
    json_t *root = json_loadb(body.data, body.len, FLAGS, &error);
    if (!root)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "malformed JSON at byte %d: %s",
                          error.position, error.text);
    sonde_err err = read_object(root, fields, count, arena, result, diag);
    json_decref(root);
    return err;
}
