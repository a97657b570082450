/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/host/stream/stream.h"

#include "service/engine/code/tables.h"
#include "service/engine/host/stream/waits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define MANY_EVENTS 256u /* opening so many takes so long that a builder does it */

static struct host *host_of(const struct host_stream *stream) {
    return stream->engine->host;
}

/* --- life cycle ------------------------------------------------------------------------------- */

/* Long copies cost little at low rates, and stacks that are cut at first stay in the profile. A
 * slow leak may never have enough walks to find that copies are too short. */
static uint32_t first_bytes(const struct target *target) {
    if (target->host->event.id == SONDE_GROWTH)
        return HOST_LEAK_STACK;
    bool is_counted = target->host->event.id != SONDE_ON_CPU; /* at first, perhaps each event */
    uint64_t period_ns = is_counted ? 0 : target->period_ns;
    uint64_t most = HOST_FIRST_RATE * period_ns / 1000000000u;
    uint32_t bytes = HOST_FIRST_STACK;
    while (bytes * 2 <= most && bytes < HOST_FIRST_MAX)
        bytes *= 2;
    return bytes;
}

static struct host_stream *create(struct engine *engine, bool is_all, const struct target *target) {
    struct host_stream *stream = calloc(1, sizeof *stream);
    struct unwind_walker *walker = unwind_walker_create();
    if (!stream || !walker) {
        unwind_walker_destroy(walker);
        free(stream);
        return NULL;
    }
    stream->engine = engine;
    stream->is_all = is_all;
    stream->counted.event = target->host->event;
    stream->stack_bytes =
        is_all && engine->host->stack_bytes ? engine->host->stack_bytes : first_bytes(target);
    stream->walker = walker;
    stream->targets_serial = stream->losses = 1;
    process_table_init(&stream->processes);
    park_init(&stream->park);
    stream->next = engine->host->streams;
    engine->host->streams = stream;
    return stream;
}

static void watch(struct host_stream *stream, struct rings *rings, bool is_watched) {
    struct host *host = host_of(stream);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = stream};
    int fd = host->ops->poll_fd(rings);
    if (fd >= 0)
        (void)epoll_ctl(host->epoll_fd, is_watched ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, fd, &event);
}

static void close_rings(struct host_stream *stream, struct rings *rings) {
    if (!rings)
        return;
    watch(stream, rings, false);
    host_of(stream)->ops->stop(rings);
    host_of(stream)->ops->close(rings);
}

void stream_free_if_over(struct host_stream *stream) {
    if (!stream->is_over || stream->jobs > 0)
        return;
    struct host_stream **at = &host_of(stream)->streams;
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    close_rings(stream, stream->rings);
    waits_destroy(stream);
    park_empty(stream);
    process_table_finish(&stream->processes);
    free(stream->watched);
    thread_names_finish(&stream->names);
    unwind_walker_destroy(stream->walker);
    free(stream);
}

/* --- targets ---------------------------------------------------------------------------------- */

static void wake_targets(struct host_stream *stream) {
    for (struct target *target = stream->targets; target; target = target->host->next)
        target_wake_now(target);
}

static struct host_stream *find_shared(const struct host *host) {
    struct host_stream *stream = host->streams;
    while (stream && (!stream->is_all || stream->is_over || stream->state == STREAM_FAILED ||
                      counted_is_on(stream)))
        stream = stream->next;
    return stream;
}

/* Whether the target's samples come from all CPUs: the clocks of all processes cost as much as
 * those of one, but an event that others cause often is only counted where somebody asks for it. */
static bool is_of_all(const struct target *target) {
    const struct host_target *host = target->host;
    if (host->event.id != SONDE_ON_CPU)
        return host->members == HOST_EVERY && !host->has_owner;
    return now_monotonic_ns() >= target->engine->host->all_refused_until_ns;
}

static void add_target(struct host_stream *stream, struct target *target) {
    target->host->stream = stream;
    target->host->next = stream->targets;
    stream->targets = target;
    stream->target_count++;
    stream->targets_serial++;
}

bool stream_join(struct target *target) {
    struct host *host = target->engine->host;
    bool is_all = is_of_all(target), is_counted = target->host->event.id != SONDE_ON_CPU;
    struct host_stream *stream = is_all && !is_counted ? find_shared(host) : NULL;
    bool is_new = !stream;
    if (is_new)
        stream = create(target->engine, is_all, target);
    if (!stream)
        return false;
    add_target(stream, target);
    if (is_new && !rings_open_job(stream)) {
        stream_leave(target);
        return false;
    }
    if (!is_new)
        stream_set_period(stream);
    waits_ask(stream);
    return true;
}

void stream_leave(struct target *target) {
    struct host_stream *stream = target->host->stream;
    if (!stream)
        return;
    struct target **at = &stream->targets;
    while (*at != target)
        at = &(*at)->host->next;
    *at = target->host->next;
    target->host->stream = NULL;
    target->host->next = NULL;
    stream->target_count--;
    stream->targets_serial++;
    stream->is_over = stream->target_count == 0;
    if (stream->is_over && stream->rings) {
        close_rings(stream, stream->rings);
        stream->rings = NULL;
    } else {
        stream_set_period(stream);
    }
    stream_free_if_over(stream);
}

