/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/worker/worker.h"

#include "api/elf/elf.h"
#include "service/symbol/code/read_code.h"
#include "service/symbol/dwarf/dwarf.h"
#include "service/symbol/symtab/collect_symbols.h"
#include "service/symbol/worker/confine.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define REQUEST_BYTES ((uint64_t)1 << 20)

bool symbol_worker_is_asked(int argc, char **argv) {
    return argc == 4 && strcmp(argv[1], SYMBOL_WORKER_ARGUMENT) == 0;
}

/* The addresses from the first to the last byte of the executable sections. */
static bool find_text(uint64_t *base, uint64_t *limit) {
    struct elf_input input;
    struct elf_file elf = {0};
    *base = UINT64_MAX;
    *limit = 0;
    if (elf_input_of_file(SYMBOL_WORKER_MAIN, &input) && elf_open(&input, &elf, NULL) == SONDE_OK) {
        for (uint32_t i = 0; i < elf.section_count; i++) {
            const Elf64_Shdr *section = &elf.sections[i];
            uint64_t end = section->sh_addr + section->sh_size;
            if (!(section->sh_flags & SHF_ALLOC) || !(section->sh_flags & SHF_EXECINSTR) ||
                end <= section->sh_addr)
                continue;
            *base = section->sh_addr < *base ? section->sh_addr : *base;
            *limit = end > *limit ? end : *limit;
        }
    }
    elf_finish(&elf);
    return *base < *limit;
}

