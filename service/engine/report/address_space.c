/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/report/address_space.h"

#include "api/base/array.h"
#include "api/text/maps_line.h"

#include <stdlib.h>
#include <string.h>

struct mapping *mapping_create(const struct symbol_mapping *from) {
    struct mapping *mapping = calloc(1, sizeof *mapping);
    if (!mapping)
        return NULL;
    mapping->refs = 1;
    mapping->start = from->start;
    mapping->end = from->end;
    mapping->offset = from->offset;
    mapping->inode = from->inode;
    mapping->inode_generation = from->inode_generation;
    mapping->device_major = from->device_major;
    mapping->device_minor = from->device_minor;
    size_t all = strlen(from->path), len = sonde_maps_path_len(from->path, all);
    mapping->is_deleted = from->is_deleted || len < all;
    memcpy(mapping->path, from->path, len < sizeof mapping->path ? len : sizeof mapping->path - 1);
    return mapping;
}

struct mapping *mapping_create_kernel(void) {
    static const struct symbol_mapping kernel = {
        .start = 0x7fff800000000000, .end = 0x7fffffffffffffff, .path = SYMBOL_KERNEL_PATH};
    struct mapping *mapping = mapping_create(&kernel);
    if (mapping)
        mapping->is_kernel = true;
    return mapping;
}

struct mapping *mapping_retain(struct mapping *mapping) {
    atomic_fetch_add_explicit(&mapping->refs, 1, memory_order_relaxed);
    return mapping;
}

void mapping_release(struct mapping *mapping) {
    if (!mapping || atomic_fetch_sub_explicit(&mapping->refs, 1, memory_order_acq_rel) != 1)
        return;
    symbol_module_release(mapping->module);
    if (mapping->origin)
        mapping_release(mapping->origin);
    if (mapping->view)
        unwind_views_release(mapping->views, mapping->view);
    memory_share_finish(&mapping->share);
    free(mapping->program);
    free(mapping->problem);
    free(mapping);
}

void mapping_set_problem(struct mapping *mapping, sonde_err err, const struct sonde_diag *diag) {
    if (!err || err == SONDE_NOT_AVAILABLE || err == SONDE_INVALID_ARGUMENT)
        return;
    char *none = NULL, *text = strdup(sonde_diag_text(diag, err));
    if (!atomic_compare_exchange_strong_explicit(&mapping->problem, &none, text,
                                                 memory_order_acq_rel, memory_order_acquire))
        free(text);
}

const char *mapping_problem(const struct mapping *mapping) {
    return atomic_load_explicit(&mapping->problem, memory_order_acquire);
}

struct symbol_module *mapping_module(const struct mapping *mapping) {
    return atomic_load_explicit(&mapping->module, memory_order_acquire);
}

enum symbol_module_kind mapping_kind(const struct mapping *mapping) {
    const struct symbol_module *module = mapping_module(mapping);
    return module ? symbol_module_kind(module) : SYMBOL_MODULE_NONE;
}

const char *mapping_shown_path(const struct mapping *mapping) {
    return mapping_module(mapping) && mapping->program ? mapping->program : mapping->path;
}

const char *mapping_program_name(const struct mapping *mapping) {
    const char *program = mapping_module(mapping) ? mapping->program : NULL;
    return program ? strrchr(program, '/') + 1 : NULL;
}

struct symbol_mapping mapping_as_symbol(const struct mapping *mapping) {
    return (struct symbol_mapping){
        .start = mapping->start,
        .end = mapping->end,
        .offset = mapping->offset,
        .device_major = mapping->device_major,
        .device_minor = mapping->device_minor,
        .inode = mapping->inode,
        .inode_generation = mapping->inode_generation,
        .path = mapping->path,
        .is_deleted = mapping->is_deleted,
        .maps = mapping->maps,
        .is_kernel = mapping->is_kernel,
    };
}

bool mapping_is_same(const struct mapping *a, const struct mapping *b) {
    bool is_reused = a->inode_generation != b->inode_generation && a->inode_generation != 0 &&
                     b->inode_generation != 0;
    return !is_reused && a->start == b->start && a->end == b->end && a->offset == b->offset &&
           a->inode == b->inode && a->device_major == b->device_major &&
           a->device_minor == b->device_minor && strcmp(a->path, b->path) == 0;
}

struct generation *generation_create(uint64_t number) {
    struct generation *generation = calloc(1, sizeof *generation);
    if (generation)
        generation->number = number;
    return generation;
}

void generation_destroy(struct generation *generation) {
    if (!generation)
        return;
    for (uint32_t i = 0; i < generation->count; i++)
        mapping_release(generation->mappings[i]);
    free(generation->mappings);
    free(generation);
}

/* With its place in the generation's array. */
#define MAPPING_BYTES (sizeof(struct mapping) + 2 * sizeof(struct mapping *))

sonde_err generation_add(struct generation *generation, const struct symbol_mapping *from) {
    if (from->start >= from->end)
        return SONDE_OK;
    struct memory_share share = {.uid = generation->uid};
    if (generation->count >= SPACE_MAX_MAPPINGS ||
        (generation->is_guests && !memory_share_take(&share, MAPPING_BYTES))) {
        generation->ignored += generation->ignored < UINT32_MAX;
        return SONDE_OK;
    }
    if (!array_room(&generation->mappings, &generation->capacity, generation->count, 1)) {
        memory_share_finish(&share);
        return SONDE_OUT_OF_MEMORY;
    }
    struct mapping *mapping = mapping_create(from);
    if (!mapping) {
        memory_share_finish(&share);
        return SONDE_OUT_OF_MEMORY;
    }
    mapping->share = share;
    generation->mappings[generation->count++] = mapping;
    return SONDE_OK;
}

