/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the unwind tables of arm64 files with readelf, row by row, walks stacks that are made
 * from its rows, and prints the tables' size:
 *
 *     arm64_libraries ELF files...
 *
 * The exit status is 1 if a row differs or a walk goes wrong. The output is a Markdown table. */
#include "tests/unit/elf/machine/arm64_rows.h"
#include "tests/unit/elf/machine/arm64_stacks.h"
#include "tests/unit/unwind/coverage/coverage.h"

#include <stdio.h>
#include <string.h>

#define STACKS 2000 /* of each file */

static bool print_file(const char *path) {
    struct arm64_rows rows;
    struct arm64_stacks stacks;
    struct coverage coverage;
    struct sonde_diag diag = {0};
    sonde_err err = arm64_rows_compare(path, path, false, &rows, &diag);
    if (!err)
        err = coverage_of(path, &coverage, &diag);
    if (!err)
        err = arm64_stacks_walk(path, STACKS, &stacks, &diag);
    const char *slash = strrchr(path, '/');
    if (err) {
        printf("| %s | %s |\n", path, sonde_diag_text(&diag, err));
        return false;
    }
    printf("| %s | %llu | %llu | %llu | %llu | %.3f | %.4f | %.3f | %.2f | %llu | %llu |\n",
           slash ? slash + 1 : path, (unsigned long long)rows.compared,
           (unsigned long long)rows.different, (unsigned long long)rows.complex,
           (unsigned long long)rows.lost, 100 * coverage_share(&coverage),
           100.0 * (double)coverage.complex / (double)coverage.text,
           100.0 * (double)coverage.bare / (double)coverage.text,
           (double)rows.table_bytes / (double)rows.rows, (unsigned long long)stacks.frames,
           (unsigned long long)(stacks.wrong + stacks.lost));
    return rows.different == 0 && stacks.wrong + stacks.lost == 0;
}

int main(int argc, char **argv) {
    bool is_same = argc > 1;
    puts("| file | rows of readelf | different | expressions | lose a register | covered, % "
         "of code | complex % | without CFI % | bytes a row | frames walked | stacks wrong |");
    puts("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for (int i = 1; i < argc; i++)
        is_same &= print_file(argv[i]);
    return !is_same;
}
