/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/maps/maps.h"

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

static void *reserve(size_t bytes) {
    void *place = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return place == MAP_FAILED ? NULL : place;
}

int maps_init(struct maps *maps) {
    if (!maps->modules)
        maps->modules = reserve(modules_bytes());
    if (!maps->areas)
        maps->areas = reserve(areas_bytes());
    return maps->modules && maps->areas ? 0 : ENOMEM;
}

void maps_finish(struct maps *maps) {
    if (maps->modules)
        munmap(maps->modules, modules_bytes());
    if (maps->areas)
        munmap(maps->areas, areas_bytes());
    *maps = (struct maps){0};
}

struct text {
    const char *at, *end;
};

/* Reads a number in the given base and the separator that must follow it. */
static bool take_number(struct text *text, unsigned base, char separator, uint64_t *number) {
    *number = 0;
    const char *start = text->at;
    for (; text->at < text->end; text->at++) {
        char byte = *text->at;
        unsigned value = byte >= '0' && byte <= '9'   ? (unsigned)(byte - '0')
                         : byte >= 'a' && byte <= 'f' ? (unsigned)(byte - 'a') + 10
                                                      : 16;
        if (value >= base)
            break;
        *number = *number * base + value;
    }
    if (text->at == start || text->at == text->end || *text->at != separator)
        return false;
    text->at++;
    return true;
}

static void add_module(struct maps *maps, const struct maps_module *module, struct text path) {
    if (maps->module_count == MAPS_MODULES) {
        maps->truncated = true;
        return;
    }
    struct maps_module *place = &maps->modules[maps->module_count++];
    size_t len = (size_t)(path.end - path.at);
    if (len > MAPS_PATH - 1)
        len = MAPS_PATH - 1;
    *place = *module;
    memcpy(place->path, path.at, len);
    place->path[len] = 0;
}

void maps_add_line(struct maps *maps, const char *line, size_t len) {
    struct text text = {line, line + len};
    struct maps_module module = {0};
    uint64_t major, minor;
    if (!take_number(&text, 16, '-', &module.start) || !take_number(&text, 16, ' ', &module.end) ||
        text.end - text.at < 5 || module.end <= module.start)
        return;
    const char *access = text.at;
    text.at += 5;
    if (!take_number(&text, 16, ' ', &module.offset) || !take_number(&text, 16, ':', &major) ||
        !take_number(&text, 16, ' ', &minor) || !take_number(&text, 10, ' ', &module.inode))
        return;
    module.device_major = (uint32_t)major;
    module.device_minor = (uint32_t)minor;
    while (text.at < text.end && *text.at == ' ')
        text.at++;
    if (access[2] == 'x')
        add_module(maps, &module, text);
    if (access[0] == 'r' && access[1] == 'w' && maps->areas->count < MAPS_AREAS)
        maps->areas->areas[maps->areas->count++] = (struct walk_stack){module.start, module.end};
    if (text.end - text.at == 7 && memcmp(text.at, "[stack]", 7) == 0)
        maps->main_stack = (struct walk_stack){module.start, module.end};
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
    long got;
    while ((got = raw_call3(SYS_read, fd, (long)(buffer + used), (long)(PIECE - used))) > 0) {
        used = take_lines(maps, buffer, used + (size_t)got);
        if (used == PIECE) /* no line of maps is that long: skip it */
            used = 0;
    }
    chroot_close_maps(fd);
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
