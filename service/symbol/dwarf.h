/* SPDX-License-Identifier: Apache-2.0
 *
 * A walk over all DWARF of a file by libdw: functions, inlined calls, lines. libdw trusts its input
 * further than we do and may crash on a hostile file: this runs in the worker process only. */
#ifndef SONDE_SERVICE_SYMBOL_DWARF_H
#define SONDE_SERVICE_SYMBOL_DWARF_H

#include "service/symbol/full_build.h"

struct symbol_dwarf_input {
    int fd;     /* ELF file with plain .debug_* sections */
    int alt_fd; /* what dwz moved elsewhere; -1 = none */
    uint64_t base;
};

/* How it went: units walked, and those that had to be left out. */
struct symbol_dwarf_result {
    uint32_t units, broken_units;
};

/* SONDE_NOT_FOUND when there is no DWARF, SONDE_CORRUPT when libdw cannot open it. */
SONDE_MUST_USE sonde_err symbol_dwarf_walk(const struct symbol_dwarf_input *input,
                                           struct symbol_full_builder *builder,
                                           struct symbol_dwarf_result *result);

#endif
