/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/core/target.h"

#include "service/engine/allocs/allocs.h"
#include "service/engine/capture/cpu_capture.h"
#include "service/engine/heap/heap_state.h"
#include "service/engine/host/host.h"
#include "service/engine/targets/watch.h"
#include "service/symbol/locate/proc_maps.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Whether a user other than root and sonded's own has reached the limit of connections. */
static bool is_crowded(const struct engine *engine, uid_t uid) {
    uint32_t count = 0;
    if (uid == 0 || uid == geteuid())
        return false;
    for (const struct target *target = engine->targets; target; target = target->next)
        count += target->link.fd >= 0 && target->link.uid == uid;
    return count >= ENGINE_MAX_OF_USER;
}

struct target *target_create(struct engine *engine, int fd) {
    struct target *target = calloc(1, sizeof *target);
    if (!target)
        return NULL;
    target->refs = 1;
    target->engine = engine;
    target->source = &guest_source;
    bool is_known = link_open(&target->link, fd);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = target};
    if (!is_known || is_crowded(engine, target->link.uid) ||
        epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        process_identity_finish(&target->link.process);
        free(target);
        return NULL;
    }
    engine->link_count++;
    target->building.uid = target->reporting.uid = target->link.uid;
    for (int i = 0; i < SESSION_KINDS; i++)
        target->sessions[i] = (struct session){.target = target, .kind = (enum session_kind)i};
    target->hello_deadline_ns = now_monotonic_ns() + ENGINE_HELLO_NS;
    target->wake_ns = target->hello_deadline_ns;
    lock_take(&engine->targets_lock);
    target->next = engine->targets;
    engine->targets = target;
    lock_drop(&engine->targets_lock);
    return target;
}

struct target *target_retain(struct target *target) {
    atomic_fetch_add_explicit(&target->refs, 1, memory_order_relaxed);
    return target;
}

void target_empty(struct target *target) {
    guest_rings_unmap(target);
    space_finish(&target->space);
    proc_maps_release(target->maps);
    target->maps = NULL;
    thread_names_finish(&target->names);
    stacks_release(target->stacks);
    target->stacks = NULL;
}

void target_release(struct target *target) {
    if (!target || atomic_fetch_sub_explicit(&target->refs, 1, memory_order_acq_rel) != 1)
        return;
    target_empty(target);
    for (int i = 0; i < SESSION_KINDS; i++)
        sonde_profile_destroy(target->sessions[i].result);
    heap_destroy(target->heap);
    process_identity_finish(&target->link.process);
    free(target->host);
    free(target->command);
    free(target);
}

static void leave_registry(struct target *target) {
    struct engine *engine = target->engine;
    lock_take(&engine->targets_lock);
    bool was_attached = target->is_attached;
    target->is_attached = false;
    engine->target_count -= was_attached && !target->host;
    engine->host_count -= was_attached && target->host;
    lock_drop(&engine->targets_lock);
    if (was_attached && !target->host)
        watch_notify(engine, false, &target->info);
}

void target_relist(struct target *target) {
    struct engine *engine = target->engine;
    for (struct target *other = engine->targets; other; other = other->next) {
        if (other == target)
            return;
    }
    target_retain(target);
    lock_take(&engine->targets_lock);
    target->next = engine->targets;
    engine->targets = target;
    lock_drop(&engine->targets_lock);
}

void target_detach(struct target *target) {
    target->link.is_broken = false;
    if (target->host ? !target->is_attached : target->link.fd < 0)
        return;
    link_close(target);
    leave_registry(target);
    for (struct cpu_capture *capture = target->captures; capture; capture = capture->next) {
        if (capture->state == CAPTURE_WAITING)
            cpu_capture_fail(capture, SONDE_TARGET_GONE, "the target ended before its clock ran");
        else if (capture->state != CAPTURE_REPORTING)
            capture->target_gone = true;
    }
    allocs_detach(target);
    heap_detach(target);
    clock_stopped(target);
    guest_rings_unmap(target);
}

void target_tick(struct target *target, uint64_t now_ns) {
    target->wake_ns = 0;
    if (target->link.frames.is_paused && target->link.fd >= 0)
        link_read(target);
    if (!target->has_hello && target->link.fd >= 0) {
        if (now_ns >= target->hello_deadline_ns)
            target->link.is_broken = true;
        target->wake_ns = earlier(target->wake_ns, target->hello_deadline_ns);
        return;
    }
    clock_tick(target, now_ns);
    uint64_t wake_ns = earlier(heap_tick(target, now_ns), allocs_tick(target, now_ns));
    for (struct cpu_capture *capture = target->captures; capture; capture = capture->next)
        wake_ns = earlier(wake_ns, cpu_capture_tick(capture, now_ns));
    if (target->clock == CLOCK_RUNNING || target->clock == CLOCK_STOPPING)
        wake_ns = earlier(wake_ns, target->next_drain_ns);
    if (target->clock == CLOCK_STARTING || target->clock == CLOCK_STOPPING)
        wake_ns = earlier(wake_ns, target->clock_deadline_ns);
    if (target->clock != CLOCK_IDLE && target->source->tick)
        wake_ns = earlier(wake_ns, target->source->tick(target, now_ns));
    if (target->host)
        wake_ns = earlier(wake_ns, host_tick(target, now_ns));
    /* This tick may itself have called target_wake_now, for example when the clock changed. */
    target->wake_ns = earlier(target->wake_ns, wake_ns);
}