/* The kernel does not allow all CPUs: gives each target a stream of its own. */
static void split(struct host_stream *stream, const struct sonde_diag *diag) {
    struct host *host = host_of(stream);
    host->all_refused_until_ns = now_monotonic_ns() + ENGINE_RIGHTS_NS; /* a setting may change */
    snprintf(host->all_refused, sizeof host->all_refused, "%s", diag->text);
    stream->jobs++; /* until all have left */
    while (stream->targets) {
        struct target *target = stream->targets;
        stream_leave(target);
        if (!stream_join(target))
            target->host->is_out_of_memory = true;
        target_wake_now(target);
    }
    stream->jobs--;
    stream_free_if_over(stream);
}

void stream_opened(struct host_stream *stream, sonde_err err, struct rings *rings,
                   const struct sonde_diag *diag) {
    if (stream->is_over) {
        if (rings)
            host_of(stream)->ops->close(rings);
        stream_free_if_over(stream);
        return;
    }
    if (err && stream->is_all && err != SONDE_OUT_OF_MEMORY && !counted_is_on(stream)) {
        split(stream, diag);
        return;
    }
    stream->state = err ? STREAM_FAILED : STREAM_RUNNING;
    stream->diag = *diag;
    stream->diag.code = err;
    if (!err) {
        stream->rings = rings;
        watch(stream, rings, true);
        host_of(stream)->ops->start(rings);
        stream->dithered_ns = stream->use.since_ns = now_monotonic_ns();
        stream->period_ns = 0;
        stream_set_period(stream);
        unseen_begin(stream);
        counted_begin(stream);
    }
    wake_targets(stream);
}

/* Counts the last records of the rings and closes them. */
static void retire(struct host_stream *stream) {
    struct host *host = host_of(stream);
    struct rings *old = stream->rings;
    if (!old)
        return;
    watch(stream, old, false);
    host->ops->stop(old);
    (void)stream_drain(stream, 0, stream->engine->last_ns);
    counted_retire(stream);
    stream->rings = NULL;
    stream->seen = (struct rings_counts){0};
    host->ops->close(old);
}

/* With a limit on a user's locked memory, there is room for one set of rings only. */
static bool has_room_for_both(const struct host_stream *stream) {
    return stream->is_all || (counted_is_on(stream) && stream->has_kernel);
}

static void resize(struct host_stream *stream, uint32_t stack_bytes) {
    stream->is_resizing = true;
    if (!has_room_for_both(stream))
        retire(stream);
    if (rings_resize_job(stream, stack_bytes))
        return;
    stream->is_resizing = false;
    stream->cannot_grow = true;
}

static void set_ring_period(struct host_stream *stream) {
    if (counted_is_on(stream))
        counted_set_period(stream, stream->period_ns);
    else
        host_of(stream)->ops->set_period(stream->rings, stream->period_ns);
}

void stream_resized(struct host_stream *stream, struct rings *rings, uint32_t stack_bytes) {
    struct host *host = host_of(stream);
    stream->is_resizing = false;
    stream->cannot_grow |= stack_bytes == stream->stack_bytes || !rings;
    if (stream->is_over) {
        if (rings)
            host->ops->close(rings);
        stream_free_if_over(stream);
        return;
    }
    if (rings) {
        host->ops->start(rings); /* before the others stop, so that nothing is missed */
        retire(stream);
        watch(stream, rings, true);
        stream->rings = rings;
        set_ring_period(stream);
        counted_begin(stream);
        stream->stack_bytes = stack_bytes;
        if (!counted_is_on(stream))
            host->stack_bytes = stack_bytes;
    } else if (!stream->rings) {
        stream->state = STREAM_FAILED;
    }
    stream->use = (struct copy_use){.since_ns = now_monotonic_ns()};
    wake_targets(stream);
}

/* --- period ----------------------------------------------------------------------------------- */

bool stream_has_many_events(const struct host_stream *stream) {
    return !stream->is_all && stream->seen.events > MANY_EVENTS && !stream->is_resizing;
}

void stream_reopen(struct host_stream *stream) {
    resize(stream, stream->stack_bytes);
}

void stream_set_period(struct host_stream *stream) {
    uint64_t period_ns = 0;
    for (const struct target *target = stream->targets; target; target = target->host->next) {
        if (target->period_ns && (period_ns == 0 || target->period_ns < period_ns))
            period_ns = target->period_ns;
    }
    if (period_ns == 0 || period_ns == stream->period_ns)
        return;
    stream->period_ns = period_ns;
    if (stream_has_many_events(stream))
        stream_reopen(stream);
    else if (stream->rings)
        set_ring_period(stream);
}

/* More than 1 % of the walks run off the copies. With few walks, it must be clearly more. */
static bool is_too_short(const struct copy_use *use) {
    return use->walks >= COPY_MIN_WALKS
               ? use->cut > use->walks / 100
               : use->walks >= COPY_FEW_WALKS && use->cut > use->walks / 20;
}

