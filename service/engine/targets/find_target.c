/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds targets, and says which field of a selector matches none. */
#include "service/engine/targets/find_target.h"

#include "api/text/time_text.h"
#include "service/engine/host/stream/host_target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static bool is_given(const char *text) {
    return text && text[0];
}

static bool matches_name(const struct target *target, const struct engine_selector *selector) {
    return !is_given(selector->name) || strcmp(target->info.name, selector->name) == 0;
}

static bool matches_pid(const struct target *target, const struct engine_selector *selector) {
    return selector->pid == 0 || target->info.pid == selector->pid;
}

static bool matches_uuid(const struct target *target, const struct engine_selector *selector) {
    return !is_given(selector->uuid) || strcmp(target->info.uuid, selector->uuid) == 0;
}

/* Guests choose their names, and when they attach. So if targets of the caller's own user match,
 * targets of other users do not count. Root asks on behalf of sonded's user, to whom a plain name,
 * or none, then belongs. */
struct owner {
    uid_t uid;
    bool is_only; /* only targets of that user count */
};

static struct owner owner_for(uid_t caller) {
    return (struct owner){.uid = caller == 0 ? geteuid() : caller};
}

static bool counts(const struct target *target, const struct owner *owner) {
    return target->is_attached && !target->host && (!owner->is_only || target->uid == owner->uid);
}

static void append_targets(struct engine *engine, const struct engine_selector *selector,
                           const struct owner *owner, struct sonde_diag *diag) {
    size_t len = strlen(diag->text);
    uint32_t left = 0;
    for (struct target *target = engine->targets; target; target = target->next) {
        if (!counts(target, owner) || !matches_name(target, selector))
            continue;
        char line[128], when[SONDE_TIME_BYTES];
        int bytes =
            snprintf(line, sizeof line, "\n%s  %d  %s", target->info.name, (int)target->info.pid,
                     sonde_time_utc(target->info.start_unix_ns, when));
        if (left > 0 || len + (size_t)bytes + sizeof "\nand 4096 more" > sizeof diag->text) {
            left++;
            continue;
        }
        memcpy(diag->text + len, line, (size_t)bytes + 1);
        len += (size_t)bytes;
    }
    if (left > 0)
        snprintf(diag->text + len, sizeof diag->text - len, "\nand %u more", left);
}

static sonde_err ambiguous(struct engine *engine, const struct engine_selector *selector,
                           const struct owner *owner, uint32_t count, struct sonde_diag *diag) {
    if (count == 0)
        return sonde_fail(
            diag, SONDE_TARGET_AMBIGUOUS,
            "no process is attached: say which process by its pid or name, or start one "
            "with: sonde run -- COMMAND");
    if (is_given(selector->name))
        (void)sonde_fail(diag, SONDE_TARGET_AMBIGUOUS,
                         "%u processes are called %s; choose one by its pid:", count,
                         selector->name);
    else
        (void)sonde_fail(diag, SONDE_TARGET_AMBIGUOUS,
                         "%u processes are attached; say which one by name or pid:", count);
    if (diag)
        append_targets(engine, selector, owner, diag);
    return SONDE_TARGET_AMBIGUOUS;
}

static sonde_err not_found(const struct engine_selector *selector, struct sonde_diag *diag) {
    if (is_given(selector->name))
        return sonde_fail(diag, SONDE_TARGET_NOT_FOUND, "no process called %.63s is attached",
                          selector->name);
    if (selector->pid != 0)
        return sonde_fail(diag, SONDE_TARGET_NOT_FOUND, "no process with pid %d is attached",
                          (int)selector->pid);
    return sonde_fail(diag, SONDE_TARGET_NOT_FOUND, "no process with uuid %.32s is attached",
                      selector->uuid);
}

/* Number of targets that match each field, and that match all fields. */
struct matches {
    uint32_t all, name, pid, uuid, attached;
    struct target *target;
};

