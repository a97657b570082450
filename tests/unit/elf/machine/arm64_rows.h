/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the unwind table of an arm64 file with readelf's interpretation of its .eh_frame, row by
 * row. Thread safety: one thread. */
#ifndef SONDE_TESTS_UNIT_ELF_MACHINE_ARM64_ROWS_H
#define SONDE_TESTS_UNIT_ELF_MACHINE_ARM64_ROWS_H

#include "api/error.h"

#include <stdbool.h>
#include <stdint.h>

struct arm64_rows {
    bool is_go;
    uint64_t compared, different;
    uint64_t complex; /* readelf has an expression, and our row says that it is too complex */
    uint64_t lost;    /* rows that lose a register, because it is too far from x29 */
    uint64_t roots;   /* rows at which x30 is undefined, and the file's entry */
    uint64_t rows, table_bytes;
};

/* Compares the table of the file `path` with what readelf says of `unstripped`, which may be the
 * same. is_go: x29 is not compared, which Go's linker leaves out. Prints the first differences.
 * SONDE_IO: readelf has failed; errors of unwind_table_build_any. */
SONDE_MUST_USE sonde_err arm64_rows_compare(const char *path, const char *unstripped, bool is_go,
                                            struct arm64_rows *rows, struct sonde_diag *diag);

#endif
