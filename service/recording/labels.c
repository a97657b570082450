/* SPDX-License-Identifier: Apache-2.0 */
#include "service/recording/labels.h"

#include "api/text/utf8.h"
#include "service/host/processes/cgroup.h"

#include <ctype.h>
#include <string.h>

#define UID_BYTES        36 /* 8-4-4-4-12 */
#define STATIC_UID_BYTES 32 /* of a pod from the node's own files */

/* What queries call something else, or sonded knows better. */
static const char *const reserved[] = {"service", "host",       "instance",  "pid",
                                       "event",   "thread",     "container", "cgroup",
                                       "pod",     "executable", "unit"};

static void add(struct labels *labels, struct sonde_arena *arena, const char *key,
                const char *value, size_t len) {
    bool is_fine = len > 0 && len <= STORE_MAX_TEXT && sonde_utf8_is_clean(value, len);
    char *copy = is_fine ? sonde_arena_dup(arena, value, len) : NULL;
    if (copy && labels->count < LABELS_MAX)
        labels->items[labels->count++] = (struct store_label){key, copy};
}

/* The innermost part of the path that ends in ".service". */
static void add_unit(struct labels *labels, struct sonde_arena *arena, const char *cgroup) {
    static const char suffix[] = ".service";
    const char *unit = NULL;
    size_t unit_len = 0;
    for (const char *at = cgroup; *at;) {
        size_t len = strcspn(at, "/"), end = sizeof suffix - 1;
        if (len > end && memcmp(at + len - end, suffix, end) == 0) {
            unit = at;
            unit_len = len;
        }
        at += len + (at[len] == '/');
    }
    if (unit)
        add(labels, arena, "unit", unit, unit_len);
}

/* systemd's cgroup driver writes the UID with underscores. uid is "" if there is none. */
static void find_pod(const char *cgroup, char uid[UID_BYTES + 1]) {
    uid[0] = 0;
    const char *root = strstr(cgroup, "kubepods"), *inside = cgroup_without_parents(cgroup);
    /* Of a relative path "kubepods" itself may be missing. */
    const char *at = root ? root + strlen("kubepods") : inside != cgroup ? inside : "";
    while ((at = strstr(at, "pod")) != NULL) {
        at += 3;
        size_t len = strspn(at, "0123456789abcdef-_");
        if (len != UID_BYTES && len != STATIC_UID_BYTES)
            continue;
        for (size_t i = 0; i < len; i++)
            uid[i] = at[i] == '_' ? '-' : at[i];
        uid[len] = 0;
        return;
    }
}

static void add_text(struct labels *labels, struct sonde_arena *arena, const char *key,
                     const char *value) {
    add(labels, arena, key, value, strlen(value));
}

static void add_pod(struct labels *labels, struct sonde_arena *arena, const char *uid,
                    const char *container, struct pod_directories *pods) {
    struct pod_names names;
    add_text(labels, arena, "pod", uid);
    if (!*uid || !pods)
        return;
    pod_names_find(pods, uid, container, &names);
    add_text(labels, arena, "namespace", names.namespace_name);
    add_text(labels, arena, "pod_name", names.pod);
    add_text(labels, arena, "container_name", names.container);
}

static bool is_name(const char *name, size_t len) {
    if (len == 0 || len > LABELS_NAME || (!isalpha((unsigned char)name[0]) && name[0] != '_'))
        return false;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)name[i] >= 0x80 ||
            (!isalnum((unsigned char)name[i]) && !strchr("_.-/", name[i])))
            return false;
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
        if (strlen(reserved[i]) == len && memcmp(reserved[i], name, len) == 0)
            return false;
    return true;
}

static bool is_value(const char *value, size_t len) {
    return len > 0 && len <= LABELS_VALUE && sonde_utf8_is_clean(value, len);
}

static const char *find(const struct labels *labels, const char *name, size_t len) {
    for (uint32_t i = 0; i < labels->count; i++)
        if (strlen(labels->items[i].key) == len && memcmp(labels->items[i].key, name, len) == 0)
            return labels->items[i].value;
    return NULL;
}

static bool add_pair(struct labels *labels, struct sonde_arena *arena, const char *pair,
                     size_t len) {
    const char *equals = memchr(pair, '=', len);
    size_t name_len = equals ? (size_t)(equals - pair) : 0;
    const char *value = equals ? equals + 1 : "";
    size_t value_len = equals ? len - name_len - 1 : 0;
    if (!is_name(pair, name_len) || !is_value(value, value_len))
        return false;
    const char *known = find(labels, pair, name_len);
    if (known) /* a pod often declares its namespace, which is known here, too */
        return strlen(known) == value_len && memcmp(known, value, value_len) == 0;
    if (labels->count >= LABELS_MAX)
        return false;
    const char *key = sonde_arena_dup(arena, pair, name_len);
    if (key)
        add(labels, arena, key, value, value_len);
    return key != NULL;
}

void labels_of(const struct labels_source *source, struct sonde_arena *arena,
               struct labels *labels) {
    char container[CGROUP_CONTAINER_BYTES], pod[UID_BYTES + 1];
    *labels = (struct labels){0};
    cgroup_container(source->cgroup, container);
    find_pod(source->cgroup, pod);
    add_text(labels, arena, "executable", source->executable);
    add_text(labels, arena, "cgroup", cgroup_without_parents(source->cgroup));
    add_unit(labels, arena, source->cgroup);
    add_text(labels, arena, "container", container);
    add_pod(labels, arena, pod, container, source->pods);
    bool is_cut = strlen(source->declared) >= source->limit;
    for (const char *at = source->declared; *at;) {
        size_t len = strcspn(at, ",");
        bool is_last = at[len] == 0;
        if (len > 0 && ((is_cut && is_last) || !add_pair(labels, arena, at, len)))
            labels->refused++;
        at += len + !is_last;
    }
}

void labels_of_record(const struct record *record, struct sonde_arena *arena,
                      struct labels *labels) {
    const struct engine_target *target = record->target;
    const struct labels_source source = {.executable = target->executable,
                                         .cgroup = record->cgroup,
                                         .declared = target->labels,
                                         .limit = sizeof target->labels - 1,
                                         .pods = &pod_directories_of_node};
    labels_of(&source, arena, labels);
}
