/* SPDX-License-Identifier: Apache-2.0 */
#include "service/unwind/table/table_build.h"

#include "service/unwind/cfi/fde_reader.h"
#include "service/unwind/cfi/frame_sections.h"

#include <stdlib.h>

#define ENCODING_OMIT 0xff

struct build {
    struct elf_file file;
    struct frames frames;
    struct unwind_rows rows;
    uint8_t *contents[2]; /* what frames' sections point into */
};

static sonde_err set_ranges(struct build *build) {
    struct frames *frames = &build->frames;
    uint64_t lowest = UINT64_MAX;
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
            return SONDE_TOO_LARGE;
        frames->ranges[frames->range_count].start = (uint32_t)start;
        frames->ranges[frames->range_count++].end = (uint32_t)(start + segment->p_memsz);
    }
    return SONDE_OK;
}

static sonde_err add_contents(struct build *build, uint8_t *bytes, struct cfi_section section,
                              bool open_ended) {
    build->contents[build->frames.section_count] = bytes;
    return unwind_frames_add(&build->frames, &section, open_ended);
}

static uint64_t section_vaddr(const struct elf_file *file, const char *name) {
    const Elf64_Shdr *section = unwind_elf_section(file, name);
    return section ? section->sh_addr : 0;
}

static sonde_err add_section(struct build *build, const Elf64_Shdr *section, bool debug) {
    struct cfi_section frame = {
        .vaddr = section->sh_addr,
        .text_vaddr = section_vaddr(&build->file, ".text"),
        .data_vaddr = section_vaddr(&build->file, ".got"),
        .debug = debug,
    };
    uint8_t *bytes;
    uint64_t size;
    sonde_err err = unwind_elf_contents(&build->file, section, &bytes, &size);
    if (err != SONDE_OK)
        return err;
    frame.data = bytes;
    frame.size = size;
    return add_contents(build, bytes, frame, false);
}

/* Where .eh_frame is, by the first bytes of .eh_frame_hdr: version, three encodings, then the
 * pointer. */
static bool read_frame_header(const struct elf_file *file, uint64_t vaddr, uint64_t *frame_vaddr) {
    uint8_t bytes[16] = {0};
    uint64_t offset, len;
    if (!unwind_elf_offset_of(file, vaddr, &offset, &len) || len < sizeof bytes ||
        unwind_elf_read(file, offset, bytes, sizeof bytes) != SONDE_OK || bytes[0] != 1 ||
        bytes[1] == ENCODING_OMIT)
        return false;
    struct cfi_section here = {
        .data = bytes, .size = sizeof bytes, .vaddr = vaddr, .data_vaddr = vaddr};
    struct cursor cursor = {bytes + 4, bytes + sizeof bytes, false};
    *frame_vaddr = unwind_cfi_pointer(&cursor, bytes[1], &here);
    return !cursor.bad;
}

/* Without section headers its size is not known: up to a zero length, or the end of its segment. */
static sonde_err add_by_segment(struct build *build) {
    struct cfi_section frame = {0};
    uint64_t offset, len;
    for (uint32_t i = 0; i < build->file.segment_count; i++) {
        const Elf64_Phdr *segment = &build->file.segments[i];
        if (segment->p_type != PT_GNU_EH_FRAME ||
            !read_frame_header(&build->file, segment->p_vaddr, &frame.vaddr) ||
            !unwind_elf_offset_of(&build->file, frame.vaddr, &offset, &len))
            continue;
        Elf64_Shdr stand_in = {.sh_offset = offset, .sh_size = len};
        uint8_t *bytes;
        sonde_err err = unwind_elf_contents(&build->file, &stand_in, &bytes, &frame.size);
        if (err != SONDE_OK)
            return err;
        frame.data = bytes;
        return add_contents(build, bytes, frame, true);
    }
    return SONDE_OK;
}

static sonde_err add_frames(struct build *build) {
    const Elf64_Shdr *section = unwind_elf_section(&build->file, ".eh_frame");
    sonde_err err = section ? add_section(build, section, false) : add_by_segment(build);
    section = unwind_elf_section(&build->file, ".debug_frame");
    if (err == SONDE_OK && section)
        err = add_section(build, section, true);
    return err;
}

static sonde_err build_table(struct build *build, struct sonde_buf *table) {
    sonde_err err = set_ranges(build);
    if (err == SONDE_OK)
        err = add_frames(build);
    if (err != SONDE_OK)
        return err;
    unwind_rows_init(&build->rows);
    build->rows.origin = build->frames.origin;
    build->rows.build_id_bytes =
        unwind_elf_build_id(&build->file, build->rows.build_id, UNWIND_ID_BYTES);
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
        return "a mapped file's code or unwind information is larger than Sonde reads";
    default:
        return "a mapped file's unwind table could not be built";
    }
}

static sonde_err build_from(struct elf_source source, struct sonde_buf *table,
                            struct sonde_diag *diag) {
    struct build build = {0};
    sonde_err err = unwind_elf_init(&build.file, source, diag);
    if (err != SONDE_OK)
        return err;
    err = build_table(&build, table);
    unwind_rows_finish(&build.rows);
    unwind_frames_finish(&build.frames);
    free(build.contents[0]);
    free(build.contents[1]);
    unwind_elf_finish(&build.file);
    return err == SONDE_OK ? SONDE_OK : sonde_fail(diag, err, "%s", sentence(err));
}

sonde_err unwind_table_build(int fd, struct sonde_buf *table, struct sonde_diag *diag) {
    return build_from((struct elf_source){.fd = fd}, table, diag);
}

sonde_err unwind_table_build_memory(const void *base, size_t size, struct sonde_buf *table,
                                    struct sonde_diag *diag) {
    return build_from((struct elf_source){.fd = -1, .base = base, .size = size}, table, diag);
}
