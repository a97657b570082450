/* SPDX-License-Identifier: Apache-2.0
 *
 * Host targets come into being on the thread of the request that asks for one, and end on the
 * engine thread: when their process ends, or after they were idle for a while. A target that a
 * thread has just found is retained by it, so it does not end between that and its first
 * capture. */
#include "service/engine/host/host.h"

#include "service/engine/core/target.h"
#include "service/process/foreign_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define LOOK_NS 1000000000ull /* between two looks at a process, where the kernel has no pidfds */

static bool is_same(const struct target *target, const struct host_plan *plan) {
    const struct host_target *host = target->host;
    return host && target->is_attached && host->members == plan->members &&
           host->pid == plan->identity.pid && host->start_ticks == plan->identity.start_ticks &&
           strcmp(host->name, plan->name) == 0 && host->has_owner == plan->has_owner &&
           (!host->has_owner || host->owner == plan->owner) && host->event.id == plan->event.id &&
           host->event.by_number == plan->event.by_number;
}

static struct target *find_in(struct target *list, const struct host_plan *plan) {
    while (list && !is_same(list, plan))
        list = list->next;
    return list;
}

struct target *host_target_find(struct engine *engine, const struct host_plan *plan) {
    struct target *target = find_in(engine->targets, plan);
    return target ? target : find_in(engine->newcomers, plan);
}

/* argv, separated by NULs, without a final NUL. */
static void read_command(struct target *target) {
    struct sonde_buf command = {0};
    char bytes[ENGINE_MAX_COMMAND];
    sonde_buf_append(&command, bytes, foreign_memory_command(target->pid, bytes, sizeof bytes));
    while (command.len > 0 && command.data[command.len - 1] == 0)
        command.len--;
    if (!process_identity_holds(&target->process))
        command.len = 0;
    target->command = sonde_buf_take(&command, &target->command_len);
    sonde_buf_finish(&command);
}

/* The identity is copied with a descriptor of its own. */
static bool set_identity(struct target *target, const struct host_plan *plan) {
    struct process_identity *identity = &target->process;
    *identity = plan->identity;
    if (identity->pidfd >= 0 && (identity->pidfd = dup(identity->pidfd)) < 0)
        return false;
    target->pid = identity->pid;
    target->uid = plan->members == HOST_ONE ? identity->ids.uids[1] : plan->owner;
    target->building.uid = target->reporting.uid = target->uid;
    return true;
}

/* NULL when out of memory or descriptors. */
static struct target *create(struct engine *engine, const struct host_plan *plan) {
    struct target *target = target_create(engine, &host_source);
    struct host_target *host = calloc(1, sizeof *host);
    if (!target || !host || !set_identity(target, plan)) {
        free(target);
        free(host);
        return NULL;
    }
    *host = (struct host_target){.members = plan->members,
                                 .pid = plan->identity.pid,
                                 .start_ticks = plan->identity.start_ticks,
                                 .owner = plan->owner,
                                 .event = plan->event,
                                 .has_owner = plan->has_owner};
    memcpy(host->name, plan->name, sizeof host->name);
    target->host = host;
    target->is_attached = true;
    host_describe(plan, &target->info);
    target->info.attached_unix_ns = now_unix_ns();
    if (plan->members == HOST_ONE)
        read_command(target);
    if (plan->members == HOST_TREE)
        snprintf(target->root_name, sizeof target->root_name, "%s", plan->process.name);
    return target;
}

/* With targets_lock held: returns the target that is on the list now, retained. */
static struct target *enlist(struct engine *engine, const struct host_plan *plan,
                             struct target *created) {
    struct target *other = host_target_find(engine, plan);
    if (other || engine->host_count >= HOST_MAX)
        return other ? target_retain(other) : NULL;
    created->next = engine->newcomers;
    engine->newcomers = created;
    engine->host_count++;
    return target_retain(created);
}

