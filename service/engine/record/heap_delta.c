/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/record/heap_delta.h"

#include "api/profile/heap/memory.h"

#include <stdatomic.h>
#include <stdlib.h>

#define HEAP_DELTA_STEP_NS 1000000000ll

/* Viewers show bytes first, and a profile has the time of what it shows. */
static sonde_err copy(const struct sonde_profile *snapshot, struct sonde_profile_part *part,
                      int64_t begin_unix_ns, int64_t duration_ns, struct sonde_profile **copied) {
    sonde_err err = sonde_profile_copy_part(snapshot, part, copied);
    if (err)
        return err;
    struct sonde_profile_info info = *sonde_profile_info(*copied);
    info.time_unix_ns = begin_unix_ns;
    info.duration_ns = duration_ns;
    info.default_type = (uint32_t)part->type_count - 1;
    sonde_profile_set_info(*copied, &info);
    return SONDE_OK;
}

/* False if the profile does not have the bytes. */
static bool part_of(size_t objects, size_t space, struct sonde_profile_part *part) {
    *part = (struct sonde_profile_part){.end = SIZE_MAX};
    if (objects != SONDE_PROFILE_NO_TYPE)
        part->types[part->type_count++] = objects;
    if (space != SONDE_PROFILE_NO_TYPE)
        part->types[part->type_count++] = space;
    return space != SONDE_PROFILE_NO_TYPE;
}

sonde_err heap_delta_live(const struct sonde_profile *snapshot, int64_t unix_ns,
                          struct sonde_profile **live) {
    struct sonde_memory_types types;
    struct sonde_profile_part part;
    *live = NULL;
    if (!sonde_memory_types(snapshot, &types) ||
        !part_of(types.inuse_objects, types.inuse_space, &part))
        return SONDE_OK;
    return copy(snapshot, &part, unix_ns, 0, live);
}

static bool make_room(struct heap_delta *delta, size_t stacks) {
    uint32_t left = atomic_load(delta->room);
    if (stacks > HEAP_DELTA_STACKS)
        return false;
    do {
        if (stacks > left)
            return false;
    } while (!atomic_compare_exchange_weak(delta->room, &left, left - (uint32_t)stacks));
    delta->reserved = (uint32_t)stacks;
    return true;
}

/* Dates, so that the time begins where the last one ended, unless the date was set in between. */
static int64_t length_of(const struct heap_delta *delta, int64_t unix_ns, int64_t now_ns) {
    int64_t by_date = unix_ns - delta->unix_ns, by_clock = now_ns - delta->at_ns;
    return llabs(by_date - by_clock) < HEAP_DELTA_STEP_NS ? by_date : by_clock;
}

sonde_err heap_delta_allocated(struct heap_delta *delta, const struct sonde_profile *snapshot,
                               uint64_t epoch, int64_t unix_ns, int64_t now_ns,
                               int64_t *since_unix_ns, struct sonde_profile **allocated) {
    struct sonde_memory_types types;
    struct sonde_profile_part part;
    sonde_err err = SONDE_OK;
    bool has_last = delta->sums.keys && delta->epoch == epoch;
    *allocated = NULL;
    int64_t length_ns = length_of(delta, unix_ns, now_ns);
    *since_unix_ns = unix_ns - length_ns;
    if (!sonde_memory_types(snapshot, &types) ||
        !part_of(types.alloc_objects, types.alloc_space, &part))
        return SONDE_OK;
    part.before = &delta->sums;
    if (has_last && part.type_count == delta->sums.type_count)
        err = copy(snapshot, &part, *since_unix_ns, length_ns, allocated);
    delta->epoch = epoch;
    delta->unix_ns = unix_ns;
    delta->at_ns = now_ns;
    heap_delta_finish(delta);
    if (!err && make_room(delta, sonde_profile_sample_count(snapshot)))
        err = sonde_profile_sums_take(&delta->sums, snapshot, part.types, part.type_count);
    if (err) {
        sonde_profile_destroy(*allocated);
        *allocated = NULL;
    }
    return err;
}

void heap_delta_finish(struct heap_delta *delta) {
    sonde_profile_sums_finish(&delta->sums);
    atomic_fetch_add(delta->room, delta->reserved);
    delta->reserved = 0;
}
