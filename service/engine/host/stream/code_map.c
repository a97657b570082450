/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/host/stream/code_map.h"

#include "api/base/array.h"
#include "service/symbol/locate/proc_maps.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KERNEL_HALF (1ull << 63) /* [vsyscall] is there, which is the kernel's */

static uint64_t next_serial(void) {
    static _Atomic uint64_t serials;
    return ++serials;
}

static struct code_map *create_from(struct generation *generation) {
    struct code_map *map = generation ? calloc(1, sizeof *map) : NULL;
    if (!map) {
        generation_destroy(generation);
        return NULL;
    }
    *map = (struct code_map){.refs = 1, .serial = next_serial(), .generation = generation};
    return map;
}

struct code_map *code_map_create(void) {
    return create_from(generation_create(0));
}

struct code_map *code_map_retain(struct code_map *map) {
    if (map)
        map->refs++;
    return map;
}

void code_map_release(struct code_map *map) {
    if (!map || --map->refs > 0)
        return;
    generation_destroy(map->generation);
    free(map);
}

/* Memory without a file has offset 0, as in /proc/PID/maps. The kernel's event has its address
 * there, which would become part of the names of its code. */
struct mapping *code_map_mapping(const struct host_mmap *from) {
    struct symbol_mapping symbol = {
        .start = from->start,
        .end = from->end,
        .offset = from->inode ? from->offset : 0,
        .device_major = from->device_major,
        .device_minor = from->device_minor,
        .inode = from->inode,
        .inode_generation = from->inode_generation,
        .path = strcmp(from->path, "//anon") == 0 ? "" : from->path,
    };
    if (from->start >= from->end || from->end > KERNEL_HALF)
        return NULL;
    return mapping_create(&symbol);
}

/* The first mapping that ends above that address. */
static uint32_t first_ending_above(const struct generation *generation, uint64_t address) {
    uint32_t low = 0, high = generation->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (generation->mappings[middle]->end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The part of a mapping that another one has left. */
static struct mapping *part_of(const struct mapping *from, uint64_t start, uint64_t end) {
    struct symbol_mapping symbol = mapping_as_symbol(from);
    symbol.offset += from->inode ? start - from->start : 0;
    symbol.start = start;
    symbol.end = end;
    symbol.maps = NULL;
    return mapping_create(&symbol);
}

/* Makes the map the caller's own. */
static bool make_own(struct code_map **map) {
    struct code_map *from = *map;
    if (from->refs == 1)
        return true;
    struct code_map *copy = code_map_create();
    if (!copy || !array_room(&copy->generation->mappings, &copy->generation->capacity,
                             from->generation->count, 1)) {
        code_map_release(copy);
        return false;
    }
    struct generation *to = copy->generation;
    for (uint32_t i = 0; i < from->generation->count; i++)
        to->mappings[to->count++] = mapping_retain(from->generation->mappings[i]);
    to->ignored = from->generation->ignored;
    code_map_release(from);
    *map = copy;
    return true;
}

/* Replaces mappings [from, to) by the pieces. */
static void splice(struct generation *generation, uint32_t from, uint32_t to,
                   struct mapping **pieces, uint32_t piece_count) {
    struct mapping **mappings = generation->mappings;
    for (uint32_t i = from; i < to; i++)
        mapping_release(mappings[i]);
    memmove(&mappings[from + piece_count], &mappings[to],
            (generation->count - to) * sizeof *mappings);
    memcpy(&mappings[from], pieces, piece_count * sizeof *pieces);
    generation->count = generation->count - (to - from) + piece_count;
}

bool code_map_add(struct code_map **map, struct mapping *mapping) {
    const struct generation *now = (*map)->generation;
    uint32_t from = first_ending_above(now, mapping->start), to = from;
    if (from < now->count && mapping_is_same(now->mappings[from], mapping))
        return true;
    if (!make_own(map) || !array_room(&(*map)->generation->mappings, &(*map)->generation->capacity,
                                      (*map)->generation->count, 2))
        return false;
    struct generation *generation = (*map)->generation;
    while (to < generation->count && generation->mappings[to]->start < mapping->end)
        to++;
    if (generation->count - (to - from) + 3 > SPACE_MAX_MAPPINGS) {
        generation->ignored += generation->ignored < UINT32_MAX;
        return true;
    }
    struct mapping *pieces[3];
    uint32_t count = 0;
    const struct mapping *first = generation->mappings[from < to ? from : 0];
    const struct mapping *last = generation->mappings[from < to ? to - 1 : 0];
    if (from < to && first->start < mapping->start)
        pieces[count++] = part_of(first, first->start, mapping->start);
    pieces[count++] = mapping_retain(mapping);
    if (from < to && last->end > mapping->end)
        pieces[count++] = part_of(last, mapping->end, last->end);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) { /* out of memory: that part is missing */
        if (pieces[i])
            pieces[kept++] = pieces[i];
    }
    splice(generation, from, to, pieces, kept);
    (*map)->serial = next_serial();
    return true;
}

struct code_map *code_map_from(struct generation *generation, const struct code_map *old) {
    generation_sort(generation, old ? old->generation : NULL);
    return create_from(generation);
}

struct generation *code_map_read(int fd) {
    struct generation *generation = generation_create(0);
    struct proc_maps_reader reader = {.file = fdopen(fd, "re")};
    struct proc_maps_line line;
    sonde_err err = generation && reader.file ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    while (!err && proc_maps_next(&reader, &line)) {
        if (line.is_executable && line.mapping.end <= KERNEL_HALF)
            err = generation_add(generation, &line.mapping);
    }
    if (reader.file)
        fclose(reader.file);
    else
        close(fd);
    if (!err && generation->count > 0)
        return generation;
    generation_destroy(generation);
    return NULL;
}
