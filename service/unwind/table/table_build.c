/* SPDX-License-Identifier: Apache-2.0 */
#include "service/unwind/table/table_build.h"

#include "api/elf/machine.h"
#include "service/elf/sections.h"
#include "service/machine/machine.h"
#include "service/machine/own.h"
#include "service/unwind/cfi/fde_reader.h"
#include "service/unwind/code/functions.h"

#include <stdlib.h>

#define ENCODING_OMIT 0xff
#define MAX_CONTENTS  ((size_t)512 << 20)

_Static_assert(UNWIND_ID_BYTES == ELF_BUILD_ID_MAX, "a table holds any build-id");

struct build {
    struct elf_file file, debug; /* debug: the debug file, or zeroed */
    struct frames frames;
    struct functions functions; /* those that may be in no frame */
    struct unwind_rows rows;
    struct sonde_buf contents[2]; /* the data of frames.sections */
};

/* Segments that are too far from the lowest one have no rows: code models other than the large one
 * keep all code within 2 GiB. */
static sonde_err set_ranges(struct build *build) {
    struct frames *frames = &build->frames;
    uint64_t lowest = UINT64_MAX;
    frames->machine = machine_of(build->file.machine)->cfi;
    for (uint32_t i = 0; i < build->file.segment_count; i++) {
        const Elf64_Phdr *segment = &build->file.segments[i];
        if (segment->p_type == PT_LOAD && segment->p_flags & PF_X && segment->p_vaddr < lowest)
            lowest = segment->p_vaddr;
    }
    frames->origin = lowest;
    for (uint32_t i = 0; i < build->file.segment_count; i++) {
        const Elf64_Phdr *segment = &build->file.segments[i];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X) || segment->p_memsz == 0 ||
            frames->range_count == FRAMES_RANGES)
            continue;
        uint64_t start = segment->p_vaddr - lowest;
        if (start >= UNWIND_MAX_TEXT || segment->p_memsz > UNWIND_MAX_TEXT - start)
            continue;
        frames->ranges[frames->range_count].start = (uint32_t)start;
        frames->ranges[frames->range_count++].end = (uint32_t)(start + segment->p_memsz);
    }
    return lowest != UINT64_MAX && frames->range_count == 0 ? SONDE_TOO_LARGE : SONDE_OK;
}

static struct sonde_buf *next_contents(struct build *build) {
    return &build->contents[build->frames.section_count];
}

/* Adds the section whose bytes are in next_contents. */
static sonde_err add_contents(struct build *build, struct cfi_section section, bool open_ended) {
    section.data = (const uint8_t *)next_contents(build)->data;
    section.size = next_contents(build)->len;
    return unwind_frames_add(&build->frames, &section, open_ended);
}

static uint64_t section_vaddr(const struct elf_file *file, const char *name) {
    const Elf64_Shdr *section = elf_section(file, name);
    return section ? section->sh_addr : 0;
}

static const Elf64_Shdr *section_with_bytes(const struct elf_file *file, const char *name) {
    const Elf64_Shdr *section = elf_section(file, name);
    return section && section->sh_type != SHT_NOBITS ? section : NULL;
}

/* *found is false, without an error, if the file has no such section. from: the file, or its debug
 * file, which has the same addresses. */
static sonde_err add_section(struct build *build, const struct elf_file *from, const char *name,
                             bool debug, bool *found) {
    const Elf64_Shdr *section = section_with_bytes(from, name);
    struct cfi_section frame = {
        .vaddr = section ? section->sh_addr : 0,
        .text_vaddr = section_vaddr(&build->file, ".text"),
        .data_vaddr = section_vaddr(&build->file, ".got"),
        .debug = debug,
    };
    *found = section != NULL;
    if (!*found)
        return SONDE_OK;
    sonde_err err = elf_load(from, section, MAX_CONTENTS, next_contents(build));
    return err ? err : add_contents(build, frame, false);
}

