/* SPDX-License-Identifier: Apache-2.0
 *
 * The DWARF sections of one file, mapped; compressed ones (zlib, zstd, and the old .zdebug_*) are
 * inflated once, into a scratch file when there is one, so that their pages can be dropped and read
 * again like those of the file itself. Worker process only: a file that is cut while it is mapped
 * ends its reader. One thread opens and finishes; reading is for any thread. */
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
    struct sonde_slice of[DWARF_SECTION_COUNT]; /* len 0 = not there */
    void *file, *inflated;
    size_t file_len, inflated_len;
    bool is_in_file; /* what was inflated */
};

enum dwarf_kind {
    DWARF_LINKED, /* .debug_info */
    DWARF_SPLIT,  /* .debug_info.dwo, of a .dwo file or a package of them */
};

/* scratch -1 = inflate into memory, at most 1 GiB. SONDE_NOT_FOUND when there is no .debug_info,
 * SONDE_CORRUPT, SONDE_TOO_LARGE, SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err dwarf_sections_open(int fd, enum dwarf_kind kind, int scratch,
                                             struct dwarf_sections *sections);
/* Gives the pages back to the kernel; what is read again comes from the file again. */
void dwarf_sections_drop_pages(const struct dwarf_sections *sections);
void dwarf_sections_finish(struct dwarf_sections *sections);

#endif
