/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/group/members.h"

#include <string.h>

static struct member *find(struct members *members, const char *name) {
    for (size_t i = 0; i < members->count; i++)
        if (strcmp(members->items[i].name, name) == 0)
            return &members->items[i];
    return NULL;
}

static bool add(struct members *members, const char *name) {
    if (members->count == MEMBERS_MAX || strlen(name) > MEMBERS_MAX_NAME || find(members, name))
        return false;
    size_t at = members->count++;
    for (; at > 0 && strcmp(members->items[at - 1].name, name) > 0; at--)
        members->items[at] = members->items[at - 1];
    members->items[at] = (struct member){.missing_ms = 0};
    memcpy(members->items[at].name, name, strlen(name) + 1);
    return true;
}

static bool is_listed(const char *name, const char *own, const char *const *names, size_t count) {
    bool is = strcmp(name, own) == 0;
    for (size_t i = 0; i < count && !is; i++)
        is = strcmp(names[i], name) == 0;
    return is;
}

bool members_update(struct members *members, const char *own, const char *const *names,
                    size_t count, int64_t now_ms, int64_t lease_ms) {
    size_t kept = 0, before = members->count;
    for (size_t i = 0; i < before; i++) {
        struct member *member = &members->items[i];
        if (is_listed(member->name, own, names, count))
            member->missing_ms = 0;
        else if (!member->missing_ms)
            member->missing_ms = now_ms ? now_ms : 1;
        if (!member->missing_ms || now_ms - member->missing_ms < lease_ms)
            members->items[kept++] = *member;
    }
    members->count = kept;
    bool has_changed = kept < before;
    has_changed = add(members, own) || has_changed;
    for (size_t i = 0; i < count; i++)
        has_changed = add(members, names[i]) || has_changed;
    return has_changed;
}
