/* SPDX-License-Identifier: Apache-2.0 */
#include "service/export/otlp_state.h"
#include "service/recording/labels.h"

#include <string.h>

#define MAX_RESOURCES (LABELS_MAX + 8)

static void add_resource(struct otlp *otlp, PROFILES(Resource) * resource, const char *key,
                         const char *text, int64_t number) {
    KeyValue *pair = otlp_get(otlp, sizeof *pair);
    AnyValue *any = otlp_get(otlp, sizeof *any);
    if (!any || resource->n_attributes == MAX_RESOURCES || (text && !*text))
        return;
    *pair = (KeyValue)INIT(KEY_VALUE);
    *any = (AnyValue)INIT(ANY_VALUE);
    any->value_case = text ? TEXT_VALUE : INT_VALUE;
    if (text)
        any->string_value = (char *)text;
    else
        any->int_value = number;
    pair->key = (char *)key;
    pair->value = any;
    resource->attributes[resource->n_attributes++] = pair;
}

/* OpenTelemetry's names for the labels of a process; others keep their own. */
static const char *resource_key(const char *label) {
    static const char *const names[][2] = {
        {"executable", "process.executable.name"},
        {"container", "container.id"},
        {"pod", "k8s.pod.uid"},
        {"namespace", "k8s.namespace.name"},
        {"pod_name", "k8s.pod.name"},
        {"container_name", "k8s.container.name"},
        {"cgroup", "process.linux.cgroup"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(label, names[i][0]) == 0)
            return names[i][1];
    return label;
}

void otlp_fill_resource(struct otlp *otlp, PROFILES(Resource) * resource, const char *host) {
    const struct record *record = otlp->record;
    const struct engine_target *target = record->target;
    struct labels *labels = otlp_get(otlp, sizeof *labels);
    resource->attributes = otlp_get(otlp, MAX_RESOURCES * sizeof *resource->attributes);
    if (otlp->failed)
        return;
    labels_of_record(record, &otlp->arena, labels);
    add_resource(otlp, resource, "service.name", target->name, 0);
    add_resource(otlp, resource, "service.instance.id", target->uuid, 0);
    add_resource(otlp, resource, "host.name", host, 0);
    add_resource(otlp, resource, "process.pid", NULL, target->pid);
    for (uint32_t i = 0; i < labels->count; i++)
        add_resource(otlp, resource, resource_key(labels->items[i].key), labels->items[i].value, 0);
}