/* Reads the address of .eh_frame from .eh_frame_hdr, which begins with a version, three encodings
 * and that pointer. */
static bool read_frame_header(const struct elf_file *file, uint64_t vaddr, uint64_t *frame_vaddr) {
    uint8_t bytes[16] = {0};
    uint64_t offset, len;
    if (!elf_offset_of(file, vaddr, &offset, &len) || len < sizeof bytes ||
        !elf_read(&file->input, offset, bytes, sizeof bytes) || bytes[0] != 1 ||
        bytes[1] == ENCODING_OMIT)
        return false;
    struct cfi_section here = {
        .data = bytes, .size = sizeof bytes, .vaddr = vaddr, .data_vaddr = vaddr};
    struct cursor cursor = {bytes + 4, bytes + sizeof bytes, false};
    *frame_vaddr = unwind_cfi_pointer(&cursor, bytes[1], &here);
    return !cursor.failed;
}

/* For files without section headers: .eh_frame ends at a record of length 0, or with its segment.
 */
static sonde_err add_by_segment(struct build *build) {
    struct cfi_section frame = {0};
    uint64_t offset, len;
    for (uint32_t i = 0; i < build->file.segment_count; i++) {
        const Elf64_Phdr *segment = &build->file.segments[i];
        if (segment->p_type != PT_GNU_EH_FRAME ||
            !read_frame_header(&build->file, segment->p_vaddr, &frame.vaddr) ||
            !elf_offset_of(&build->file, frame.vaddr, &offset, &len))
            continue;
        sonde_err err = elf_append(&build->file, offset, len, MAX_CONTENTS, next_contents(build));
        return err ? err : add_contents(build, frame, true);
    }
    return SONDE_OK;
}

static sonde_err add_frames(struct build *build) {
    bool found;
    sonde_err err = add_section(build, &build->file, ".eh_frame", false, &found);
    if (!err && !found)
        err = add_by_segment(build);
    if (!err)
        err = add_section(build, &build->file, ".debug_frame", true, &found);
    return err || found ? err : add_section(build, &build->debug, ".debug_frame", true, &found);
}

/* Looks for code without unwind information. Nearly all symbols are of functions that have some,
 * and need not be sorted. */
static sonde_err add_functions(struct build *build) {
    struct frames *frames = &build->frames;
    struct functions_known known = {0};
    for (size_t i = 0; i < frames->fde_count; i++)
        if (frames->fdes[i].start >= known.limit)
            known.limit = frames->fdes[i].start + 1;
    uint64_t *bits = calloc(known.limit / FUNCTIONS_CELL / 64 + 1, sizeof *bits);
    if (!bits)
        return SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < frames->fde_count; i++) {
        uint32_t cell = frames->fdes[i].start / FUNCTIONS_CELL;
        bits[cell / 64] |= 1ull << cell % 64;
    }
    known.bits = bits;
    sonde_err err = functions_collect(&build->functions, &build->file, frames->origin, &known);
    free(bits);
    frames->fill = functions_fill;
    frames->begins_with_trampoline = functions_begin_with_trampoline;
    frames->find_change = functions_find_change;
    frames->context = &build->functions;
    return err;
}

static sonde_err build_table(struct build *build, struct sonde_buf *table) {
    sonde_err err = set_ranges(build);
    if (err == SONDE_OK)
        err = add_frames(build);
    if (err == SONDE_OK)
        err = add_functions(build);
    if (err != SONDE_OK)
        return err;
    unwind_rows_init(&build->rows);
    build->rows.machine = build->file.machine;
    build->rows.origin = build->frames.origin;
    build->rows.build_id_bytes = (uint32_t)elf_build_id(&build->file, build->rows.build_id);
    err = unwind_frames_run(&build->frames, &build->rows);
    return err != SONDE_OK ? err : unwind_rows_write(&build->rows, table);
}

