/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints which share of the code of well-known files the unwind tables cover, and why not the rest:
 *
 *     coverage [ELF files...]
 *
 * Without arguments it uses the large libraries and servers that are installed, and compiles a Rust
 * program if there is a rustc. The output is a Markdown table for docs/benchmarks.md. */
#include "tests/unit/unwind/coverage/coverage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARIES "/usr/lib/x86_64-linux-gnu/"

static const char *const usual[] = {
    LIBRARIES "libc.so.6",      LIBRARIES "libm.so.6",        "/lib64/ld-linux-x86-64.so.2",
    LIBRARIES "libstdc++.so.6", LIBRARIES "libLLVM-14.so.1",  LIBRARIES "libgrpc.so.29",
    LIBRARIES "libcrypto.so.3", LIBRARIES "libjemalloc.so.2", "/usr/bin/node",
    "/usr/bin/python3.11",      "/usr/bin/redis-server",      "/usr/sbin/named",
    "/usr/bin/clickhouse",
};

static double percent(uint64_t part, uint64_t whole) {
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void print_row(const char *path, const char *name) {
    struct coverage coverage;
    struct sonde_diag diag = {0};
    sonde_err err = coverage_of(path, &coverage, &diag);
    if (err) {
        if (err != SONDE_NOT_FOUND)
            printf("| %s | %s |\n", name, sonde_diag_text(&diag, err));
        return;
    }
    uint64_t pointer = coverage.by_cfa[UNWIND_CFA_RBP] + coverage.by_cfa[UNWIND_CFA_REG] +
                       coverage.by_cfa[UNWIND_CFA_DEREF];
    printf("| %s | %.2f | %u | %u | %.3f | %.2f | %.4f | %.3f | %.2f | %.4f | %.1f |\n", name,
           (double)coverage.text / 1e6, coverage.functions, coverage.rows,
           100 * coverage_share(&coverage), percent(coverage.padding, coverage.text),
           percent(coverage.complex, coverage.text), percent(coverage.bare, coverage.text),
           percent(pointer, coverage.covered), percent(coverage.lost, coverage.covered),
           (double)coverage.table_bytes / coverage.rows);
}

/* Prints the row of a Rust release binary built with panic=abort. */
static void print_rust(void) {
    char folder[] = "/tmp/coverage.XXXXXX", line[512], path[64];
    if (!mkdtemp(folder))
        return;
    snprintf(path, sizeof path, "%s/rust", folder);
    snprintf(line, sizeof line,
             "cd %s && echo 'fn main() { let mut v: Vec<String> = std::env::args().collect(); "
             "v.sort(); println!(\"{:?}\", v); }' > rust.rs && rustc -C opt-level=3 -C panic=abort "
             "rust.rs 2>/dev/null",
             folder);
    if (system(line) == 0)
        print_row(path, "Rust, panic=abort");
    snprintf(line, sizeof line, "rm -rf %s", folder);
    if (system(line) != 0)
        fprintf(stderr, "could not remove %s\n", folder);
}

int main(int argc, char **argv) {
    puts("| file | text MB | functions | rows | covered, % of code | padding % | complex % | "
         "without CFI % | not from rsp % | loses a register % | bytes a row |");
    puts("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for (int i = 1; i < argc; i++)
        print_row(argv[i], argv[i]);
    for (size_t i = 0; argc == 1 && i < sizeof usual / sizeof *usual; i++)
        print_row(usual[i], strrchr(usual[i], '/') + 1);
    if (argc == 1)
        print_rust();
    return 0;
}
