/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine thread: sockets, messages and one timer. The timer is set to the earliest deadline of
 * any target, and is off when there is none, so an idle engine is never woken. Targets are freed
 * only at the end of a round, because a later event of the same round may refer to them. */
#include "service/engine/loop/loop.h"

#include "service/engine/capture/cpu_capture.h"
#include "service/engine/host/host.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define EVENTS 64

static void run_messages(struct engine *engine) {
    lock_take(&engine->messages_lock);
    struct message *message = engine->first_message;
    engine->first_message = NULL;
    engine->last_message = &engine->first_message;
    lock_drop(&engine->messages_lock);
    host_adopt(engine); /* a message may be about a newcomer */
    while (message) {
        struct message *next = message->next;
        message->run(engine, message);
        message = next;
    }
}

static void set_timer(struct engine *engine, uint64_t at_ns) {
    if (at_ns == engine->timer_ns)
        return;
    struct itimerspec when = {.it_value = {.tv_sec = (time_t)(at_ns / 1000000000ull),
                                           .tv_nsec = (long)(at_ns % 1000000000ull)}};
    timerfd_settime(engine->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
    engine->timer_ns = at_ns;
}

static void read_counter(int fd) {
    uint64_t count;
    ssize_t got = read(fd, &count, sizeof count);
    (void)got;
}

static void on_event(struct engine *engine, const struct epoll_event *event) {
    if (event->data.ptr == &engine->event_fd) {
        read_counter(engine->event_fd);
    } else if (event->data.ptr == &engine->timer_fd) {
        read_counter(engine->timer_fd);
        engine->timer_ns = 0;
    } else if (event->data.ptr == &engine->listen_fd) {
        link_accept(engine);
    } else if (event->data.ptr == &engine->host) {
        host_on_readable(engine);
    } else {
        struct target *target = event->data.ptr;
        if (target->host) {
            host_on_exit(target);
            return;
        }
        if (event->events & EPOLLOUT)
            link_write(target);
        /* If frames are left of its last turn, the next one is in target_tick. */
        if ((event->events & (EPOLLIN | EPOLLHUP | EPOLLERR)) && !target->guest->frames.is_paused)
            link_read(target, guest_on_message);
    }
}

static void begin_end(struct engine *engine) {
    engine->is_shutting_down = true;
    for (struct target *target = engine->targets; target; target = target->next) {
        for (struct cpu_capture *capture = target->captures; capture; capture = capture->next)
            cpu_capture_fail(capture, SONDE_UNAVAILABLE, "the service is shutting down");
        target_detach(target);
    }
}

/* Whether the target's connection, or its process, and its captures have ended. */
static bool is_dead(const struct target *target) {
    bool is_here = target->host ? target->is_attached : target->guest->fd >= 0;
    return !is_here && !target->captures && !target->windows;
}

static bool is_broken(const struct target *target) {
    return target->guest && target->guest->is_broken;
}

/* Frees the dead targets. */
static void sweep(struct engine *engine) {
    struct target *dead = NULL;
    lock_take(&engine->targets_lock);
    for (struct target **at = &engine->targets; *at;) {
        struct target *target = *at;
        if (!is_dead(target)) {
            at = &target->next;
            continue;
        }
        *at = target->next;
        target->next = dead;
        dead = target;
    }
    lock_drop(&engine->targets_lock);
    while (dead) {
        struct target *next = dead->next;
        target_empty(dead);
        target_release(dead);
        dead = next;
    }
}

/* Handles the deadlines of all targets; returns the next one, 0 = none. */
static uint64_t tick_targets(struct engine *engine, uint64_t now_ns) {
    uint64_t earliest = 0;
    bool has_dead = false;
    for (struct target *target = engine->targets; target; target = target->next) {
        if (is_broken(target))
            target_detach(target);
        if (target->wake_ns != 0 && target->wake_ns <= now_ns)
            target_tick(target, now_ns);
        if (is_broken(target))
            target_detach(target);
        if (target->wake_ns != 0 && (earliest == 0 || target->wake_ns < earliest))
            earliest = target->wake_ns;
        has_dead |= is_dead(target);
    }
    if (has_dead)
        sweep(engine);
    return earliest;
}

bool engine_round(struct engine *engine, int timeout_ms) {
    struct epoll_event events[EVENTS];
    int count = epoll_wait(engine->epoll_fd, events, EVENTS, timeout_ms);
    memset(engine->user_spent_ns, 0, sizeof engine->user_spent_ns);
    for (int i = 0; i < count; i++)
        on_event(engine, &events[i]);
    run_messages(engine);
    if (engine->is_ending && !engine->is_shutting_down)
        begin_end(engine);
    set_timer(engine, tick_targets(engine, now_monotonic_ns()));
    return !engine->is_shutting_down || engine->targets || atomic_load(&engine->jobs_running) > 0;
}

void *engine_run(void *context) {
    while (engine_round(context, -1)) {
    }
    return NULL;
}
