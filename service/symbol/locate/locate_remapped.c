/* SPDX-License-Identifier: Apache-2.0
 *
 * Text without a file. Some programs copy their own code into anonymous huge pages and map them in
 * its place: what is left of the file are the neighbours.
 *
 *     file, r--   |   anonymous, r-x   |   file, r--
 *
 * A neighbour of the same object says where the object was loaded, its file says what would lie in
 * the gap, and memory says whether it does: only code that is the file's, byte for byte where it is
 * looked at, has the file's names. */
#include "service/symbol/locate/locate.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PAGE        4096u
#define LEAST_BYTES (2u << 20) /* a huge page; smaller memory is a compiler's, and there is much */
#define LOOKS       4u         /* places that are compared */
#define LOOK_BYTES  64u

struct neighbour {
    struct symbol_mapping mapping; /* inode 0 = none */
    char path[PATH_MAX];
    bool is_executable;
};

struct maps_line {
    struct symbol_mapping mapping;
    bool is_executable;
};

/* The path lies in the line. */
static bool parse_line(char *text, struct maps_line *line) {
    unsigned long long start, end, offset, inode;
    char rights[8];
    int at = 0;
    text[strcspn(text, "\n")] = 0;
    if (sscanf(text, "%llx-%llx %7s %llx %x:%x %llu %n", &start, &end, rights, &offset,
               &line->mapping.device_major, &line->mapping.device_minor, &inode, &at) < 7)
        return false;
    line->mapping.start = start;
    line->mapping.end = end;
    line->mapping.offset = offset;
    line->mapping.inode = inode;
    line->mapping.path = text + at;
    line->is_executable = rights[2] == 'x';
    return true;
}

static void note(struct neighbour *neighbour, const struct maps_line *line) {
    neighbour->mapping = line->mapping;
    neighbour->is_executable = line->is_executable;
    snprintf(neighbour->path, sizeof neighbour->path, "%s", line->mapping.path);
    neighbour->mapping.path = neighbour->path;
}

/* The nearest file below the mapping with nothing but memory between, else the nearest above. */
static bool find_neighbour(pid_t pid, const struct symbol_mapping *wanted,
                           struct neighbour *neighbour) {
    char path[64], text[PATH_MAX + 128];
    struct maps_line line;
    uint64_t reach = 0;
    bool passed = false, found = false;
    neighbour->mapping = (struct symbol_mapping){0};
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "re");
    while (maps && !found && fgets(text, sizeof text, maps) && parse_line(text, &line)) {
        if (line.mapping.start != reach) {
            if (passed)
                break;
            neighbour->mapping.inode = 0;
        }
        reach = line.mapping.end;
        if (line.mapping.inode != 0)
            note(neighbour, &line);
        passed |= line.mapping.start == wanted->start;
        found = passed && neighbour->mapping.inode != 0;
    }
    if (maps)
        fclose(maps);
    return found;
}

/* Where the object was loaded, by the segment that the neighbour shows. */
static bool find_bias(const struct elf_file *elf, const struct neighbour *neighbour,
                      uint64_t *bias) {
    for (uint32_t i = 0; i < elf->segment_count; i++) {
        const Elf64_Phdr *segment = &elf->segments[i];
        uint64_t start = segment->p_offset & ~(uint64_t)(PAGE - 1);
        if (segment->p_type != PT_LOAD ||
            ((segment->p_flags & PF_X) != 0) != neighbour->is_executable ||
            neighbour->mapping.offset < start ||
            neighbour->mapping.offset - start >= segment->p_filesz + PAGE)
            continue;
        *bias = neighbour->mapping.start - neighbour->mapping.offset + segment->p_offset -
                segment->p_vaddr;
        return true;
    }
    return false;
}

/* The executable segment that the memory would be a part of. */
static const Elf64_Phdr *find_text(const struct elf_file *elf, const struct symbol_mapping *mapping,
                                   uint64_t bias) {
    uint64_t start = mapping->start - bias, end = mapping->end - bias;
    for (uint32_t i = 0; i < elf->segment_count; i++) {
        const Elf64_Phdr *segment = &elf->segments[i];
        uint64_t first = segment->p_vaddr & ~(uint64_t)(PAGE - 1);
        uint64_t last = (segment->p_vaddr + segment->p_filesz + PAGE - 1) & ~(uint64_t)(PAGE - 1);
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X) && start >= first &&
            end <= last && start < end && end > segment->p_vaddr)
            return segment;
    }
    return NULL;
}

static bool is_equal(const struct elf_file *elf, const Elf64_Phdr *text,
                     const struct symbol_mapping *mapping, uint64_t bias, int memory) {
    uint64_t first = mapping->start - bias, last = mapping->end - bias;
    first = first < text->p_vaddr ? text->p_vaddr : first;
    last = last > text->p_vaddr + text->p_filesz ? text->p_vaddr + text->p_filesz : last;
    if (last < first + LOOK_BYTES)
        return false;
    for (uint64_t i = 0; i < LOOKS; i++) {
        uint64_t vaddr = first + (last - first - LOOK_BYTES) / (LOOKS - 1) * i;
        char here[LOOK_BYTES], there[LOOK_BYTES];
        if (!elf_read(&elf->input, vaddr - text->p_vaddr + text->p_offset, here, sizeof here) ||
            pread(memory, there, sizeof there, (off_t)(vaddr + bias)) != (ssize_t)sizeof there ||
            memcmp(here, there, sizeof here) != 0)
            return false;
    }
    return true;
}

static bool fits(int fd, pid_t pid, const struct symbol_mapping *mapping,
                 const struct neighbour *neighbour, uint64_t *bias) {
    char path[64];
    struct elf_input input;
    struct elf_file elf = {0};
    const Elf64_Phdr *text = NULL;
    snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
    int memory = open(path, O_RDONLY | O_CLOEXEC);
    if (memory >= 0 && elf_input_of_file(fd, &input) && elf_open(&input, &elf, NULL) == SONDE_OK &&
        find_bias(&elf, neighbour, bias))
        text = find_text(&elf, mapping, *bias);
    bool good = text && is_equal(&elf, text, mapping, *bias, memory);
    elf_finish(&elf);
    if (memory >= 0)
        close(memory);
    return good;
}

int symbol_locate_remapped(pid_t pid, const struct symbol_mapping *mapping, uint64_t *bias,
                           char path[PATH_MAX]) {
    struct neighbour neighbour;
    enum symbol_reason reason;
    if (mapping->end - mapping->start < LEAST_BYTES || !find_neighbour(pid, mapping, &neighbour))
        return -1;
    int fd = symbol_locate_file(pid, &neighbour.mapping, &reason);
    if (fd >= 0 && fits(fd, pid, mapping, &neighbour, bias)) {
        memcpy(path, neighbour.path, PATH_MAX);
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}
