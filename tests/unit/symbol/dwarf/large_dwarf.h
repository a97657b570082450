/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes an ELF file with any amount of DWARF 5: units with functions, inlined calls, parameters
 * and lines, in roughly the proportions of a kernel's. Every function, call and row is planted, so
 * the right answer for each address is known. */
#ifndef SONDE_TESTS_UNIT_SYMBOL_DWARF_LARGE_DWARF_H
#define SONDE_TESTS_UNIT_SYMBOL_DWARF_LARGE_DWARF_H

#include <stdint.h>

#define LARGE_DWARF_BASE     0x100000ull /* start of the code */
#define LARGE_DWARF_FUNCTION 256u        /* bytes of code of each function */

/* Function i is called function_%08u. Its bytes 64 to 96 are its unit's inlined_%u, which is called
 * in line i % 1000 + 3. Row k covers 16 bytes from k * 16 and has line k + 1. */
struct large_dwarf {
    uint32_t functions, units;
    uint64_t info_bytes;
};

/* Writes at least `bytes` of .debug_info. Fails the test if the disk is full. */
struct large_dwarf large_dwarf_write(const char *path, uint64_t bytes);

#endif
