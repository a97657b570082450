/* SPDX-License-Identifier: Apache-2.0
 *
 *     modules[] --publish--> handler_state.map --publish again--> retired[] --collect--> freed
 *
 * An image (a mapped table) is kept while a module uses it or a map that is not yet freed may. Its
 * `last_use` is the number of the last publication that held it. */
#include "service/guest/maps/module_map.h"

#include "api/os/shared_memory.h"
#include "service/guest/process/address_space.h"
#include "service/guest/raw.h"
#include "service/unwind/table/table.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SEALS       (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
#define RETIRED_MAX 64u /* replaced maps that are not freed yet */

struct image {
    const void *bytes;
    size_t size;
    uint64_t last_use;
};

struct module {
    struct maps_module map;
    uint64_t bias;
    uint32_t image; /* index + 1, 0 = none */
};

struct published {
    struct module_map map;
    size_t size; /* of this memory */
    struct walk_module modules[];
};

static struct image images[MODULE_MAP_IMAGES];
static uint32_t image_count;
static uint64_t image_bytes;
static struct module *modules, *spare;
static uint32_t module_count;
static uint64_t generation, publications;
static bool is_complete;
static uint32_t closes;
static struct published *current, *retired[RETIRED_MAX];
static uint32_t retired_count;

static struct module *module_at(struct module *list, uint32_t count, uint64_t start) {
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (list[middle].map.start < start)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && list[low].map.start == start ? &list[low] : NULL;
}

int module_map_set_modules(const struct maps *maps, uint64_t new_generation) {
    if (!modules)
        modules = address_space_reserve(MAPS_MODULES * sizeof *modules);
    if (!spare)
        spare = address_space_reserve(MAPS_MODULES * sizeof *spare);
    if (!modules || !spare)
        return ENOMEM;
    for (uint32_t i = 0; i < maps->module_count; i++) {
        struct module *old = module_at(modules, module_count, maps->modules[i].start);
        bool same = old && maps_same_module(&old->map, &maps->modules[i]);
        spare[i] = (struct module){maps->modules[i], same ? old->bias : 0, same ? old->image : 0};
    }
    struct module *swap = modules;
    modules = spare;
    spare = swap;
    module_count = maps->module_count;
    generation = new_generation;
    is_complete = false;
    return 0;
}

/* sonded sends all tables again for each generation, in new memfds. A table with an equal header
 * (build-id, sizes, checksum of the whole image) is the same table. */
static uint32_t find_image(int fd, uint64_t bytes) {
    struct unwind_header header;
    if (pread(fd, &header, sizeof header, 0) != sizeof header)
        return 0;
    for (uint32_t i = 0; i < image_count; i++)
        if (images[i].bytes && images[i].size == bytes &&
            memcmp(images[i].bytes, &header, sizeof header) == 0)
            return i + 1;
    return 0;
}

static bool is_table(int fd, uint64_t bytes) {
    uint64_t size;
    return bytes >= sizeof(struct unwind_header) &&
           shared_memory_is_sealed(fd, SEALS, bytes, MODULE_MAP_BYTES, &size);
}

static uint32_t free_image(void) {
    for (uint32_t i = 0; i < image_count; i++)
        if (!images[i].bytes)
            return i + 1;
    return image_count < MODULE_MAP_IMAGES ? ++image_count : 0;
}

/* Maps and checks a new image: index + 1, or 0 with *error. */
static uint32_t map_image(int fd, uint64_t bytes, int *error) {
    *error = ENOSPC;
    uint32_t number = image_bytes + bytes <= MODULE_MAP_BYTES ? free_image() : 0;
    if (!number)
        return 0;
    *error = ENOMEM;
    if (!address_space_allows(ADDRESS_SPACE_SHARED, bytes))
        return 0;
    const void *place = shared_memory_map(fd, bytes);
    if (!place) {
        *error = errno;
        return 0;
    }
    madvise((void *)place, bytes, MADV_DONTFORK);
    if (unwind_table_check(place, bytes) != SONDE_OK) {
        munmap((void *)place, bytes);
        *error = EINVAL;
        return 0;
    }
    images[number - 1] = (struct image){place, bytes, publications + 1};
    image_bytes += bytes;
    return number;
}

