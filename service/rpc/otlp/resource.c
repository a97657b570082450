/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/otlp/resource.h"

#include <stdio.h>
#include <string.h>

/* OpenTelemetry's names of what history knows under another name (service/recording/labels.h). */
static const char *const renamed[][2] = {
    {"container.id", "container"},
    {"k8s.pod.uid", "pod"},
    {"process.executable.name", "executable"},
    {"process.linux.cgroup", "cgroup"},
};

const char *otlp_base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static const char *label_name(const char *key) {
    for (size_t i = 0; i < sizeof renamed / sizeof renamed[0]; i++)
        if (strcmp(key, renamed[i][0]) == 0)
            return renamed[i][1];
    return key;
}

/* The attributes that are fields of a window; NULL = it becomes a label. */
static const char **field_of(struct otlp_resource *result, const char *key) {
    const struct {
        const char *key;
        const char **field;
    } fields[] = {{"service.name", &result->service},
                  {"host.name", &result->host},
                  {"service.instance.id", &result->instance_id}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (strcmp(key, fields[i].key) == 0)
            return fields[i].field;
    return NULL;
}

static sonde_err add_label(struct otlp_resource *result, const struct otlp_attribute *attribute,
                           struct sonde_arena *arena) {
    char digits[24];
    const char *text = attribute->text;
    if (!text[0] && attribute->number >= 0) {
        snprintf(digits, sizeof digits, "%lld", (long long)attribute->number);
        text = sonde_arena_dup(arena, digits, strlen(digits));
    }
    if (!text)
        return SONDE_OUT_OF_MEMORY;
    if (!attribute->key[0] || !text[0] || result->label_count == STORE_MAX_LABELS)
        return SONDE_OK;
    struct store_label *label = &result->labels[result->label_count++];
    label->key = store_clip(arena, label_name(attribute->key), STORE_MAX_TEXT);
    label->value = store_clip(arena, text, STORE_MAX_TEXT);
    return label->key && label->value ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

static sonde_err read_attribute(struct otlp_resource *result,
                                const struct otlp_attribute *attribute, struct sonde_arena *arena) {
    const char **field = field_of(result, attribute->key);
    if (field) {
        *field = store_clip(arena, attribute->text, STORE_MAX_TEXT);
        return *field ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    }
    if (strcmp(attribute->key, "process.pid") == 0) {
        result->pid = attribute->number;
        return SONDE_OK;
    }
    if (strcmp(attribute->key, "process.executable.name") == 0 ||
        (strcmp(attribute->key, "process.executable.path") == 0 && !result->executable[0]))
        result->executable = store_clip(arena, otlp_base_name(attribute->text), STORE_MAX_TEXT);
    if (!result->executable)
        return SONDE_OUT_OF_MEMORY;
    return add_label(result, attribute, arena);
}

sonde_err otlp_resource_read(const otlp_dictionary *dictionary,
                             const otlp_resource_message *resource, struct sonde_arena *arena,
                             struct otlp_resource *result) {
    *result = (struct otlp_resource){
        .service = "", .executable = "", .host = "", .instance_id = "", .pid = -1};
    sonde_err err = SONDE_OK;
    for (size_t i = 0; resource && i < resource->n_attributes && !err; i++) {
        struct otlp_attribute attribute;
        otlp_attribute_of(dictionary, resource->attributes[i], &attribute);
        err = read_attribute(result, &attribute, arena);
    }
    return err;
}