sonde_err host_target_get(struct engine *engine, const struct host_plan *plan,
                          struct target **target, struct sonde_diag *diag) {
    lock_take(&engine->targets_lock);
    *target = host_target_find(engine, plan);
    if (*target)
        target_retain(*target);
    lock_drop(&engine->targets_lock);
    if (*target)
        return SONDE_OK;
    struct target *created = create(engine, plan);
    if (!created)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory or file descriptors");
    lock_take(&engine->targets_lock);
    *target = enlist(engine, plan, created);
    lock_drop(&engine->targets_lock);
    if (*target == created)
        engine_wake(engine);
    else
        target_release(created);
    if (*target)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                      "sonded serves its limit of %u targets that are sampled from outside; try "
                      "again in a few seconds",
                      HOST_MAX);
}

/* ---- The engine thread ---- */

static void watch_exit(struct target *target) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = target};
    int pidfd = target->process.pidfd;
    if (pidfd >= 0)
        (void)epoll_ctl(target->engine->epoll_fd, EPOLL_CTL_ADD, pidfd, &event);
}

static void unwatch_exit(struct target *target) {
    int pidfd = target->process.pidfd;
    if (pidfd >= 0)
        (void)epoll_ctl(target->engine->epoll_fd, EPOLL_CTL_DEL, pidfd, NULL);
}

void host_adopt(struct engine *engine) {
    lock_take(&engine->targets_lock);
    struct target *first = engine->newcomers, *last = first;
    engine->newcomers = NULL;
    while (last && last->next)
        last = last->next;
    if (last) {
        last->next = engine->targets;
        engine->targets = first;
    }
    lock_drop(&engine->targets_lock);
    struct target *end = last ? last->next : NULL;
    for (struct target *target = first; target != end; target = target->next) {
        watch_exit(target);
        target_wake_now(target);
    }
    bool is_crowded = first && engine->host_count > HOST_MAX_IDLE;
    for (struct target *target = engine->targets; is_crowded && target; target = target->next) {
        if (target->host)
            target_wake_now(target); /* idle ones end sooner now */
    }
}

/* Its last records are in the rings already, but some may wait for tables. */
void host_on_exit(struct target *target) {
    unwatch_exit(target);
    target->source->drain_all(target, now_monotonic_ns());
    target->host->is_over = true;
    target_wake_now(target);
}

/* The list's reference is the only one: nobody asks for the target, or could be about to. */
static bool end_if_unused(struct target *target) {
    lock_take(&target->engine->targets_lock);
    bool is_unused = atomic_load(&target->refs) == 1;
    if (is_unused) {
        target->is_attached = false;
        target->engine->host_count--;
    }
    lock_drop(&target->engine->targets_lock);
    if (is_unused)
        unwatch_exit(target);
    return is_unused;
}

static bool is_busy(const struct target *target) {
    return target->captures || atomic_load(&target->refs) > 1;
}

/* The process can only be looked at, because the kernel has no pidfds. */
static bool is_looking(const struct target *target) {
    return target->host->members == HOST_ONE && target->process.pidfd < 0;
}

bool host_has_ended(struct target *target, uint64_t now_ns) {
    struct host_target *host = target->host;
    if (!target->is_attached)
        return false;
    host->is_over |= is_looking(target) && !process_identity_is_alive(&target->process);
    return host->is_over && !host_waits(target, now_ns);
}

uint64_t host_tick(struct target *target, uint64_t now_ns) {
    struct host_target *host = target->host;
    if (!target->is_attached)
        return 0;
    if (host->is_over)
        return now_ns + ENGINE_NAMES_LOOK_NS;
    if (is_busy(target))
        host->idle_since_ns = 0;
    else if (host->idle_since_ns == 0)
        host->idle_since_ns = now_ns;
    uint64_t idle_ns = atomic_load(&target->engine->idle_ns);
    uint64_t soon_ns = idle_ns < HOST_CROWDED_NS ? idle_ns : HOST_CROWDED_NS;
    if (target->engine->host_count > HOST_MAX_IDLE)
        idle_ns = soon_ns;
    uint64_t look_ns = is_looking(target) ? now_ns + LOOK_NS : 0;
    if (host->idle_since_ns == 0)
        return earlier(look_ns, now_ns + soon_ns);
    if (now_ns - host->idle_since_ns >= idle_ns && end_if_unused(target))
        return 0;
    uint64_t end_ns = host->idle_since_ns + idle_ns;
    return earlier(look_ns, end_ns > now_ns ? end_ns : now_ns + soon_ns);
}
