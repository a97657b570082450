/* SPDX-License-Identifier: Apache-2.0
 *
 * Polled allocations. A key of a target has one window that runs. A call starts the next window,
 * and the window before ends as soon as the next one has begun, so that nothing is missed; what is
 * allocated in between (microseconds) is in both.
 *
 *     call 1   window A runs            ──▶ an empty profile
 *     call 2   window B runs, A ends    ──▶ A's profile
 *     no call  B's lease ends           ──▶ the key is forgotten
 *
 * A poll is on its target's list while its newest window runs, and each window holds a reference to
 * it. What several threads touch is guarded by the engine's session_lock. */
#include "service/engine/allocs/allocs.h"
#include "service/engine/memory_report/alloc_report.h"
#include "service/engine/report/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct poll_window;

struct allocs_poll {
    struct allocs_poll *next;
    uint32_t refs; /* the list's, and one per window */
    char key[ENGINE_ALLOCS_POLL_KEY + 1];
    struct poll_window *newest;
    struct sonde_profile *total; /* of the windows that have ended; NULL = not asked for */
    int64_t start_unix_ns;       /* of the first window */
};

/* The call that a window answers. */
struct asker {
    struct engine_capture_events events;
    void *context;
    bool is_waiting, wants_total;
};

struct poll_window {
    struct target *target; /* retained */
    struct allocs_poll *poll;
    struct engine_capture *capture;
    struct poll_window *previous; /* to end when this one begins; NULL = none, or it has ended */
    struct poll_window *next;
    bool has_begun;
    struct asker on_begin; /* of the first window: gets an empty profile */
    struct asker on_end;
    struct sonde_profile *profile;
    struct engine_metadata metadata;
};

/* ---- Ends ---- */

/* With session_lock held. */
static void poll_release(struct allocs_poll *poll) {
    if (--poll->refs > 0)
        return;
    sonde_profile_destroy(poll->total);
    free(poll);
}

static void forget(struct target *target, struct allocs_poll *poll) {
    for (struct allocs_poll **at = &target->polls; *at; at = &(*at)->next) {
        if (*at != poll)
            continue;
        *at = poll->next;
        poll_release(poll);
        return;
    }
}

static void answer(const struct asker *asker, struct sonde_profile *profile,
                   const struct engine_metadata *metadata, sonde_err err,
                   const struct sonde_diag *diag) {
    if (!err && asker->is_waiting)
        asker->events.on_profile(asker->context, profile, metadata);
    else
        sonde_profile_destroy(profile);
    if (asker->is_waiting)
        asker->events.on_end(asker->context, err, diag);
}

static void answer_empty(const struct asker *asker) {
    if (!asker->is_waiting)
        return;
    struct engine_metadata metadata = {0};
    struct sonde_diag diag = {0};
    struct sonde_profile *profile = alloc_report_empty();
    metadata.start_unix_ns = metadata.end_unix_ns = now_unix_ns();
    sonde_err err = profile ? SONDE_OK : sonde_fail(&diag, SONDE_OUT_OF_MEMORY, "out of memory");
    answer(asker, profile, &metadata, err, &diag);
}

/* Adds the window to the total, and replaces its profile by the total if that was asked for. A
 * total is a snapshot: it has no duration. */
static sonde_err add_to_total(struct poll_window *window, struct sonde_diag *diag) {
    struct allocs_poll *poll = window->poll;
    sonde_err err = sonde_profile_merge(poll->total, window->profile, 1, diag);
    if (err == SONDE_TOO_LARGE)
        return sonde_fail(diag, err,
                          "the allocations since the first call exceed %u MiB; the next call "
                          "starts again",
                          ENGINE_ALLOCS_POLL_BYTES >> 20);
    if (err || !window->on_end.wants_total)
        return err;
    struct sonde_profile_info info = *sonde_profile_info(window->profile);
    info.duration_ns = 0;
    info.time_unix_ns = window->metadata.end_unix_ns;
    sonde_profile_set_info(poll->total, &info);
    sonde_profile_destroy(window->profile);
    window->profile = NULL;
    window->metadata.start_unix_ns = poll->start_unix_ns;
    return report_dup(poll->total, &window->profile, diag);
}

static void on_profile(void *context, struct sonde_profile *profile,
                       const struct engine_metadata *metadata) {
    struct poll_window *window = context;
    window->profile = profile;
    window->metadata = *metadata;
}

/* With session_lock held. */
static void end_previous(struct poll_window *window) {
    if (!window->previous)
        return;
    engine_capture_finish(window->previous->capture);
    window->previous->next = NULL;
    window->previous = NULL;
}

/* With session_lock held. A total that failed ends its poll, so the window that runs is no use. */
static sonde_err end_window(struct poll_window *window, sonde_err err, struct sonde_diag *diag) {
    struct allocs_poll *poll = window->poll;
    bool is_newest = poll->newest == window;
    if (!err && poll->total)
        err = add_to_total(window, diag);
    if (err || is_newest)
        forget(window->target, poll);
    if (err && !is_newest && poll->newest)
        engine_capture_finish(poll->newest->capture);
    if (is_newest)
        poll->newest = NULL;
    if (window->next)
        window->next->previous = NULL;
    end_previous(window);
    poll_release(poll);
    return err;
}

