/* SPDX-License-Identifier: Apache-2.0
 *
 * Snapshots of the heap of a target, each with what was allocated since the one before. */
#include "service/engine/record/record_state.h"

#include "api/base/clock.h"
#include "service/engine/heap/heap.h"

static void end_heap(struct recorded *recorded) {
    struct recorder *recorder = recorded->recorder;
    lock_take(&recorder->lock);
    recorded->is_heap_asked = false;
    record_end_request(recorded);
    lock_drop(&recorder->lock);
}

/* Takes the profile, which may be NULL. */
static void deliver(struct recorded *recorded, enum sonde_event_id event,
                    struct sonde_profile *profile, int64_t begin_unix_ns, int64_t end_unix_ns) {
    const struct record_options *options = &recorded->recorder->options;
    const struct record record = {.event = event,
                                  .target = &recorded->target,
                                  .cgroup = recorded->cgroup,
                                  .profile = profile,
                                  .begin_unix_ns = begin_unix_ns,
                                  .end_unix_ns = end_unix_ns,
                                  .clock = "",
                                  .weight = recorded->choice.weight};
    if (profile)
        options->on_record(options->context, &record);
}

static void record_heap(struct recorded *recorded, const struct engine_heap_result *result) {
    struct sonde_profile *live, *allocated = NULL;
    int64_t since_unix_ns;
    if (!heap_delta_live(result->profile, result->unix_ns, &live)) {
        if (live)
            recorded->has_heap = true;
        deliver(recorded, SONDE_MEM_INUSE, live, result->unix_ns, result->unix_ns);
    }
    if (!heap_delta_allocated(&recorded->heap, result->profile, result->epoch, result->unix_ns,
                              result->monotonic_ns, &since_unix_ns, &allocated))
        deliver(recorded, SONDE_MEM_ALLOC, allocated, since_unix_ns, result->unix_ns);
}

static void on_snapshot(void *context, sonde_err err, const struct sonde_diag *diag,
                        struct engine_heap_result *result) {
    struct recorded *recorded = context;
    if (!err) {
        record_heap(recorded, result);
        sonde_profile_destroy(result->profile);
        sonde_buf_finish(&result->text);
    }
    end_heap(recorded);
}

/* A dump is taken only if profiling is active: without, the allocator would write one in vain. */
static void on_heap_state(void *context, sonde_err err, const struct sonde_diag *diag,
                          const struct engine_heap_state *state,
                          const struct engine_heap_dump *dumps, size_t dump_count) {
    struct recorded *recorded = context;
    const struct engine_heap_query query = {.target = {.uuid = recorded->target.uuid},
                                            .require_active = true};
    bool is_active = !err && state->active;
    if (!is_active || engine_heap_get(recorded->recorder->engine, &query, on_snapshot, recorded,
                                      NULL) != SONDE_OK)
        end_heap(recorded);
}

/* A process that has ended has nothing in use: without this, its last snapshot would count until
 * the end of each range. */
void record_heap_end(struct recorded *recorded) {
    const struct sonde_value_type *bytes = &sonde_events[SONDE_MEM_INUSE].amount.type;
    int64_t now = clock_ns(CLOCK_REALTIME);
    if (recorded->has_heap)
        deliver(recorded, SONDE_MEM_INUSE, sonde_profile_create(bytes, 1, 0), now, now);
}

/* With the lock held. */
void record_heap_ask(struct recorded *recorded) {
    const struct engine_heap_request request = {.verb = ENGINE_HEAP_STATUS,
                                                .target = {.uuid = recorded->target.uuid}};
    recorded->is_heap_asked = true;
    record_begin_request(recorded);
    if (engine_heap(recorded->recorder->engine, &request, on_heap_state, recorded, NULL) ==
        SONDE_OK)
        return;
    recorded->is_heap_asked = false;
    record_end_request(recorded);
}
