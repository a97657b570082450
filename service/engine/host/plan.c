/* SPDX-License-Identifier: Apache-2.0
 *
 * From a selector to the processes that it means, and whether this sonded may sample them. */
#include "service/engine/host/host.h"

#include "service/engine/core/start_time.h"
#include "service/engine/core/target.h"
#include "service/engine/host/process_info.h"
#include "service/host/refusal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- rights ----------------------------------------------------------------------------------- */

#define COMMAND_BYTES 200 /* longer ones are left to sonde doctor */

static bool may_see_others(struct engine *engine) {
    return engine_has_right(engine, RIGHT_PERF_ALL) && engine_has_right(engine, RIGHT_MEMORY);
}

/* The end of a refusal: how to get the right. */
static void explain_right(struct engine *engine, enum host_right_kind kind,
                          char text[COMMAND_BYTES + 64]) {
    struct host_right rights[RIGHT_KINDS];
    engine_rights(engine, rights);
    const char *command = rights[kind].command;
    if (command[0] && strlen(command) < COMMAND_BYTES)
        snprintf(text, COMMAND_BYTES + 64, "run sonded as root, or: %s", command);
    else
        snprintf(text, COMMAND_BYTES + 64, "run sonded as root; sonde doctor shows other ways");
}

/* The user to whom the request is limited: the caller, or sonded's own. */
static void set_owner(struct engine *engine, const struct engine_selector *selector,
                      struct host_plan *plan) {
    plan->has_owner = selector->owner || !may_see_others(engine);
    plan->owner = selector->owner ? *selector->owner : geteuid();
}

static sonde_err refuse_owner(const struct process_entry *process, struct sonde_diag *diag) {
    return sonde_fail(diag, SONDE_PERMISSION_DENIED,
                      "process %d (%s) belongs to another user (uid %u): run sonded as root or as "
                      "that user, or see what `sonde doctor` suggests",
                      (int)process->pid, process->name, (unsigned)process->uid);
}

/* --- one process ------------------------------------------------------------------------------ */

static bool is_given(const char *text) {
    return text && text[0];
}

static sonde_err not_found(const struct engine_selector *selector, struct sonde_diag *diag) {
    if (selector->pid != 0)
        return sonde_fail(diag, SONDE_TARGET_NOT_FOUND, "no process with pid %d runs here",
                          (int)selector->pid);
    if (is_given(selector->name))
        return sonde_fail(diag, SONDE_TARGET_NOT_FOUND, "no process called %.63s runs here",
                          selector->name);
    return sonde_fail(diag, SONDE_TARGET_NOT_FOUND, "no process with uuid %.32s runs here",
                      selector->uuid);
}

/* Reads who the process is. Equal starts before and after mean that all is about one process. */
static sonde_err identify(const struct engine_selector *selector, pid_t pid, struct host_plan *plan,
                          struct sonde_diag *diag) {
    process_identity_finish(&plan->identity);
    bool is_known = process_identity_of_pid(pid, &plan->identity);
    if (!is_known && process_read(pid, &plan->process))
        return sonde_fail(diag, SONDE_TARGET_NOT_FOUND,
                          "%d is a thread, not a process: give the pid of its process", (int)pid);
    if (!is_known || !process_read(pid, &plan->process) ||
        plan->process.start_ticks != plan->identity.start_ticks)
        return not_found(selector, diag);
    return SONDE_OK;
}

static const char *reason_of(const struct process_entry *process) {
    if (process->is_kernel)
        return "a kernel thread, which cannot be sampled by itself: sample the whole machine";
    if (process->is_32bit)
        return "a 32-bit program, whose stacks Sonde cannot walk";
    return NULL;
}

void host_explain(struct engine *engine, const struct process_entry *process, char text[192]) {
    const char *reason = reason_of(process);
    text[0] = 0;
    if (reason)
        snprintf(text, 192, "%s", reason);
    else if (process->uid != geteuid() && !may_see_others(engine))
        snprintf(text, 192,
                 "it belongs to another user: run sonded as root or as that user, or grant it the "
                 "rights that sonde doctor lists");
}

static sonde_err check_process(const struct engine_selector *selector, const struct host_plan *plan,
                               struct sonde_diag *diag) {
    const struct process_entry *process = &plan->process;
    const char *reason = reason_of(process);
    const uid_t *uids = plan->identity.ids.uids;
    bool is_owners = uids[0] == plan->owner && uids[1] == plan->owner && uids[2] == plan->owner;
    if (reason)
        return sonde_fail(diag, SONDE_NOT_AVAILABLE, "process %d (%s) is %s", (int)process->pid,
                          process->name, reason);
    if (!plan->has_owner || is_owners)
        return SONDE_OK;
    return selector->owner ? not_found(selector, diag) : refuse_owner(process, diag);
}

