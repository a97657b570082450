/* SPDX-License-Identifier: Apache-2.0
 *
 * The records of .eh_frame and .debug_frame: common parts (CIEs) and functions (FDEs). Collects the
 * functions of one or two sections, puts them in order of address, settles overlaps, and runs them
 * into rows.
 *
 * Overlaps, always the same way: of two functions with one start the first of the first section
 * counts; a later start cuts the earlier function short; a .debug_frame function that starts inside
 * an .eh_frame function is dropped. */
#ifndef SONDE_SERVICE_UNWIND_CFI_FDE_READER_H
#define SONDE_SERVICE_UNWIND_CFI_FDE_READER_H

#include "service/unwind/cfi/cfi_program.h"

#define FRAMES_RANGES 16

struct frames_fde {
    uint32_t start, end;       /* offsets from origin */
    uint32_t cie;              /* index */
    uint32_t code, code_bytes; /* its instructions, in its section's data */
    uint32_t section;
};

/* Zeroed memory with origin and ranges set is ready. */
struct frames {
    uint64_t origin;
    /* Where code can be; functions elsewhere (left behind by a linker) do not count. Offsets from
     * origin. */
    struct {
        uint32_t start, end;
    } ranges[FRAMES_RANGES];
    uint32_t range_count;
    struct cfi_section sections[2];
    uint32_t section_count;
    struct cfi_memo *memo;
    struct cfi_cie *cies;
    size_t cie_count, cie_capacity;
    struct frames_fde *fdes;
    size_t fde_count, fde_capacity;
};

/* Adds a section, whose data must stay as long as frames. `open_ended`: its true size is not known,
 * so it ends at a zero length. SONDE_CORRUPT, SONDE_OUT_OF_MEMORY, SONDE_TOO_LARGE. */
SONDE_MUST_USE sonde_err unwind_frames_add(struct frames *frames, const struct cfi_section *section,
                                           bool open_ended);
/* Runs all functions, in order, into rows; once. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err unwind_frames_run(struct frames *frames, struct unwind_rows *rows);
void unwind_frames_finish(struct frames *frames);

#endif