static const char *sentence(sonde_err err) {
    switch (err) {
    case SONDE_NOT_AVAILABLE:
        return "a mapped file has no unwind information: build it with "
               "-fasynchronous-unwind-tables";
    case SONDE_CORRUPT:
        return "a mapped file's unwind information is broken";
    case SONDE_TOO_LARGE:
        return "a mapped file's code or unwind information is over Sonde's size limit";
    default:
        return "a mapped file's unwind table could not be built";
    }
}

static bool is_code(const struct elf_file *file) {
    return file->type == ET_EXEC || file->type == ET_DYN;
}

/* machine: the one that the file has to be for; 0 = any that Sonde reads. */
static sonde_err open_file(const struct elf_input *input, uint16_t machine, struct elf_file *file,
                           struct sonde_diag *diag) {
    sonde_err err = elf_open(input, file, diag);
    if (err == SONDE_INVALID_ARGUMENT)
        return err;
    if (err)
        return sonde_fail(diag, err, "a mapped file's program headers are broken");
    if (!is_code(file))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "a mapped file is not a program or library");
    if (machine && file->machine != machine)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "a mapped file is for %s, and its unwind table does not fit %s",
                          elf_machine_name(file->machine), elf_machine_name(machine));
    return SONDE_OK;
}

/* debug: NULL = none. */
static sonde_err build_from(const struct elf_input *input, const struct elf_input *debug,
                            uint16_t machine, struct sonde_buf *table, struct sonde_diag *diag) {
    struct build build = {0};
    sonde_err err = open_file(input, machine, &build.file, diag);
    if (!err && debug)
        err = open_file(debug, build.file.machine, &build.debug, diag);
    if (!err) {
        err = build_table(&build, table);
        if (err)
            err = sonde_fail(diag, err, "%s", sentence(err));
    }
    unwind_rows_finish(&build.rows);
    unwind_frames_finish(&build.frames);
    functions_finish(&build.functions);
    sonde_buf_finish(&build.contents[0]);
    sonde_buf_finish(&build.contents[1]);
    elf_finish(&build.file);
    elf_finish(&build.debug);
    return err;
}

sonde_err unwind_table_build(int fd, struct sonde_buf *table, struct sonde_diag *diag) {
    struct elf_input input;
    if (!elf_input_of_file(fd, &input))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "a mapped file is not a regular file");
    return build_from(&input, NULL, machine_own, table, diag);
}

sonde_err unwind_table_build_any(const struct elf_input *input, struct sonde_buf *table,
                                 struct sonde_diag *diag) {
    return build_from(input, NULL, 0, table, diag);
}

bool unwind_table_needs_debug(int fd, int debug_fd) {
    struct elf_input input, debug_input;
    struct elf_file file = {0}, debug = {0};
    bool needs = elf_input_of_file(debug_fd, &debug_input) &&
                 elf_open(&debug_input, &debug, NULL) == SONDE_OK &&
                 section_with_bytes(&debug, ".debug_frame") && elf_input_of_file(fd, &input) &&
                 elf_open(&input, &file, NULL) == SONDE_OK &&
                 !section_with_bytes(&file, ".debug_frame");
    elf_finish(&file);
    elf_finish(&debug);
    return needs;
}

sonde_err unwind_table_build_with_debug(int fd, int debug_fd, struct sonde_buf *table,
                                        struct sonde_diag *diag) {
    struct elf_input input, debug;
    bool has_both = elf_input_of_file(fd, &input) && elf_input_of_file(debug_fd, &debug);
    if (has_both && build_from(&input, &debug, machine_own, table, NULL) == SONDE_OK)
        return SONDE_OK;
    return unwind_table_build(fd, table, diag);
}

sonde_err unwind_table_build_memory(const void *base, size_t size, struct sonde_buf *table,
                                    struct sonde_diag *diag) {
    struct elf_input input = {.bytes = base, .fd = -1, .size = size};
    return build_from(&input, NULL, machine_own, table, diag);
}