/* --- by name or uuid -------------------------------------------------------------------------- */

static bool matches(const struct engine_selector *selector, const struct process_entry *entry) {
    char uuid[33];
    if (entry->is_kernel || (is_given(selector->name) && strcmp(selector->name, entry->name) != 0))
        return false;
    if (!is_given(selector->uuid))
        return true;
    process_info_uuid(entry, uuid);
    return strcmp(uuid, selector->uuid) == 0;
}

static struct process_entry *list_for(const struct engine_selector *selector, size_t *count) {
    return is_given(selector->name) ? process_list_named(selector->name, count)
                                    : process_list(count);
}

/* Keeps the processes that match. If the owner has any, those of other users do not count. A caller
 * who is limited to own processes learns nothing about others, not even that they run. */
static size_t filter(const struct engine_selector *selector, const struct host_plan *plan,
                     struct process_entry *list, size_t count) {
    size_t kept = 0, own = 0;
    for (size_t i = 0; i < count; i++) {
        if (matches(selector, &list[i]))
            list[kept++] = list[i];
    }
    for (size_t i = 0; i < kept; i++) {
        if (list[i].uid == plan->owner)
            list[own++] = list[i];
    }
    return own > 0 || selector->owner ? own : kept;
}

static sonde_err ambiguous(const char *name, const struct process_entry *list, size_t count,
                           struct sonde_diag *diag) {
    (void)sonde_fail(
        diag, SONDE_TARGET_AMBIGUOUS,
        "%zu processes are called %.63s; choose one by its pid, or all of them:", count, name);
    size_t len = diag ? strlen(diag->text) : 0, i = 0;
    for (; diag && i < count; i++) {
        char pid[16];
        size_t bytes = (size_t)snprintf(pid, sizeof pid, " %d", (int)list[i].pid);
        if (len + bytes + sizeof " and 65536 more" > sizeof diag->text)
            break;
        memcpy(diag->text + len, pid, bytes + 1);
        len += bytes;
    }
    if (diag && i < count)
        snprintf(diag->text + len, sizeof diag->text - len, " and %zu more", count - i);
    return SONDE_TARGET_AMBIGUOUS;
}

static sonde_err search(const struct engine_selector *selector, struct host_plan *plan,
                        struct sonde_diag *diag) {
    size_t count;
    struct process_entry *list = list_for(selector, &count);
    sonde_err err;
    count = list ? filter(selector, plan, list, count) : 0;
    if (count == 0)
        err = not_found(selector, diag);
    else if (count > 1)
        err = ambiguous(selector->name, list, count, diag);
    else
        err = identify(selector, list[0].pid, plan, diag);
    free(list);
    if (!err && !matches(selector, &plan->process)) /* it has called exec meanwhile */
        err = not_found(selector, diag);
    return err;
}

static sonde_err plan_one(const struct engine_selector *selector, struct host_plan *plan,
                          struct sonde_diag *diag) {
    sonde_err err = selector->pid != 0 ? identify(selector, selector->pid, plan, diag)
                                       : search(selector, plan, diag);
    if (err)
        return err;
    if (selector->owner && plan->process.uid != plan->owner)
        return not_found(selector, diag);
    if (!plan->process.is_kernel && !matches(selector, &plan->process))
        return sonde_fail(diag, SONDE_TARGET_CONFLICT,
                          "name, pid and uuid belong to different processes");
    return check_process(selector, plan, diag);
}

/* --- several processes ------------------------------------------------------------------------ */

static sonde_err plan_named(const struct engine_selector *selector, struct host_plan *plan,
                            struct sonde_diag *diag) {
    size_t count, i = 0;
    struct process_entry *list = list_for(selector, &count);
    snprintf(plan->name, sizeof plan->name, "%s", selector->name);
    bool has_own = false;
    count = list ? filter(selector, plan, list, count) : 0;
    for (; i < count && !has_own; i++)
        has_own = !plan->has_owner || list[i].uid == plan->owner;
    sonde_err err = SONDE_OK;
    if (count == 0)
        err = not_found(selector, diag);
    else if (!has_own)
        err = refuse_owner(&list[0], diag);
    free(list);
    return err;
}

