/* SPDX-License-Identifier: Apache-2.0
 *
 * An ELF file with as much DWARF 5 as wanted, written as a stream: units with functions, inlined
 * calls, parameters and lines, in about the proportions of a kernel's. Every function, call and row
 * is planted, so that each answer is known. */
#ifndef SONDE_TESTS_UNIT_SYMBOL_LARGE_DWARF_H
#define SONDE_TESTS_UNIT_SYMBOL_LARGE_DWARF_H

#include <stdint.h>

#define LARGE_DWARF_BASE     0x100000ull /* where the code begins */
#define LARGE_DWARF_FUNCTION 256u        /* bytes of code of each */

/* Function i is called function_%08u. From 64 to 96 of its bytes inlined_%u, of its unit, was
 * inlined, called in line i % 1000 + 3. Row k covers 16 bytes from k * 16 and has line k + 1. */
struct large_dwarf {
    uint32_t functions, units;
    uint64_t info_bytes;
};

/* At least `bytes` of .debug_info; ends the test when the disk is full. */
struct large_dwarf large_dwarf_write(const char *path, uint64_t bytes);

#endif
