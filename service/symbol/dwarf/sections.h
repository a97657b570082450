/* SPDX-License-Identifier: Apache-2.0
 *
 * The mapped DWARF sections of a file. Compressed sections (zlib, zstd, .zdebug_*) are decompressed
 * once, into a scratch file if there is one, so that their pages can be dropped and read again like
 * those of the file. Only for workers, because truncating a mapped file kills its reader. Thread
 * safety: one thread opens and finishes; any thread may read. */
#ifndef SONDE_SERVICE_SYMBOL_DWARF_SECTIONS_H
#define SONDE_SERVICE_SYMBOL_DWARF_SECTIONS_H

#include "api/bytes.h"
#include "api/error.h"

enum dwarf_section {
    DWARF_INFO,
    DWARF_ABBREV,
    DWARF_STR,
    DWARF_LINE,
    DWARF_LINE_STR,
    DWARF_STR_OFFSETS,
    DWARF_ADDR,
    DWARF_RANGES,
    DWARF_RNGLISTS,
    DWARF_CU_INDEX,
    DWARF_SECTION_COUNT,
};

struct dwarf_sections {
    struct sonde_slice of[DWARF_SECTION_COUNT]; /* len 0 = missing */
    void *file, *inflated;
    size_t file_len, inflated_len;
    bool is_in_file; /* whether `inflated` is the scratch file */
};

enum dwarf_kind {
    DWARF_LINKED, /* .debug_info */
    DWARF_SPLIT,  /* .debug_info.dwo, in a .dwo file or a package */
};

/* scratch -1 = decompress to memory, at most 1 GiB. SONDE_NOT_FOUND if there is no .debug_info,
 * SONDE_CORRUPT, SONDE_TOO_LARGE, SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err dwarf_sections_open(int fd, enum dwarf_kind kind, int scratch,
                                             struct dwarf_sections *sections);
/* Returns the pages to the kernel; later accesses read them from the files again. */
void dwarf_sections_drop_pages(const struct dwarf_sections *sections);
void dwarf_sections_finish(struct dwarf_sections *sections);

#endif