int module_map_add_table(uint64_t of_generation, uint64_t start, uint64_t bias, uint64_t bytes,
                         int fd) {
    struct module *module = module_at(modules, module_count, start);
    int error = of_generation != generation ? ESTALE : !module ? ENOENT : fd < 0 ? EBADF : 0;
    if (!error && !is_table(fd, bytes))
        error = EINVAL;
    uint32_t image = error ? 0 : find_image(fd, bytes);
    if (!error && !image)
        image = map_image(fd, bytes, &error);
    if (image) {
        error = 0;
        module->image = image;
        module->bias = bias;
    }
    if (fd >= 0)
        raw_close(fd);
    return error;
}

/* Fills in `born` and what is derived from it. */
static void set_ages(struct module_map *map, uint32_t *born) {
    map->born = born;
    map->oldest = module_count ? UINT32_MAX : 0;
    for (uint32_t i = 0; i < module_count; i++) {
        born[i] = (uint32_t)modules[i].map.born;
        map->oldest = born[i] < map->oldest ? born[i] : map->oldest;
    }
    map->young_low = UINT64_MAX;
    for (uint32_t i = 0; i < module_count; i++) {
        if (born[i] == map->oldest)
            continue;
        if (map->young_high == 0)
            map->young_low = modules[i].map.start;
        map->young_high = modules[i].map.end;
    }
}

static struct published *build(void) {
    size_t each = sizeof(struct walk_module) + sizeof(uint32_t);
    size_t size = sizeof(struct published) + module_count * each;
    struct published *made = address_space_reserve(size);
    if (!made)
        return NULL;
    madvise(made, size, MADV_DONTFORK);
    publications++;
    made->size = size;
    made->map.generation = (uint32_t)generation;
    made->map.walk = (struct walk_map){publications, module_count, made->modules};
    made->map.is_complete = is_complete;
    atomic_store(&made->map.closes, closes);
    set_ages(&made->map, (uint32_t *)(made->modules + module_count));
    for (uint32_t i = 0; i < module_count; i++) {
        struct module *module = &modules[i];
        struct image *image = module->image ? &images[module->image - 1] : NULL;
        if (image)
            image->last_use = publications;
        walk_module_init(&made->modules[i], module->map.start, module->map.end, module->bias,
                         image ? image->bytes : NULL);
    }
    return made;
}

int module_map_publish(void) {
    if (retired_count == RETIRED_MAX)
        return EAGAIN; /* a handler has been running for all that time */
    struct published *made = build();
    if (!made)
        return ENOMEM;
    if (current)
        retired[retired_count++] = current;
    current = made;
    atomic_store(&handler_state.map, &made->map);
    return 0;
}

uint64_t module_map_generation(void) {
    return generation;
}

void module_map_set_complete(void) {
    is_complete = true;
}

void module_map_set_closes(uint32_t now) {
    closes = now;
    if (current)
        atomic_store(&current->map.closes, now);
}

static bool is_image_used(uint32_t number) {
    for (uint32_t i = 0; i < module_count; i++)
        if (modules[i].image == number)
            return true;
    return false;
}

static void unmap_image(struct image *image) {
    munmap((void *)image->bytes, image->size);
    image_bytes -= image->size;
    *image = (struct image){0};
}

void module_map_collect(bool is_quiescent) {
    if (!is_quiescent || !current || retired_count == 0)
        return;
    for (uint32_t i = 0; i < retired_count; i++)
        munmap(retired[i], retired[i]->size);
    retired_count = 0;
    for (uint32_t i = 0; i < image_count; i++)
        if (images[i].bytes && images[i].last_use < publications && !is_image_used(i + 1))
            unmap_image(&images[i]);
}

void module_map_clear(void) {
    atomic_store(&handler_state.map, NULL);
    module_count = 0;
    if (current)
        munmap(current, current->size);
    current = NULL;
    for (uint32_t i = 0; i < retired_count; i++)
        munmap(retired[i], retired[i]->size);
    retired_count = 0;
    for (uint32_t i = 0; i < image_count; i++)
        if (images[i].bytes)
            unmap_image(&images[i]);
    image_count = 0;
}

void module_map_after_fork(void) {
    atomic_store(&handler_state.map, NULL);
    current = NULL;
    module_count = retired_count = image_count = 0;
    image_bytes = 0;
}

uint32_t module_map_images(void) {
    uint32_t held = 0;
    for (uint32_t i = 0; i < image_count; i++)
        held += images[i].bytes != NULL;
    return held;
}
