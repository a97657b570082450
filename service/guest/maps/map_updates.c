/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/maps/map_updates.h"

#include "service/guest/guest.h"
#include "service/guest/link.h"
#include "service/guest/maps/maps_watch.h"
#include "service/guest/maps/module_map.h"
#include "service/guest/quiescence.h"

#include <string.h>
#include <time.h>

#define MAPPINGS_PER_FRAME 16u
#define PATIENCE           10 /* ms, for handlers that use the areas of the reading before last */

static struct {
    struct maps current, spare;
    uint64_t generation;
    uint32_t closes;   /* handler_state.closes before the last reading */
    bool is_forgotten; /* the next reading counts as changed */
    int64_t cost_ns;   /* of the last reading */
    struct maps_watch watch;
} updates;

int map_updates_open(void) {
    return maps_init(&updates.current);
}

const struct maps *map_updates_maps(void) {
    return &updates.current;
}

static void fill_mapping(sonde_guest_v1_Mapping *mapping, const struct maps_module *module) {
    mapping->start = module->start;
    mapping->end = module->end;
    mapping->offset = module->offset;
    mapping->device_major = module->device_major;
    mapping->device_minor = module->device_minor;
    mapping->inode = module->inode;
    mapping->born = module->born;
    memcpy(mapping->path, module->path, sizeof mapping->path);
}

static void send_maps(void) {
    const struct maps *current = &updates.current;
    bool is_last = false;
    for (uint32_t at = 0; !is_last;) {
        link_out *out = link_message();
        sonde_guest_v1_Maps *maps = &out->message.maps;
        out->which_message = sonde_guest_v1_FromGuest_maps_tag;
        maps->generation = updates.generation;
        maps->closes = updates.closes;
        for (; at < current->module_count && maps->mappings_count < MAPPINGS_PER_FRAME; at++)
            fill_mapping(&maps->mappings[maps->mappings_count++], &current->modules[at]);
        maps->last = is_last = at >= current->module_count;
        if (!link_send(-1))
            return;
    }
}

/* Handlers read the areas of the last reading and may still read those of the one before, which are
 * overwritten here. */
static bool read_spare(void) {
    return quiescence_wait(PATIENCE) && maps_init(&updates.spare) == 0 &&
           maps_read(&updates.spare) == 0;
}

/* The new reading is in `spare`. If a walk has met a pc of a library that may have been closed
 * again, later libraries at that address must not be taken for it, so a new generation begins even
 * if the modules are the same. */
static bool is_new_generation(uint32_t closes) {
    bool may_have_missed = atomic_load(&handler_state.missed) && closes != updates.closes;
    return updates.is_forgotten || may_have_missed ||
           !maps_same_modules(&updates.current, &updates.spare);
}

bool map_updates_read(bool force) {
    int64_t begin = handler_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    atomic_store(&guest.reread_maps, false);
    maps_watch_before(&updates.watch);
    uint32_t closes = atomic_load(&handler_state.closes);
    if (!read_spare())
        return false;
    updates.cost_ns = handler_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
    maps_set_born(&updates.spare, &updates.current, updates.generation + 1);
    bool has_changed = is_new_generation(closes) || force;
    updates.closes = closes;
    updates.is_forgotten = false;
    struct maps swap = updates.current;
    updates.current = updates.spare;
    updates.spare = swap;
    atomic_store(&handler_state.areas, updates.current.areas);
    if (!has_changed) {
        module_map_set_closes(closes);
        return true;
    }
    module_map_collect(quiescence_reached());
    bool is_set = module_map_set_modules(&updates.current, ++updates.generation) == 0;
    updates.is_forgotten = !is_set || module_map_publish() != 0; /* the next reading tries again */
    if (!updates.is_forgotten) {
        module_map_set_closes(closes);
        send_maps();
    }
    return true;
}

static struct maps_reasons reasons(bool running) {
    return (struct maps_reasons){.missed = atomic_load(&handler_state.missed) != 0,
                                 .closed = atomic_load(&guest.reread_maps),
                                 .running = running};
}

void map_updates_plan(bool running) {
    maps_watch_begin(&updates.watch, handler_clock_ns(CLOCK_MONOTONIC), updates.cost_ns,
                     reasons(running));
    atomic_store(&handler_state.missed, 0);
    atomic_store(&handler_state.wants_miss, 1);
}

int64_t map_updates_due(bool running) {
    return maps_watch_due(&updates.watch, reasons(running));
}

void map_updates_tick(int64_t now, bool running) {
    if (!maps_watch_wants(&updates.watch, now, reasons(running)))
        return;
    map_updates_read(false);
    map_updates_plan(running);
}

bool map_updates_is_current(uint64_t generation) {
    return generation == updates.generation;
}

void map_updates_publish(void) {
    module_map_collect(quiescence_reached());
    module_map_set_complete();
    module_map_publish();
}

void map_updates_forget(void) {
    updates.is_forgotten = true;
}
