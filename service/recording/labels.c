/* SPDX-License-Identifier: Apache-2.0 */
#include "service/recording/labels.h"

#include "api/text/utf8.h"
#include "service/host/processes/cgroup.h"

#include <ctype.h>
#include <string.h>

#define UID_BYTES        36 /* 8-4-4-4-12 */
#define STATIC_UID_BYTES 32 /* of a pod from the node's own files */

/* What queries call something else, or sonded knows better. */
static const char *const reserved[] = {"service", "host",      "instance", "pid", "event",
                                       "thread",  "container", "cgroup",   "pod", "executable"};

static void add(struct labels *labels, struct sonde_arena *arena, const char *key,
                const char *value, size_t len) {
    bool is_fine = len > 0 && len <= STORE_MAX_TEXT && sonde_utf8_is_clean(value, len);
    char *copy = is_fine ? sonde_arena_dup(arena, value, len) : NULL;
    if (copy && labels->count < LABELS_MAX)
        labels->items[labels->count++] = (struct store_label){key, copy};
}

/* systemd's cgroup driver writes the UID with underscores. */
static void add_pod(struct labels *labels, struct sonde_arena *arena, const char *cgroup) {
    char uid[UID_BYTES + 1];
    const char *at = strstr(cgroup, "kubepods");
    at = at ? strstr(at, "pod") + 3 : NULL; /* of "kubepods" itself */
    while (at && (at = strstr(at, "pod")) != NULL) {
        at += 3;
        size_t len = strspn(at, "0123456789abcdef-_");
        if (len != UID_BYTES && len != STATIC_UID_BYTES)
            continue;
        for (size_t i = 0; i < len; i++)
            uid[i] = at[i] == '_' ? '-' : at[i];
        add(labels, arena, "pod", uid, len);
        return;
    }
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

static bool is_taken(const struct labels *labels, const char *name, size_t len) {
    for (uint32_t i = 0; i < labels->count; i++)
        if (strlen(labels->items[i].key) == len && memcmp(labels->items[i].key, name, len) == 0)
            return true;
    return false;
}

static bool add_pair(struct labels *labels, struct sonde_arena *arena, const char *pair,
                     size_t len) {
    const char *equals = memchr(pair, '=', len);
    size_t name_len = equals ? (size_t)(equals - pair) : 0;
    const char *value = equals ? equals + 1 : "";
    size_t value_len = equals ? len - name_len - 1 : 0;
    if (!is_name(pair, name_len) || !is_value(value, value_len) ||
        is_taken(labels, pair, name_len) || labels->count >= LABELS_MAX)
        return false;
    const char *key = sonde_arena_dup(arena, pair, name_len);
    if (key)
        add(labels, arena, key, value, value_len);
    return key != NULL;
}

void labels_of(const char *executable, const char *cgroup, const char *declared, size_t limit,
               struct sonde_arena *arena, struct labels *labels) {
    char container[CGROUP_CONTAINER_BYTES];
    *labels = (struct labels){0};
    add(labels, arena, "executable", executable, strlen(executable));
    add(labels, arena, "cgroup", cgroup, strlen(cgroup));
    cgroup_container(cgroup, container);
    add(labels, arena, "container", container, strlen(container));
    add_pod(labels, arena, cgroup);
    bool is_cut = strlen(declared) >= limit;
    for (const char *at = declared; *at;) {
        size_t len = strcspn(at, ",");
        bool is_last = at[len] == 0;
        if (len > 0 && ((is_cut && is_last) || !add_pair(labels, arena, at, len)))
            labels->refused++;
        at += len + !is_last;
    }
}
