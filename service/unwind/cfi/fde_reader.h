/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the records of .eh_frame and .debug_frame: CIEs, which have what functions share, and FDEs,
 * one per function. Collects the functions of one or two sections, sorts them by address, resolves
 * overlaps, and runs their programs into rows.
 *
 * Overlaps are resolved like this: of two functions with the same start, the first one of the first
 * section counts; a function ends where the next one starts; a .debug_frame function that starts
 * inside an .eh_frame function is dropped. */
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

/* To initialise: zeroed memory, with machine, origin and ranges set. */
struct frames {
    const struct cfi_machine *machine;
    uint64_t origin;
    /* Where code can be, as offsets from origin. Functions elsewhere are ignored: linkers leave
     * records of functions that they removed. */
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
    /* What the sections do not say; all three may be NULL. Adds rows of the code in [from, to),
     * which no function has. */
    void (*fill)(void *context, uint32_t from, uint32_t to, struct unwind_rows *rows);
    /* Whether the code in [from, to) begins with a trampoline of signals. */
    bool (*begins_with_trampoline)(void *context, uint32_t from, uint32_t to);
    /* From which pc on the function [start, end) has *rule instead of its own; end = nowhere. */
    uint32_t (*find_change)(void *context, uint32_t start, uint32_t end, struct unwind_rule *rule);
    void *context; /* of all */
};

/* Adds a section, whose data must outlive frames. open_ended: its size is not known, so it ends at
 * a record of length 0. SONDE_CORRUPT, SONDE_OUT_OF_MEMORY, SONDE_TOO_LARGE. */
SONDE_MUST_USE sonde_err unwind_frames_add(struct frames *frames, const struct cfi_section *section,
                                           bool open_ended);
/* Runs all functions into rows, in order of address. Call it once. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err unwind_frames_run(struct frames *frames, struct unwind_rows *rows);
void unwind_frames_finish(struct frames *frames);

#endif