static sonde_err plan_every(struct engine *engine, const struct engine_selector *selector,
                            struct host_plan *plan, struct sonde_diag *diag) {
    char how[COMMAND_BYTES + 64];
    int level;
    if (selector->own) {
        plan->has_owner = true;
        plan->owner = geteuid();
        if (engine_has_right(engine, RIGHT_PERF_OWN))
            return SONDE_OK;
        explain_right(engine, RIGHT_PERF_OWN, how);
        return sonde_fail(diag, SONDE_PERMISSION_DENIED, "perf refuses own processes: %s", how);
    }
    if (engine_has_right(engine, RIGHT_PERF_ALL))
        return SONDE_OK;
    if (refusal_is_paranoid(&level))
        return sonde_fail(diag, SONDE_PERMISSION_DENIED,
                          "sampling the whole machine needs CAP_SYS_ADMIN, because "
                          "kernel.perf_event_paranoid is %d: run sonded as root (sonde doctor)",
                          level);
    explain_right(engine, RIGHT_PERF_ALL, how);
    return sonde_fail(diag, SONDE_PERMISSION_DENIED,
                      "sampling the whole machine needs CAP_PERFMON: %s", how);
}

static sonde_err plan_several(struct engine *engine, const struct engine_selector *selector,
                              struct host_plan *plan, struct sonde_diag *diag) {
    struct engine_selector one = *selector;
    one.uuid = NULL;
    plan->members = selector->pid != 0         ? HOST_TREE
                    : is_given(selector->name) ? HOST_NAMED
                                               : HOST_EVERY;
    sonde_err err = plan->members == HOST_TREE    ? plan_one(&one, plan, diag)
                    : plan->members == HOST_NAMED ? plan_named(&one, plan, diag)
                                                  : plan_every(engine, selector, plan, diag);
    struct engine_target info;
    if (err || !is_given(selector->uuid))
        return err;
    host_describe(plan, &info);
    if (strcmp(info.uuid, selector->uuid) == 0)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_TARGET_CONFLICT, "the uuid belongs to other processes");
}

/* --- plans ------------------------------------------------------------------------------------ */

static void plan_init(struct engine *engine, const struct engine_selector *selector,
                      struct host_plan *plan) {
    *plan = (struct host_plan){.identity = {.pidfd = -1}};
    set_owner(engine, selector, plan);
}

sonde_err host_plan_make(struct engine *engine, const struct engine_selector *selector,
                         struct host_plan *plan, struct sonde_diag *diag) {
    plan_init(engine, selector, plan);
    return selector->all ? plan_several(engine, selector, plan, diag)
                         : plan_one(selector, plan, diag);
}

sonde_err host_plan_of_guest(struct engine *engine, const struct target *guest,
                             struct host_plan *plan, struct sonde_diag *diag) {
    const struct engine_selector selector = {.pid = guest->pid};
    plan_init(engine, &selector, plan);
    sonde_err err = plan_one(&selector, plan, diag);
    if (!err && !process_identity_holds(&guest->process))
        err = not_found(&selector, diag);
    /* Its profiles bear one name, whatever their source. */
    memcpy(plan->process.name, guest->info.name, sizeof plan->process.name);
    return err;
}

void host_plan_finish(struct host_plan *plan) {
    process_identity_finish(&plan->identity);
}

static void describe_several(const struct host_plan *plan, struct engine_target *info) {
    char text[160];
    *info = (struct engine_target){.is_unattached = true, .uid = plan->owner};
    if (plan->members == HOST_NAMED)
        snprintf(info->name, sizeof info->name, "@all:%.58s", plan->name);
    else if (plan->members == HOST_TREE)
        snprintf(info->name, sizeof info->name, "@all:%d", (int)plan->identity.pid);
    else
        snprintf(info->name, sizeof info->name, "@all");
    snprintf(text, sizeof text, "%d %s %llu %d %u", plan->members, info->name,
             (unsigned long long)plan->identity.start_ticks, plan->has_owner,
             plan->has_owner ? (unsigned)plan->owner : 0);
    process_info_text_uuid(text, info->uuid);
    if (plan->members == HOST_TREE)
        info->start_unix_ns = start_time_unix_ns(plan->identity.start_ticks);
}

void host_describe(const struct host_plan *plan, struct engine_target *info) {
    if (plan->members == HOST_ONE)
        process_info_fill(&plan->process, info);
    else
        describe_several(plan, info);
}
