/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the unwind table of an arm64 file with readelf's interpretation of its .eh_frame, row by
 * row. Thread safety: one thread. */
#ifndef SONDE_TESTS_UNIT_ELF_MACHINE_ARM64_ROWS_H
#define SONDE_TESTS_UNIT_ELF_MACHINE_ARM64_ROWS_H

#include "api/bytes.h"
#include "api/error.h"

#include <stdbool.h>
#include <stdint.h>

#define ARM64_FIRST     19 /* the registers that rows have are x19 to x30 */
#define ARM64_LAST      30
#define ARM64_UNCHANGED INT64_MAX
#define ARM64_LOST      (INT64_MAX - 1)

/* What readelf says of a row: each register's offset from the CFA. */
struct arm64_row {
    bool is_expression;
    unsigned base; /* the register of the CFA */
    int64_t offset;
    int64_t saved[ARM64_LAST + 1];
};

/* Passes the rows of all functions to `take`, in the order of the file. SONDE_IO: readelf has
 * failed. */
SONDE_MUST_USE sonde_err arm64_rows_read(const char *path,
                                         void (*take)(void *context, uint64_t address,
                                                      const struct arm64_row *row),
                                         void *context);
/* Appends the file's table, which is checked. Errors of unwind_table_build_any. */
SONDE_MUST_USE sonde_err arm64_rows_build(const char *path, struct sonde_buf *table,
                                          struct sonde_diag *diag);

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
