/* SPDX-License-Identifier: Apache-2.0 */
#include "service/host/processes/cgroup.h"

#include "service/host/processes/process_text.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void cgroup_parse(const char *text, char path[CGROUP_BYTES]) {
    path[0] = 0;
    size_t longest = 1; /* longer than "/" */
    while (*text) {
        size_t len = strcspn(text, "\n");
        const char *second = memchr(text, ':', len);
        const char *third =
            second ? memchr(second + 1, ':', len - (size_t)(second + 1 - text)) : NULL;
        size_t path_len = third ? len - (size_t)(third + 1 - text) : 0;
        if (path_len > longest && path_len < CGROUP_BYTES) {
            memcpy(path, third + 1, path_len);
            path[path_len] = 0;
            longest = path_len;
        }
        text += len + (text[len] == '\n');
    }
}

const char *cgroup_without_parents(const char *path) {
    while (strncmp(path, "/..", 3) == 0 && (path[3] == '/' || path[3] == 0))
        path += 3;
    return path;
}

void cgroup_read(pid_t pid, char path[CGROUP_BYTES]) {
    char text[8192];
    process_file_read("/proc", pid, "cgroup", text, sizeof text);
    cgroup_parse(text, path);
}

/* --- containers ------------------------------------------------------------------------------- */

#define ID_DIGITS (CGROUP_CONTAINER_BYTES - 1)

/* How a part of the path names a container; the name goes on up to the suffix. */
static const struct {
    const char *prefix, *suffix;
} names[] = {
    {"lxc.payload.", ""},
    {"systemd-nspawn@", ".service"},
    {"machine-", ".scope"}, /* of machined: nspawn, and LXC and VMs that register there */
};

static bool is_digit(char byte) {
    return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f');
}

/* systemd writes a byte that a unit's name may not have as \xHH. */
static void copy_unescaped(char id[CGROUP_CONTAINER_BYTES], const char *name, size_t len) {
    char text[CGROUP_CONTAINER_BYTES];
    size_t out = 0;
    for (size_t i = 0; i < len && out < sizeof text - 1; i++) {
        bool is_escape = len - i >= 4 && name[i] == '\\' && name[i + 1] == 'x' &&
                         is_digit(name[i + 2]) && is_digit(name[i + 3]);
        char digits[3] = {name[i], 0, 0};
        if (is_escape) {
            memcpy(digits, name + i + 2, 2);
            digits[0] = (char)strtol(digits, NULL, 16);
            i += 3;
        }
        if (digits[0])
            text[out++] = digits[0];
    }
    text[out] = 0;
    process_name_clean(id, CGROUP_CONTAINER_BYTES, text);
}

static bool find_id(const char *part, size_t len, char id[CGROUP_CONTAINER_BYTES]) {
    const char *found = NULL;
    for (size_t at = 0; at < len;) {
        size_t digits = 0;
        while (at + digits < len && is_digit(part[at + digits]))
            digits++;
        if (digits == ID_DIGITS && (at == 0 || strchr("-:", part[at - 1])))
            found = part + at;
        at += digits ? digits : 1;
    }
    if (found)
        copy_unescaped(id, found, ID_DIGITS);
    return found != NULL;
}

static bool find_name(const char *part, size_t len, char id[CGROUP_CONTAINER_BYTES]) {
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t prefix = strlen(names[i].prefix), suffix = strlen(names[i].suffix);
        if (len <= prefix + suffix || memcmp(part, names[i].prefix, prefix) != 0 ||
            memcmp(part + len - suffix, names[i].suffix, suffix) != 0)
            continue;
        copy_unescaped(id, part + prefix, len - prefix - suffix);
        return true;
    }
    return false;
}

void cgroup_container(const char *path, char id[CGROUP_CONTAINER_BYTES]) {
    bool is_lxc = false;
    id[0] = 0;
    while (*path) {
        size_t len = strcspn(path, "/");
        if (len > 0 && !find_id(path, len, id) && !find_name(path, len, id) && is_lxc)
            copy_unescaped(id, path, len); /* cgroup v1: /lxc/NAME */
        if (len > 0)
            is_lxc = len == 3 && memcmp(path, "lxc", 3) == 0;
        path += len + (path[len] == '/');
    }
}
