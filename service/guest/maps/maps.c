/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/maps/maps.h"

#include "api/text/maps_line.h"
#include "service/guest/libc.h"
#include "service/guest/process/address_space.h"
#include "service/guest/process/chroot.h"
#include "service/guest/raw.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#define PIECE 16384u /* bytes of one read, and of the longest line */

static size_t modules_bytes(void) {
    return MAPS_MODULES * sizeof(struct maps_module);
}

static size_t areas_bytes(void) {
    return sizeof(struct writable_areas) + MAPS_AREAS * sizeof(struct walk_stack);
}

int maps_init(struct maps *maps) {
    if (!maps->modules)
        maps->modules = address_space_reserve(modules_bytes());
    if (!maps->areas)
        maps->areas = address_space_reserve(areas_bytes());
    return maps->modules && maps->areas ? 0 : ENOMEM;
}

void maps_finish(struct maps *maps) {
    if (maps->modules)
        munmap(maps->modules, modules_bytes());
    if (maps->areas)
        munmap(maps->areas, areas_bytes());
    *maps = (struct maps){0};
}

static void add_module(struct maps *maps, const struct sonde_maps_line *line) {
    if (maps->module_count == MAPS_MODULES) {
        maps->truncated = true;
        return;
    }
    struct maps_module *place = &maps->modules[maps->module_count++];
    size_t len = line->path_len < MAPS_PATH ? line->path_len : MAPS_PATH - 1;
    *place = (struct maps_module){.start = line->start,
                                  .end = line->end,
                                  .offset = line->offset,
                                  .inode = line->inode,
                                  .device_major = line->device_major,
                                  .device_minor = line->device_minor};
    memcpy(place->path, line->path, len);
}

void maps_add_line(struct maps *maps, const char *text, size_t len) {
    struct sonde_maps_line line;
    if (!sonde_maps_line_parse(text, len, &line))
        return;
    struct walk_stack area = {line.start, line.end};
    if (line.is_executable)
        add_module(maps, &line);
    if (line.is_readable && line.is_writable && maps->areas->count < MAPS_AREAS)
        maps->areas->areas[maps->areas->count++] = area;
    if (sonde_maps_line_has_path(&line, "[stack]"))
        maps->main_stack = area;
}

/* Adds the complete lines of buffer, moves the rest to its start and returns the length of the
 * rest. */
static size_t take_lines(struct maps *maps, char *buffer, size_t used) {
    char *line = buffer, *end;
    while ((end = memchr(line, '\n', used - (size_t)(line - buffer)))) {
        maps_add_line(maps, line, (size_t)(end - line));
        line = end + 1;
    }
    size_t rest = used - (size_t)(line - buffer);
    memmove(buffer, line, rest);
    return rest;
}

int maps_read(struct maps *maps) {
    static char buffer[PIECE];
    maps->module_count = 0;
    maps->truncated = false;
    maps->areas->count = 0;
    long fd = chroot_open_maps();
    if (fd < 0)
        return (int)-fd;
    size_t used = 0;
    long got, all = 0;
    while ((got = system_call3(SYS_read, fd, (long)(buffer + used), (long)(PIECE - used))) > 0) {
        all += got;
        used = take_lines(maps, buffer, used + (size_t)got);
        if (used == PIECE) /* no line of maps is that long: skip it */
            used = 0;
    }
    chroot_close_maps(fd);
    if (got == 0 && all == 0) /* no process is without mappings */
        return ESRCH;
    return got < 0 ? (int)-got : 0;
}

bool maps_same_module(const struct maps_module *one, const struct maps_module *other) {
    return one->start == other->start && one->end == other->end && one->offset == other->offset &&
           one->inode == other->inode && one->device_major == other->device_major &&
           one->device_minor == other->device_minor && strcmp(one->path, other->path) == 0;
}

bool maps_same_modules(const struct maps *one, const struct maps *other) {
    if (one->module_count != other->module_count)
        return false;
    for (uint32_t i = 0; i < one->module_count; i++)
        if (!maps_same_module(&one->modules[i], &other->modules[i]))
            return false;
    return true;
}

/* Everything but files and the kernel's own code, [vdso] and [vsyscall]. */
static bool is_anonymous(const struct maps_module *module) {
    return module->inode == 0 && strncmp(module->path, "[v", 2) != 0;
}

/* `old` is the first module of `before` that ends above the module's start. */
static bool is_continued(const struct maps_module *old, const struct maps_module *module) {
    bool overlaps = old->start < module->end;
    return maps_same_module(old, module) || (overlaps && is_anonymous(old) && is_anonymous(module));
}

void maps_set_born(struct maps *maps, const struct maps *before, uint64_t generation) {
    uint32_t at = 0;
    for (uint32_t i = 0; i < maps->module_count; i++) {
        struct maps_module *module = &maps->modules[i];
        while (at < before->module_count && before->modules[at].end <= module->start)
            at++;
        bool is_old = at < before->module_count && is_continued(&before->modules[at], module);
        module->born = is_old ? before->modules[at].born : generation;
    }
}