static int by_start(const void *a, const void *b) {
    const struct mapping *const *left = a, *const *right = b;
    return ((*left)->start > (*right)->start) - ((*left)->start < (*right)->start);
}

void generation_sort(struct generation *generation, const struct generation *previous) {
    if (generation->count > 1)
        qsort(generation->mappings, generation->count, sizeof *generation->mappings, by_start);
    uint32_t kept = 0;
    uint64_t end = 0;
    for (uint32_t i = 0; i < generation->count; i++) {
        struct mapping *mapping = generation->mappings[i];
        if (kept > 0 && mapping->start < end) {
            mapping_release(mapping);
            continue;
        }
        struct mapping *old = previous ? generation_find(previous, mapping->start) : NULL;
        if (old && mapping_is_same(old, mapping)) {
            mapping_release(mapping);
            mapping = mapping_retain(old);
        } else {
            generation->fresh++;
        }
        end = mapping->end;
        generation->mappings[kept++] = mapping;
    }
    generation->count = kept;
}

/* The number of the first mapping that starts above that address. */
static uint32_t first_above(const struct generation *generation, uint64_t address) {
    uint32_t low = 0, high = generation->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (generation->mappings[middle]->start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct mapping *generation_next(const struct generation *generation, uint64_t start) {
    uint32_t at = first_above(generation, start);
    return generation->count ? generation->mappings[at < generation->count ? at : 0] : NULL;
}

struct mapping *generation_find(const struct generation *generation, uint64_t pc) {
    uint32_t low = first_above(generation, pc);
    if (low == 0 || pc >= generation->mappings[low - 1]->end)
        return NULL;
    return generation->mappings[low - 1];
}

void space_finish(struct space *space) {
    for (uint32_t i = 0; i < SPACE_GENERATIONS; i++)
        generation_destroy(space->generations[i]);
    generation_destroy(space->incoming);
    free(space->cache);
    memory_share_finish(&space->share);
    memset(space, 0, sizeof *space);
}

static void forget_from(struct space *space, uint32_t first) {
    for (uint32_t i = first; i < SPACE_GENERATIONS && space->generations[i]; i++) {
        generation_destroy(space->generations[i]);
        space->generations[i] = NULL;
    }
}

/* Forgets the oldest generations if the guest's mappings change so much that keeping all of them
 * would take too much memory and too many descriptors. A mapping is counted in the generation that
 * brought it, or in the oldest one. */
static void forget_old(struct space *space) {
    uint32_t held = 0;
    for (uint32_t i = 0; i < SPACE_GENERATIONS && space->generations[i]; i++) {
        const struct generation *generation = space->generations[i];
        if (i > 0 && held + generation->count > SPACE_MAX_HELD) {
            forget_from(space, i);
            return;
        }
        held += generation->fresh;
    }
}

/* Makes the incoming generation the newest and destroys the oldest. */
static struct generation *complete_incoming(struct space *space) {
    struct generation *generation = space->incoming;
    space->incoming = NULL;
    generation_sort(generation, space->generations[0]);
    generation_destroy(space->generations[SPACE_GENERATIONS - 1]);
    memmove(&space->generations[1], &space->generations[0],
            (SPACE_GENERATIONS - 1) * sizeof space->generations[0]);
    space->generations[0] = generation;
    generation->serial = ++space->last_serial;
    forget_old(space);
    /* The cache borrows mappings of the oldest generation, and a guest may reuse a number. */
    if (space->cache)
        memset(space->cache, 0, SPACE_CACHE * sizeof *space->cache);
    return generation;
}

sonde_err space_add_part(struct space *space, const struct space_part *part,
                         struct generation **complete) {
    *complete = NULL;
    if (space->incoming && space->incoming->number != part->generation) {
        generation_destroy(space->incoming);
        space->incoming = NULL;
    }
    if (!space->incoming)
        space->incoming = generation_create(part->generation);
    if (!space->incoming)
        return SONDE_OUT_OF_MEMORY;
    space->incoming->is_guests = space->is_guests;
    space->incoming->uid = space->share.uid;
    for (size_t i = 0; i < part->count; i++) {
        uint32_t before = space->incoming->count;
        sonde_err err = generation_add(space->incoming, &part->mappings[i]);
        if (err)
            return err;
        if (part->born && space->incoming->count > before)
            space->incoming->mappings[before]->born = part->born[i];
    }
    if (part->last)
        *complete = complete_incoming(space);
    return SONDE_OK;
}

static const struct generation *generation_of(const struct space *space, uint32_t number) {
    for (uint32_t i = 0; i < SPACE_GENERATIONS && space->generations[i]; i++) {
        if ((uint32_t)space->generations[i]->number == number)
            return space->generations[i];
    }
    return NULL;
}

bool space_knows(const struct space *space, uint32_t generation) {
    return generation_of(space, generation) != NULL;
}

struct mapping *space_find(struct space *space, uint32_t number, uint64_t pc) {
    if (!space->cache && memory_share_take(&space->share, SPACE_CACHE * sizeof *space->cache))
        space->cache = calloc(SPACE_CACHE, sizeof *space->cache);
    /* The hash is not seeded: in a direct-mapped cache, a collision only costs a search. */
    uint64_t hash = (pc ^ ((uint64_t)number << 40)) * 0x9e3779b97f4a7c15ull;
    struct space_slot *slot = space->cache ? &space->cache[hash >> 52] : NULL;
    if (slot && slot->pc == pc && slot->generation == number && slot->mapping)
        return slot->mapping;
    const struct generation *generation = generation_of(space, number);
    struct mapping *mapping = generation ? generation_find(generation, pc) : NULL;
    if (slot && mapping)
        *slot = (struct space_slot){.pc = pc, .generation = number, .mapping = mapping};
    return mapping;
}
