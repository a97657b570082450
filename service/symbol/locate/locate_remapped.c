/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the file of code in anonymous memory. Some programs copy their code into anonymous huge
 * pages and map these at the original addresses, between the remaining mappings of the file:
 *
 *     file, r--   |   anonymous, r-x   |   file, r--
 *
 * A neighbouring mapping gives the file and its load address, and hence the code that should be in
 * the anonymous memory. The file is accepted if samples of that code match the memory. */
#include "service/symbol/locate/locate.h"

#include "service/process/foreign_memory.h"
#include "service/process/process_file.h"
#include "service/symbol/locate/proc_maps.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PAGE         4096u
#define MIN_BYTES    (2u << 20) /* a huge page; smaller code is JIT code */
#define SAMPLES      4u         /* places that are compared */
#define SAMPLE_BYTES 64u

struct neighbour {
    struct symbol_mapping mapping; /* inode 0 = none */
    char path[PATH_MAX];
    bool is_executable;
};

static void note(struct neighbour *neighbour, const struct proc_maps_line *line) {
    neighbour->mapping = line->mapping;
    neighbour->is_executable = line->is_executable;
    snprintf(neighbour->path, sizeof neighbour->path, "%s", line->mapping.path);
    neighbour->mapping.path = neighbour->path;
}

/* Finds the nearest file mapping below, with only anonymous memory between, else the nearest
 * above. */
static bool find_neighbour(pid_t pid, const struct symbol_mapping *wanted,
                           struct neighbour *neighbour) {
    struct proc_maps_reader reader;
    struct proc_maps_line line;
    uint64_t reach = 0;
    bool passed = false, found = false;
    neighbour->mapping = (struct symbol_mapping){0};
    proc_maps_begin(&reader, pid, wanted->maps);
    while (!found && proc_maps_next(&reader, &line)) {
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
    proc_maps_end(&reader);
    return found;
}

/* The load address, by the segment that the neighbour maps. */
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

/* The executable segment that contains the memory, given the bias. */
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
                     const struct symbol_mapping *mapping, uint64_t bias, pid_t pid, int memory) {
    uint64_t first = mapping->start - bias, last = mapping->end - bias;
    first = first < text->p_vaddr ? text->p_vaddr : first;
    last = last > text->p_vaddr + text->p_filesz ? text->p_vaddr + text->p_filesz : last;
    if (last < first + SAMPLE_BYTES)
        return false;
    for (uint64_t i = 0; i < SAMPLES; i++) {
        uint64_t vaddr = first + (last - first - SAMPLE_BYTES) / (SAMPLES - 1) * i;
        char here[SAMPLE_BYTES], there[SAMPLE_BYTES];
        if (!elf_read(&elf->input, vaddr - text->p_vaddr + text->p_offset, here, sizeof here) ||
            foreign_memory_read_file(memory, pid, vaddr + bias, there, sizeof there) !=
                sizeof there ||
            memcmp(here, there, sizeof here) != 0)
            return false;
    }
    return true;
}

static bool fits(int fd, pid_t pid, const struct symbol_mapping *mapping,
                 const struct neighbour *neighbour, uint64_t *bias) {
    struct elf_input input;
    struct elf_file elf = {0};
    const Elf64_Phdr *text = NULL;
    int memory = process_file_open(PROCESS_MEMORY, pid, 0, 0);
    if (memory >= 0 && elf_input_of_file(fd, &input) && elf_open(&input, &elf, NULL) == SONDE_OK &&
        find_bias(&elf, neighbour, bias))
        text = find_text(&elf, mapping, *bias);
    bool good = text && is_equal(&elf, text, mapping, *bias, pid, memory);
    elf_finish(&elf);
    if (memory >= 0)
        close(memory);
    return good;
}

int symbol_locate_remapped(pid_t pid, const struct symbol_mapping *mapping, uint64_t *bias,
                           char path[PATH_MAX]) {
    struct neighbour neighbour;
    enum symbol_reason reason;
    if (mapping->end - mapping->start < MIN_BYTES || !find_neighbour(pid, mapping, &neighbour))
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
