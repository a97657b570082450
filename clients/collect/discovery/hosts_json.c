/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON form, read by jansson, which bounds nesting at 2,048 levels. */
#include "clients/collect/discovery/host_list.h"

#include <jansson.h>
#include <string.h>

#define SPACES " \t\r\n"

/* A group: its targets, and what its labels say. */
struct group {
    const json_t *targets;
    const char *name, *tls_name;
    struct discovered_label labels[HOST_LIST_MAX_LABELS + 1];
    size_t label_count;
};

bool host_list_is_json(const char *text, size_t len) {
    size_t at = strspn(text, SPACES);
    if (at >= len || (text[at] != '[' && text[at] != '{'))
        return false;
    if (text[at] == '{')
        return true;
    char next = text[at + 1 + strspn(text + at + 1, SPACES)];
    return !next || !strchr("0123456789abcdefABCDEF:", next);
}

static sonde_err refuse(struct sonde_diag *diag, const char *sentence) {
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%s", sentence);
}

/* The label's text, or NULL if it is no string or has a zero byte. */
static const char *text_of(const json_t *value) {
    const char *text = json_string_value(value);
    return text && strlen(text) == json_string_length(value) ? text : NULL;
}

static sonde_err read_label(struct group *group, const char *key, const json_t *value,
                            struct sonde_diag *diag) {
    const char *text = text_of(value);
    if (!text)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "the label \"%.60s\" must be a string without zero bytes", key);
    if (strcmp(key, "__sonde_name") == 0)
        group->name = text;
    else if (strcmp(key, "__sonde_tls_name") == 0)
        group->tls_name = text;
    if (strncmp(key, "__", 2) == 0)
        return SONDE_OK;
    if (group->label_count == HOST_LIST_MAX_LABELS)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "a host has at most %d labels",
                          HOST_LIST_MAX_LABELS);
    group->labels[group->label_count++] = (struct discovered_label){key, text};
    return SONDE_OK;
}

static sonde_err read_group(const json_t *from, struct group *group, struct sonde_diag *diag) {
    const json_t *labels = json_object_get(from, "labels");
    const char *key;
    json_t *value;
    *group = (struct group){.targets = json_object_get(from, "targets")};
    if (!json_is_array(group->targets))
        return refuse(diag, "write {\"targets\": [\"HOST:PORT\", ...], \"labels\": {...}}");
    if (labels && !json_is_null(labels) && !json_is_object(labels))
        return refuse(diag, "\"labels\" must be an object of strings");
    sonde_err err = SONDE_OK;
    json_object_foreach((json_t *)(uintptr_t)labels, key, value) {
        if (!err)
            err = read_label(group, key, value, diag);
    }
    if (!err && group->name && json_array_size(group->targets) > 1)
        err = refuse(diag, "__sonde_name is the name of one host; write a group for each");
    return err;
}

static sonde_err add_group(struct host_list *list, const json_t *from, struct sonde_diag *diag) {
    struct group group;
    struct discovered_host host = {0};
    sonde_err err = read_group(from, &group, diag);
    if (!err)
        err = host_list_labels(list, group.labels, group.label_count, &host.labels, diag);
    host.name = group.name;
    host.tls_name = group.tls_name;
    host.label_count = group.label_count;
    for (size_t i = 0; !err && i < json_array_size(group.targets); i++) {
        host.address = text_of(json_array_get(group.targets, i));
        err = host.address ? host_list_add(list, &host, diag)
                           : refuse(diag, "a target must be a string, \"HOST:PORT\"");
    }
    return err;
}

sonde_err host_list_read_json(struct host_list *list, const char *place, const char *text,
                              size_t len, struct sonde_diag *diag) {
    json_error_t error;
    struct sonde_diag found = {0};
    sonde_err err = SONDE_OK;
    json_t *groups = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
    if (!groups)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%.120s: byte %d: not JSON: %.100s", place,
                          error.position, error.text);
    if (!json_is_array(groups))
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                         "%.120s: byte 1: write an array, [{\"targets\": [\"HOST:PORT\"]}]", place);
    for (size_t i = 0; !err && i < json_array_size(groups); i++) {
        err = add_group(list, json_array_get(groups, i), &found);
        if (err)
            err = sonde_fail(diag, err, "%.120s: group %zu: %s", place, i + 1, found.text);
    }
    json_decref(groups);
    return err;
}
