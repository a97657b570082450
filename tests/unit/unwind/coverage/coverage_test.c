/* SPDX-License-Identifier: Apache-2.0
 *
 * Requirement E22: the share of code bytes that tables cover must not fall below the measured one.
 */
#include "tests/unit/check.h"
#include "tests/unit/temporary.h"
#include "tests/unit/unwind/coverage/coverage.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void check_file(const char *path, double least, double most_complex) {
    struct coverage coverage;
    struct sonde_diag diag = {0};
    sonde_err err = coverage_of(path, &coverage, &diag);
    if (err == SONDE_NOT_FOUND)
        check_skip("%s is not installed", path);
    CHECK_INT(err, ==, SONDE_OK);
    double share = coverage_share(&coverage);
    double complex = (double)coverage.complex / (double)coverage.text;
    printf("%s: %.3f %% of the code covered, %.4f %% of the text complex, %.3f %% bare\n", path,
           100 * share, 100 * complex, 100.0 * (double)coverage.bare / (double)coverage.text);
    CHECK(share >= least);
    CHECK(complex <= most_complex);
    CHECK_INT(coverage.covered + coverage.padding + coverage.complex + coverage.bare, ==,
              coverage.text);
}

TEST(libc_is_covered) {
    check_file("/lib/x86_64-linux-gnu/libc.so.6", 0.995, 0.0005);
}

TEST(libstdcxx_is_covered) {
    check_file("/usr/lib/x86_64-linux-gnu/libstdc++.so.6", 0.999, 0);
}

TEST(a_big_cxx_library_is_covered) {
    check_file("/usr/lib/x86_64-linux-gnu/libgrpc.so.29", 0.999, 0);
}

#define PATH_BYTES 64

static void compile(const char *flags, char *path) {
    char line[512];
    int fd = mkstemp(temporary_template(path, PATH_BYTES));
    close(fd);
    snprintf(line, sizeof line,
             "echo 'static int __attribute__((noinline)) f(int a) { return a * 2; } int main(int "
             "c, char **v) { return f(c); }' | "
             "PATH=/usr/bin:/bin gcc -x c -O2 %s -o %s - 2>&1",
             flags, path);
    if (system(line) != 0)
        check_skip("cannot run gcc");
}

TEST(a_program_with_debug_frame_alone_is_covered) {
    char path[PATH_BYTES];
    compile("-nostartfiles -shared -fPIC -g -fno-asynchronous-unwind-tables -fno-unwind-tables",
            path);
    check_file(path, 0.999, 0);
    unlink(path);
}

TEST(a_stripped_program_is_covered) {
    char path[PATH_BYTES];
    compile("-nostartfiles -shared -fPIC -s", path);
    check_file(path, 0.999, 0);
    unlink(path);
}
