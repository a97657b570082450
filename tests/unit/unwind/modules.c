/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unwind/modules.h"

#include "api/elf/elf.h"
#include "service/guest/signal/walk_shared.h"
#include "service/unwind/table/table_build.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

uint64_t modules_bias(int fd, uint64_t start, uint64_t offset) {
    struct elf_input input;
    struct elf_file file = {0};
    uint64_t bias = 0;
    if (!elf_input_of_file(fd, &input) || elf_open(&input, &file, NULL) != SONDE_OK)
        file.segment_count = 0;
    for (uint32_t i = 0; i < file.segment_count; i++) {
        const Elf64_Phdr *segment = &file.segments[i];
        if (segment->p_type == PT_LOAD && segment->p_flags & PF_X &&
            (segment->p_offset & ~4095ull) == offset)
            bias = start - (segment->p_vaddr & ~4095ull);
    }
    elf_finish(&file);
    return bias;
}

static void add_module(struct modules *modules, uint64_t start, uint64_t end, uint64_t offset,
                       const char *path) {
    uint64_t at = modules->map.count++, bias = 0;
    struct sonde_buf *image = &modules->images[at];
    sonde_err err = SONDE_NOT_AVAILABLE;
    if (strcmp(path, "[vdso]") == 0) {
        err = unwind_table_build_memory((const void *)start, end - start, image, NULL);
        bias = start;
    } else if (path[0] == '/') {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        err = unwind_table_build(fd, image, NULL);
        bias = modules_bias(fd, start, offset);
        close(fd);
    }
    snprintf(modules->names[at], sizeof modules->names[at], "%s", path);
    walk_module_init(&modules->modules[at], start, end, bias, err == SONDE_OK ? image->data : NULL);
}

void modules_init(struct modules *modules) {
    static uint64_t generation;
    char line[4400];
    memset(modules, 0, sizeof *modules);
    modules->map.modules = modules->modules;
    modules->map.generation = ++generation;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && fgets(line, sizeof line, maps) && modules->map.count < MODULES_MAX) {
        unsigned long start, end, offset;
        char flags[5], path[4200] = "";
        if (sscanf(line, "%lx-%lx %4s %lx %*s %*s %4199s", &start, &end, flags, &offset, path) < 4)
            continue;
        if (strcmp(path, "[stack]") == 0)
            modules->stack = (struct walk_stack){start, end};
        if (flags[2] == 'x')
            add_module(modules, start, end, offset, path);
    }
    if (maps)
        fclose(maps);
}

void modules_finish(struct modules *modules) {
    for (uint64_t i = 0; i < modules->map.count; i++)
        sonde_buf_finish(&modules->images[i]);
}

const struct unwind_rule *modules_rule(const struct sonde_buf *image, uint64_t vaddr) {
    static struct walk_module module;
    walk_module_init(&module, 0, UINT64_MAX, 0, image->data);
    struct walk_map map = {.count = 1, .modules = &module};
    return walk_look_up(&map, vaddr).rule;
}