static bool write_out(const struct sonde_buf *image) {
    for (size_t done = 0; done < image->len;) {
        ssize_t wrote = write(SYMBOL_WORKER_OUT, image->data + done, image->len - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return false;
        done += (size_t)wrote;
    }
    return true;
}

static int write_table(struct line_table_builder *builder, const struct dwarf_input *input,
                       const char *identity) {
    struct dwarf_result result;
    sonde_err err = dwarf_walk_all(input, builder, &result);
    if (err != SONDE_OK)
        return err == SONDE_NOT_FOUND ? SYMBOL_WORKER_NO_DWARF : SYMBOL_WORKER_MEMORY;
    uint32_t flags = result.broken_units ? LINE_TABLE_IS_PARTIAL : 0;
    err = line_table_write_file(builder, identity, flags, result.units, SYMBOL_WORKER_OUT);
    if (err != SONDE_OK)
        return err == SONDE_IO ? SYMBOL_WORKER_IO : SYMBOL_WORKER_MEMORY;
    return SYMBOL_WORKER_DONE;
}

/* Nothing is freed, because the process ends. */
static int build_lines(const char *identity) {
    struct dwarf_sections sections, alt, package;
    struct dwarf_input input = {.main = &sections, .may_open = true};
    uint64_t limit;
    if (!find_text(&input.base, &limit))
        return SYMBOL_WORKER_BROKEN;
    sonde_err err =
        dwarf_sections_open(SYMBOL_WORKER_DWARF, DWARF_LINKED, SYMBOL_WORKER_SCRATCH, &sections);
    if (err != SONDE_OK)
        return err == SONDE_NOT_FOUND ? SYMBOL_WORKER_NO_DWARF : SYMBOL_WORKER_BROKEN;
    if (dwarf_sections_open(SYMBOL_WORKER_ALT, DWARF_LINKED, SYMBOL_WORKER_SCRATCH_ALT, &alt) ==
        SONDE_OK)
        input.alt = &alt;
    if (dwarf_sections_open(SYMBOL_WORKER_PACKAGE, DWARF_SPLIT, SYMBOL_WORKER_SCRATCH_PACKAGE,
                            &package) == SONDE_OK)
        input.package = &package;
    struct line_table_builder *builder =
        line_table_builder_create(input.base, limit, SYMBOL_WORKER_SCRATCH_TABLE);
    return builder ? write_table(builder, &input, identity) : SYMBOL_WORKER_MEMORY;
}

static int build_symbols(const char *identity) {
    struct sonde_buf image = {0};
    sonde_err err =
        symbol_table_build_from_files(SYMBOL_WORKER_MAIN, SYMBOL_WORKER_DWARF, identity, &image);
    if (err)
        return err == SONDE_OUT_OF_MEMORY ? SYMBOL_WORKER_MEMORY : SYMBOL_WORKER_BROKEN;
    return write_out(&image) ? SYMBOL_WORKER_DONE : SYMBOL_WORKER_IO;
}

static sonde_err read_request(struct sonde_buf *bytes) {
    struct elf_input input;
    char *to = elf_input_of_file(SYMBOL_WORKER_SCRATCH, &input) && input.size <= REQUEST_BYTES
                   ? sonde_buf_extend(bytes, input.size)
                   : NULL;
    return to && elf_read(&input, 0, to, input.size) ? SONDE_OK : SONDE_CORRUPT;
}

static int write_code(const struct elf_file *elf, struct disassembler *disassembler) {
    struct sonde_buf bytes = {0}, out = {0};
    struct symbol_code_request request;
    if (read_request(&bytes) != SONDE_OK || !code_request_read(sonde_buf_slice(&bytes), &request))
        return SYMBOL_WORKER_BROKEN;
    sonde_err err = read_code(elf, disassembler, &request, &out);
    if (err)
        return err == SONDE_NOT_FOUND       ? SYMBOL_WORKER_NO_CODE
               : err == SONDE_OUT_OF_MEMORY ? SYMBOL_WORKER_MEMORY
                                            : SYMBOL_WORKER_BROKEN;
    return write_out(&out) ? SYMBOL_WORKER_DONE : SYMBOL_WORKER_IO;
}

static int disassemble_file(void) {
    struct elf_input input;
    struct elf_file elf = {0};
    if (!elf_input_of_file(SYMBOL_WORKER_MAIN, &input) || elf_open(&input, &elf, NULL) != SONDE_OK)
        return SYMBOL_WORKER_BROKEN;
    struct disassembler *disassembler = disassembler_create(machine_of(elf.machine));
    return disassembler ? write_code(&elf, disassembler) : SYMBOL_WORKER_NO_LIBRARY;
}

/* Scratch files are mapped, so a full disk shows as SIGBUS when a page is first written to. A test
 * write tells whether the disk is full. Otherwise an input file has shrunk; then returning repeats
 * the access, which kills the process, because SA_RESETHAND has removed this handler. */
static void on_bus_error(int number) {
    static const char page[4096];
    if (lseek(SYMBOL_WORKER_SCRATCH, 0, SEEK_END) >= 0 &&
        write(SYMBOL_WORKER_SCRATCH, page, sizeof page) != (ssize_t)sizeof page)
        _exit(SYMBOL_WORKER_NO_SPACE);
}

static bool handle_full_disk(void) {
    struct sigaction action = {.sa_handler = on_bus_error, .sa_flags = (int)SA_RESETHAND};
    return sigaction(SIGBUS, &action, NULL) == 0;
}

static int work(int argc, char **argv) {
    if (!symbol_worker_is_asked(argc, argv))
        return SYMBOL_WORKER_BROKEN;
    bool symbols = strcmp(argv[2], SYMBOL_WORKER_SYMBOLS) == 0;
    bool lines = strcmp(argv[2], SYMBOL_WORKER_LINES) == 0;
    /* A request waits for the others, so only line tables are built at low priority. */
    if (lines && (setpriority(PRIO_PROCESS, 0, 15) != 0 || !handle_full_disk()))
        return SYMBOL_WORKER_CONFINED;
    if (!symbols && !lines)
        disassembler_preload();
    if (!symbol_confine())
        return SYMBOL_WORKER_CONFINED;
    return symbols ? build_symbols(argv[3]) : lines ? build_lines(argv[3]) : disassemble_file();
}

/* _exit, because exit handlers were not written for a process without its privileges. */
int symbol_worker_main(int argc, char **argv) {
    prctl(PR_SET_NAME, "sonde-symbols"); /* not "exe", as it was started */
    _exit(work(argc, argv));
}
