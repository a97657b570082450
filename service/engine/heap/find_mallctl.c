/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/heap/find_mallctl.h"

#include "service/elf/sections.h"
#include "service/engine/code/tables.h"
#include "service/engine/core/target.h"
#include "service/engine/memory_report/alloc_report.h"
#include "service/engine/memory_report/dump_profile.h"
#include "service/process/process_file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define MAX_TABLE_BYTES ((size_t)512 << 20)

static uint64_t scan(const struct sonde_buf *symbols, const struct sonde_buf *texts,
                     const char **name) {
    static const char *const names[] = {"mallctl", "je_mallctl", "_rjem_mallctl"};
    for (size_t at = 0; at + sizeof(Elf64_Sym) <= symbols->len; at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        memcpy(&symbol, symbols->data + at, sizeof symbol);
        if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF ||
            symbol.st_name >= texts->len)
            continue;
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            if (strcmp(texts->data + symbol.st_name, names[i]) != 0)
                continue;
            *name = names[i];
            return symbol.st_value;
        }
    }
    return 0;
}

static uint64_t find_symbol(const struct elf_file *elf, const char **name) {
    struct sonde_buf symbols = {0}, texts = {0};
    uint64_t address = 0;
    const Elf64_Shdr *table = elf_section_of_type(elf, SHT_SYMTAB);
    const Elf64_Shdr *strings = table ? elf_section_at(elf, table->sh_link) : NULL;
    if (strings && elf_load(elf, table, MAX_TABLE_BYTES, &symbols) == SONDE_OK &&
        elf_load(elf, strings, MAX_TABLE_BYTES, &texts) == SONDE_OK && texts.data)
        address = scan(&symbols, &texts, name); /* a buf is NUL-terminated */
    sonde_buf_finish(&symbols);
    sonde_buf_finish(&texts);
    return address;
}

/* All of jemalloc's messages start like this. */
static bool has_messages(const struct elf_file *elf) {
    static const char start[] = "<jemalloc>: ";
    struct sonde_buf bytes = {0};
    const Elf64_Shdr *section = elf_section(elf, ".rodata");
    bool found = section && elf_load(elf, section, MAX_TABLE_BYTES, &bytes) == SONDE_OK &&
                 bytes.len > 0 && memmem(bytes.data, bytes.len, start, sizeof start - 1);
    sonde_buf_finish(&bytes);
    return found;
}

/* Sets the ELF address. */
static void find_in_file(int fd, struct found_mallctl *found) {
    struct elf_input input;
    struct elf_file elf;
    struct sonde_diag diag = {0};
    if (!elf_input_of_file(fd, &input) || elf_open(&input, &elf, &diag) != SONDE_OK)
        return;
    found->address = find_symbol(&elf, &found->name);
    found->is_stripped = !found->address && has_messages(&elf);
    elf_finish(&elf);
}

/* Converts an ELF address of the program to its address in the process. */
static uint64_t relocate(struct engine *engine, const struct process_identity *process,
                         const struct stat *file, uint64_t address) {
    struct sonde_buf text = {0};
    uint64_t found = 0;
    alloc_report_read_maps(process, &text);
    struct generation *mapped = heap_mappings(sonde_buf_slice(&text));
    for (uint32_t i = 0; mapped && i < mapped->count && !found; i++) {
        struct mapping *mapping = mapped->mappings[i];
        if (mapping->inode != file->st_ino || mapping->device_major != major(file->st_dev) ||
            mapping->device_minor != minor(file->st_dev))
            continue;
        tables_open_mapping(engine, process, mapping);
        uint64_t place = mapping->has_bias ? address + mapping->bias : 0;
        if (place >= mapping->start && place < mapping->end)
            found = place;
    }
    generation_destroy(mapped);
    sonde_buf_finish(&text);
    return found;
}

static int open_program(const struct process_identity *process) {
    if (!process_identity_holds(process) || !process_rights_take(process))
        return -1;
    int fd = process_file_open_own(PROCESS_EXE, process->pid, 0, 0);
    process_rights_drop();
    if (fd < 0 || process_identity_holds(process))
        return fd;
    close(fd);
    return -1;
}

void heap_find_mallctl(struct engine *engine, const struct process_identity *process,
                       struct found_mallctl *found) {
    struct stat file;
    int fd = open_program(process);
    *found = (struct found_mallctl){.name = ""};
    if (fd < 0)
        return;
    if (fstat(fd, &file) == 0)
        find_in_file(fd, found);
    if (found->address)
        found->address = relocate(engine, process, &file, found->address);
    close(fd);
    if (!found->address)
        found->name = "";
}
