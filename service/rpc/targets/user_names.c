/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/targets/user_names.h"

#include "api/base/clock.h"

#include <pwd.h>
#include <string.h>
#include <time.h>

#define MAX_AGE_NS   60000000000ull
#define RECORD_BYTES 4096 /* of the user database; larger records have no name */

void user_names_expire(struct user_names *names) {
    if (names->count > 0 && (uint64_t)clock_ns(CLOCK_MONOTONIC) - names->since_ns > MAX_AGE_NS)
        names->count = 0;
}

static size_t find(const struct user_names *names, uid_t uid) {
    size_t i = 0;
    while (i < names->count && names->items[i].uid != uid)
        i++;
    return i;
}

bool user_names_has(const struct user_names *names, uid_t uid) {
    return names->count == USER_NAMES || find(names, uid) < names->count;
}

void user_names_resolve(struct user_names *names, uid_t uid) {
    char record[RECORD_BYTES];
    struct passwd user, *found = NULL;
    if (user_names_has(names, uid))
        return;
    if (getpwuid_r(uid, &user, record, sizeof record, &found) != 0 || !found)
        found = NULL;
    if (names->count == 0)
        names->since_ns = (uint64_t)clock_ns(CLOCK_MONOTONIC);
    size_t at = names->count++;
    names->items[at].uid = uid;
    names->items[at].name[0] = 0;
    if (found && strlen(found->pw_name) < USER_NAME_SIZE)
        strcpy(names->items[at].name, found->pw_name);
}

const char *user_names_find(const struct user_names *names, uid_t uid) {
    size_t at = find(names, uid);
    return at < names->count ? names->items[at].name : "";
}