static void on_end(void *context, sonde_err err, const struct sonde_diag *diag) {
    struct poll_window *window = context;
    struct target *target = window->target;
    struct sonde_diag own = diag ? *diag : (struct sonde_diag){0};
    lock_take(&target->engine->session_lock);
    err = end_window(window, err, &own);
    struct engine_capture *capture = window->capture;
    lock_drop(&target->engine->session_lock);
    if (!window->has_begun && err)
        answer(&window->on_begin, NULL, NULL, err, &own);
    else if (!window->has_begun)
        answer_empty(&window->on_begin);
    answer(&window->on_end, window->profile, &window->metadata, err, &own);
    engine_capture_release(capture);
    free(window);
    target_release(target);
}

static void on_begin(void *context) {
    struct poll_window *window = context;
    struct target *target = window->target;
    lock_take(&target->engine->session_lock);
    window->has_begun = true;
    end_previous(window);
    lock_drop(&target->engine->session_lock);
    answer_empty(&window->on_begin);
}

/* ---- Calls. All with session_lock held. ---- */

static sonde_err start_window(struct target *target, struct allocs_poll *poll,
                              const struct engine_allocs_spec *wanted, struct poll_window **created,
                              struct sonde_diag *diag) {
    static const struct engine_capture_events events = {
        .on_profile = on_profile, .on_end = on_end, .on_begin = on_begin};
    struct engine_allocs_spec spec = *wanted;
    struct poll_window *window = *created = calloc(1, sizeof *window);
    if (!window)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    if (spec.duration_ms == 0)
        spec.duration_ms = ENGINE_ALLOCS_POLL_MS;
    spec.progress_ms = 0;
    spec.is_endless = true;
    sonde_err err = allocs_create(target, &spec, &events, window, &window->capture, diag);
    if (err) {
        free(window);
        return err;
    }
    window->target = target_retain(target);
    window->poll = poll;
    poll->refs++;
    return SONDE_OK;
}

static sonde_err add_poll(struct target *target, const char *key, struct allocs_poll **created,
                          struct sonde_diag *diag) {
    uint32_t count = 0;
    for (const struct allocs_poll *poll = target->polls; poll; poll = poll->next)
        count++;
    if (count >= ENGINE_ALLOCS_POLLS)
        return sonde_fail(diag, SONDE_TOO_MANY_CAPTURES,
                          "%u clients poll the allocations of %s; the limit is %u. One that stops "
                          "is forgotten after %u minutes",
                          count, target->info.name, ENGINE_ALLOCS_POLLS,
                          ENGINE_ALLOCS_POLL_MS / 60000);
    struct allocs_poll *poll = *created = calloc(1, sizeof *poll);
    if (!poll)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    snprintf(poll->key, sizeof poll->key, "%s", key);
    poll->refs = 1;
    poll->start_unix_ns = now_unix_ns();
    poll->next = target->polls;
    target->polls = poll;
    return SONDE_OK;
}

static sonde_err keep_total(struct allocs_poll *poll, bool is_total, struct sonde_diag *diag) {
    static const struct sonde_value_type types[] = {{"alloc_objects", "count"},
                                                    {"alloc_space", "bytes"}};
    if (!is_total || poll->total)
        return SONDE_OK;
    poll->total = sonde_profile_create(types, 2, ENGINE_ALLOCS_POLL_BYTES);
    return poll->total ? SONDE_OK : sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
}

static sonde_err ask(struct target *target, const struct engine_allocs_spec *spec, const char *key,
                     const struct asker *asker, struct sonde_diag *diag) {
    struct allocs_poll *poll = target->polls;
    struct poll_window *window;
    sonde_err err = SONDE_OK;
    while (poll && strcmp(poll->key, key) != 0)
        poll = poll->next;
    if (!poll)
        err = add_poll(target, key, &poll, diag);
    if (!err)
        err = keep_total(poll, asker->wants_total, diag);
    if (!err)
        err = start_window(target, poll, spec, &window, diag);
    if (err && poll && !poll->newest)
        forget(target, poll);
    if (err)
        return err;
    window->previous = poll->newest;
    poll->newest = window;
    if (window->previous) {
        window->previous->on_end = *asker;
        window->previous->next = window;
    } else {
        window->on_begin = *asker;
    }
    capture_launch(window->capture);
    return SONDE_OK;
}

sonde_err engine_allocs_poll(struct engine *engine, const struct engine_allocs_spec *spec,
                             const char *key, bool is_total,
                             const struct engine_capture_events *events, void *context,
                             struct sonde_diag *diag) {
    const struct asker asker = {*events, context, true, is_total};
    struct target *target;
    if (strlen(key) > ENGINE_ALLOCS_POLL_KEY)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "poll_key: longer than %u bytes",
                          ENGINE_ALLOCS_POLL_KEY);
    sonde_err err = allocs_find(engine, &spec->target, &target, diag);
    if (err)
        return err;
    lock_take(&engine->session_lock);
    err = ask(target, spec, key, &asker, diag);
    lock_drop(&engine->session_lock);
    target_release(target);
    return err;
}
