/* SPDX-License-Identifier: Apache-2.0 */
#include "service/export/unit.h"

#include "api/profile/event.h"
#include "api/profile/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sonde_profile_part part_of(size_t first_type, size_t second_type) {
    struct sonde_profile_part part = {.end = SIZE_MAX};
    if (first_type != SONDE_PROFILE_NO_TYPE)
        part.types[part.type_count++] = first_type;
    if (second_type != SONDE_PROFILE_NO_TYPE)
        part.types[part.type_count++] = second_type;
    return part;
}

struct sonde_profile_part unit_everything(const struct sonde_profile *profile) {
    struct sonde_profile_part part = {.type_count = sonde_profile_type_count(profile),
                                      .end = SIZE_MAX};
    for (size_t i = 0; i < part.type_count; i++)
        part.types[i] = i;
    return part;
}

/* Takes the profile. */
static void add_unit(struct export_unit units[UNITS_MAX], size_t *count,
                     const struct export_unit *unit) {
    if (sonde_profile_sample_count(unit->profile) == 0) {
        sonde_profile_destroy(unit->profile);
        return;
    }
    units[(*count)++] = *unit;
}

/* ---- Heaps ---- */

static struct unit_heap *find_heap(struct unit_maker *maker, const char *instance) {
    for (size_t i = 0; i < maker->heap_count; i++)
        if (strcmp(maker->heaps[i].instance, instance) == 0)
            return &maker->heaps[i];
    return NULL;
}

static void forget_old_heaps(struct unit_maker *maker, int64_t now_unix_ns) {
    size_t kept = 0;
    for (size_t i = 0; i < maker->heap_count; i++) {
        if (now_unix_ns - maker->heaps[i].unix_ns > UNIT_HEAP_NS)
            sonde_profile_destroy(maker->heaps[i].allocated);
        else
            maker->heaps[kept++] = maker->heaps[i];
    }
    maker->heap_count = kept;
}

/* NULL when there is no room. */
static struct unit_heap *add_heap(struct unit_maker *maker, const char *instance,
                                  int64_t now_unix_ns) {
    forget_old_heaps(maker, now_unix_ns);
    if (!maker->heaps)
        maker->heaps = calloc(UNIT_HEAPS, sizeof *maker->heaps);
    if (!maker->heaps || maker->heap_count == UNIT_HEAPS)
        return NULL;
    struct unit_heap *heap = &maker->heaps[maker->heap_count++];
    *heap = (struct unit_heap){0};
    snprintf(heap->instance, sizeof heap->instance, "%s", instance);
    return heap;
}

static sonde_err subtract(const struct sonde_profile *now, const struct sonde_profile *before,
                          struct sonde_profile **difference) {
    const struct sonde_profile_part everything = unit_everything(now);
    struct sonde_profile *both;
    *difference = NULL;
    sonde_err err = sonde_profile_copy_part(now, &everything, &both);
    if (!err)
        err = sonde_profile_merge(both, before, -1, NULL);
    if (!err) /* without the stacks that allocated nothing */
        err = sonde_profile_copy_part(both, &everything, difference);
    sonde_profile_destroy(both);
    return err;
}

/* Viewers show bytes first. */
static void set_info(struct export_unit *unit) {
    struct sonde_profile_info info = *sonde_profile_info(unit->profile);
    info.time_unix_ns = unit->begin_unix_ns;
    info.duration_ns = unit->duration_ns;
    info.default_type = (uint32_t)sonde_profile_type_count(unit->profile) - 1;
    sonde_profile_set_info(unit->profile, &info);
}

/* Keeps the sums for the next snapshot, and adds what was allocated since the last one. */
static sonde_err add_allocated(struct unit_maker *maker, const struct record *record,
                               const struct sonde_profile_part *part,
                               struct export_unit units[UNITS_MAX], size_t *count) {
    struct sonde_profile *now;
    sonde_err err = sonde_profile_copy_part(record->profile, part, &now);
    if (err)
        return err;
    size_t rows = sonde_profile_sample_count(now);
    struct unit_heap *heap = find_heap(maker, record->target->uuid);
    if (!heap && rows > 0 && rows <= UNIT_HEAP_ROWS)
        heap = add_heap(maker, record->target->uuid, record->end_unix_ns);
    if (!heap || rows == 0 || rows > UNIT_HEAP_ROWS) {
        sonde_profile_destroy(now);
        return SONDE_OK;
    }
    struct export_unit unit = {.record = record,
                               .name = sonde_events[SONDE_MEM_INUSE].pyroscope_name,
                               .begin_unix_ns = heap->unix_ns,
                               .duration_ns = record->end_unix_ns - heap->unix_ns};
    if (heap->allocated && heap->epoch == record->epoch)
        err = subtract(now, heap->allocated, &unit.profile);
    if (unit.profile) {
        set_info(&unit);
        add_unit(units, count, &unit);
    }
    sonde_profile_destroy(heap->allocated);
    heap->allocated = now;
    heap->epoch = record->epoch;
    heap->unix_ns = record->end_unix_ns;
    return err;
}

static sonde_err make_heap(struct unit_maker *maker, const struct record *record,
                           struct export_unit units[UNITS_MAX], size_t *count) {
    struct sonde_memory_types types;
    struct export_unit unit = {.record = record,
                               .name = sonde_events[SONDE_MEM_INUSE].pyroscope_name,
                               .begin_unix_ns = record->end_unix_ns};
    if (!sonde_memory_types(record->profile, &types))
        return SONDE_OK;
    const struct sonde_profile_part in_use = part_of(types.inuse_objects, types.inuse_space);
    const struct sonde_profile_part allocated = part_of(types.alloc_objects, types.alloc_space);
    sonde_err err = SONDE_OK;
    if (in_use.type_count)
        err = sonde_profile_copy_part(record->profile, &in_use, &unit.profile);
    if (!err && in_use.type_count) {
        set_info(&unit);
        add_unit(units, count, &unit);
    }
    if (!err && allocated.type_count)
        err = add_allocated(maker, record, &allocated, units, count);
    return err;
}

/* ---- Units ---- */

sonde_err units_make(struct unit_maker *maker, const struct record *record,
                     struct export_unit units[UNITS_MAX], size_t *count) {
    *count = 0;
    if (record->event == SONDE_MEM_INUSE)
        return make_heap(maker, record, units, count);
    const struct export_unit unit = {
        .record = record,
        .name = sonde_events[record->event].pyroscope_name,
        .profile = sonde_profile_share(record->profile),
        .begin_unix_ns = record->begin_unix_ns,
        .duration_ns = record->end_unix_ns - record->begin_unix_ns,
    };
    add_unit(units, count, &unit);
    return SONDE_OK;
}

void unit_finish(struct export_unit *unit) {
    sonde_profile_destroy(unit->profile);
    unit->profile = NULL;
}

void unit_maker_finish(struct unit_maker *maker) {
    for (size_t i = 0; i < maker->heap_count; i++)
        sonde_profile_destroy(maker->heaps[i].allocated);
    free(maker->heaps);
    *maker = (struct unit_maker){0};
}

sonde_err unit_halve(const struct export_unit *unit, int half, struct export_unit *part) {
    struct sonde_profile_part range = unit_everything(unit->profile);
    size_t count = sonde_profile_sample_count(unit->profile);
    range.first = half == 0 ? 0 : count / 2;
    range.end = half == 0 ? count / 2 : count;
    *part = *unit;
    return sonde_profile_copy_part(unit->profile, &range, &part->profile);
}
