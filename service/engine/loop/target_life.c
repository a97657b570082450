/* SPDX-License-Identifier: Apache-2.0
 *
 * What the deadlines and the end of a target mean for all that belongs to it. */
#include "service/engine/loop/loop.h"

#include "service/engine/allocs/allocs.h"
#include "service/engine/capture/clock.h"
#include "service/engine/capture/cpu_capture.h"
#include "service/engine/heap/heap_state.h"
#include "service/engine/host/host.h"
#include "service/engine/targets/watch.h"

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

void target_detach(struct target *target) {
    if (target->guest)
        target->guest->is_broken = false;
    if (target->host ? !target->is_attached : target->guest->fd < 0)
        return;
    if (target->guest)
        link_close(target);
    leave_registry(target);
    for (struct cpu_capture *capture = target->captures; capture; capture = capture->next) {
        if (capture->state == CAPTURE_WAITING)
            cpu_capture_fail(capture, SONDE_TARGET_GONE, "the target ended before its clock ran");
        else if (capture->state != CAPTURE_REPORTING) {
            capture->target_gone = true;
            capture->target_execed = target->host && target->host->has_execed;
        }
    }
    allocs_detach(target);
    heap_detach(target);
    clock_stopped(target);
    if (target->guest)
        guest_rings_unmap(target);
}

/* Reads the frames that are left of its last turn. False: the guest has not yet said Hello. */
static bool tick_guest(struct target *target, uint64_t now_ns) {
    struct guest_link *link = target->guest;
    if (link->frames.is_paused && link->fd >= 0)
        link_read(target, guest_on_message);
    if (link->has_hello || link->fd < 0)
        return true;
    link->is_broken |= now_ns >= link->hello_deadline_ns;
    target->wake_ns = earlier(target->wake_ns, link->hello_deadline_ns);
    return false;
}

void target_tick(struct target *target, uint64_t now_ns) {
    target->wake_ns = 0;
    if (target->guest && !tick_guest(target, now_ns))
        return;
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
    if (target->host && host_has_ended(target, now_ns))
        target_detach(target);
    else if (target->host)
        wake_ns = earlier(wake_ns, host_tick(target, now_ns));
    /* This tick may itself have called target_wake_now, for example when the clock changed. */
    target->wake_ns = earlier(target->wake_ns, wake_ns);
}