static struct matches count_matches(struct engine *engine, const struct engine_selector *selector,
                                    const struct owner *owner) {
    struct matches matches = {0};
    for (struct target *target = engine->targets; target; target = target->next) {
        if (!counts(target, owner))
            continue;
        bool name = matches_name(target, selector), pid = matches_pid(target, selector),
             uuid = matches_uuid(target, selector);
        matches.attached++;
        matches.name += name;
        matches.pid += pid;
        matches.uuid += uuid;
        if (!name || !pid || !uuid)
            continue;
        matches.all++;
        matches.target = target;
    }
    return matches;
}

/* Of several targets, the owner's count, if the owner has any. */
static struct matches prefer_own(struct engine *engine, const struct engine_selector *selector,
                                 struct owner *owner, struct matches all) {
    if (all.all < 2 || owner->is_only)
        return all;
    owner->is_only = true;
    struct matches own = count_matches(engine, selector, owner);
    owner->is_only = own.all > 0;
    return owner->is_only ? own : all;
}

sonde_err find_target(struct engine *engine, const struct engine_selector *selector, uid_t caller,
                      struct target **target, struct sonde_diag *diag) {
    struct owner owner = owner_for(caller);
    if (selector->owner)
        owner = (struct owner){.uid = *selector->owner, .is_only = true};
    struct matches matches = count_matches(engine, selector, &owner);
    bool is_empty = !is_given(selector->name) && selector->pid == 0 && !is_given(selector->uuid);
    matches = prefer_own(engine, selector, &owner, matches);
    *target = NULL;
    if (matches.all == 1) {
        *target = matches.target;
        return SONDE_OK;
    }
    if (matches.all > 1 || is_empty)
        return ambiguous(engine, selector, &owner, matches.all, diag);
    if (matches.name > 0 && matches.pid > 0 && matches.uuid > 0)
        return sonde_fail(diag, SONDE_TARGET_CONFLICT,
                          "name, pid and uuid belong to different processes");
    struct engine_selector missing = *selector; /* the error names a field without a match */
    if (matches.name > 0)
        missing.name = NULL;
    if (matches.pid > 0)
        missing.pid = 0;
    return not_found(&missing, diag);
}

/* With targets_lock held. */
static void add_captures_of(const struct target *hosts, struct engine_target *list, size_t count) {
    for (const struct target *target = hosts; target; target = target->next) {
        bool runs = target->host && target->host->members == HOST_ONE && target->is_attached &&
                    target->info.captures_running > 0;
        for (size_t i = 0; runs && i < count; i++) {
            if (list[i].pid == target->info.pid)
                list[i].captures_running += target->info.captures_running;
        }
    }
}

void add_captures_from_outside(struct engine *engine, struct engine_target *list, size_t count) {
    lock_take(&engine->targets_lock);
    add_captures_of(engine->targets, list, count);
    add_captures_of(engine->newcomers, list, count);
    lock_drop(&engine->targets_lock);
}

static int by_start(const void *a, const void *b) {
    const struct engine_target *left = a, *right = b;
    if (left->start_unix_ns != right->start_unix_ns)
        return left->start_unix_ns > right->start_unix_ns ? 1 : -1;
    return (left->pid > right->pid) - (left->pid < right->pid);
}

struct engine_target *engine_targets(struct engine *engine, size_t *count) {
    struct engine_target *list = NULL;
    *count = 0;
    lock_take(&engine->targets_lock);
    if (engine->target_count > 0)
        list = calloc(engine->target_count, sizeof *list);
    for (struct target *target = engine->targets; target && list; target = target->next) {
        if (target->is_attached && !target->host)
            list[(*count)++] = target->info;
    }
    lock_drop(&engine->targets_lock);
    add_captures_from_outside(engine, list, *count);
    if (*count > 1)
        qsort(list, *count, sizeof *list, by_start);
    return list;
}