static uint32_t wanted_bytes(const struct host_stream *stream, uint64_t now_ns) {
    const struct copy_use *use = &stream->use;
    uint32_t bytes = stream->stack_bytes;
    if (is_too_short(use) && !stream->cannot_grow) {
        bytes *= use->cut > use->walks / 4 ? 4 : 2;
        return bytes < HOST_MAX_STACK ? bytes : HOST_MAX_STACK;
    }
    /* Between two sets of rings events are not counted. */
    bool may_shrink = !counted_is_on(stream) || has_room_for_both(stream);
    bool is_settled =
        may_shrink && use->walks >= COPY_MIN_WALKS && now_ns - use->since_ns > COPY_SHRINK_NS;
    if (is_settled && use->small >= use->walks - use->walks / 500 && bytes > HOST_MIN_STACK)
        return (bytes / 2 + 7) / 8 * 8 > HOST_MIN_STACK ? (bytes / 2 + 7) / 8 * 8 : HOST_MIN_STACK;
    return bytes;
}

/* Doubles the copies while too many walks run off them, or takes four times as much if very many
 * do; halves them when half would do for nearly all. */
static void adapt(struct host_stream *stream, uint64_t now_ns) {
    struct copy_use *use = &stream->use;
    uint32_t wanted = wanted_bytes(stream, now_ns);
    if (stream->is_resizing)
        return;
    if (wanted != stream->stack_bytes)
        resize(stream, wanted);
    else if (use->walks >= COPY_MIN_WALKS && now_ns - use->since_ns > COPY_SHRINK_NS)
        *use = (struct copy_use){.since_ns = now_ns};
}

void stream_tick(struct host_stream *stream, uint64_t now_ns) {
    if (stream->state != STREAM_RUNNING || !stream->rings)
        return;
    adapt(stream, now_ns);
    rings_look_job(stream, now_ns);
    if (counted_is_on(stream))
        counted_tick(stream, now_ns);
    /* A new period opens the clocks of threads again. */
    if (!stream->is_all || counted_is_on(stream) || now_ns - stream->dithered_ns < HOST_DITHER_NS)
        return;
    stream->dithered_ns = now_ns;
    host_of(stream)->ops->set_period(stream->rings, stream->period_ns);
}

/* --- draining --------------------------------------------------------------------------------- */

static bool is_over(void *context) {
    const struct host_stream *stream = context;
    return thread_cpu_ns() >= stream->drain_end_ns;
}

void stream_count_drop(struct host_stream *stream, int cause, uint64_t count) {
    if (count == 0)
        return;
    for (struct target *target = stream->targets; target; target = target->host->next)
        target->totals.drops[cause] += count;
    atomic_fetch_add_explicit(&stream->engine->drops[cause], count, memory_order_relaxed);
}

void stream_count_rings(struct host_stream *stream) {
    struct rings_counts now = {0}, *seen = &stream->seen;
    host_of(stream)->ops->counts(stream->rings, &now);
    stream_count_drop(stream, DROP_CORRUPT, now.invalid - seen->invalid);
    stream->is_busy = now.bytes - seen->bytes > now.ring_bytes * now.rings / ENGINE_DRAIN_PART;
    *seen = now;
}

/* The drain's own time is part of the cost of the samples. */
static void share_cost(struct host_stream *stream, uint64_t spent_ns) {
    uint64_t each_ns = spent_ns / (stream->samples ? stream->samples : 1);
    for (struct target *target = stream->targets; target; target = target->host->next) {
        target->totals.handler_count += target->host->samples;
        target->totals.handler_ns += target->host->samples * each_ns;
        target->host->samples = 0;
        /* Names can come late. A sample that waits for its unwind table must not wait for them. */
        if (target->stacks && !stream->park.first)
            (void)tables_load_names(target, target->stacks);
    }
    stream->samples = 0;
}

bool stream_drain(struct host_stream *stream, uint64_t until_ns, uint64_t limit_ns) {
    if (!stream->rings || stream->state != STREAM_RUNNING)
        return false;
    uint64_t began_ns = thread_cpu_ns();
    stream->drain_end_ns = began_ns + limit_ns;
    stream->drained_ns = now_monotonic_ns();
    stream->has_more =
        host_of(stream)->ops->drain(stream->rings, until_ns, stream_on_record, stream, is_over);
    stream->has_more |= waits_drain(stream, is_over);
    if (!stream->has_more && until_ns > stream->drained_to_ns)
        stream->drained_to_ns = until_ns;
    park_retry(stream, is_over);
    stream_count_rings(stream);
    share_cost(stream, thread_cpu_ns() - began_ns);
    return stream->has_more;
}

/* perf reports that a ring is half full to the first who asks, and that was the engine's epoll. So
 * which stream it was is not known here. */
void host_on_readable(struct engine *engine) {
    struct epoll_event events[16];
    (void)epoll_wait(engine->host->epoll_fd, events, 16, 0);
    struct host_stream *stream = engine->host->streams, *next;
    for (; stream; stream = next) {
        next = stream->next;
        (void)stream_drain(stream, now_monotonic_ns(), engine->turn_ns);
    }
}
