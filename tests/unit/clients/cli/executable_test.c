/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/run/executable.h"

#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct executable_symbols symbols_of(const char *path) {
    int fd = open(path, O_RDONLY);
    CHECK_INT(fd, >=, 0);
    struct executable_symbols found = executable_symbols(fd);
    close(fd);
    return found;
}

static const char *write_file(const void *bytes, size_t len, mode_t mode) {
    static char path[64];
    int fd = mkstemp(temporary_template(path, sizeof path));
    CHECK_INT(write(fd, bytes, len), ==, (ssize_t)len);
    fchmod(fd, mode);
    close(fd);
    return path;
}

TEST(this_program_has_symbols_and_passes_the_check) {
    struct executable_symbols found = symbols_of("/proc/self/exe");
    CHECK(found.is_elf && found.symtab && found.dynsym);
    struct sonde_diag diag = {0};
    CHECK_INT(executable_check("/proc/self/exe", &diag), ==, SONDE_OK);
}

TEST(a_system_program_is_stripped_but_exports_symbols) {
    struct executable_symbols found = symbols_of("/bin/true");
    CHECK(found.is_elf && !found.symtab && found.dynsym && found.build_id);
}

TEST(a_file_that_is_not_elf_has_no_symbols) {
    CHECK(!symbols_of("/etc/passwd").is_elf);
    CHECK(!symbols_of("/dev/null").is_elf);
}

TEST(commands_are_found_like_execvp_does) {
    char path[PATH_MAX];
    CHECK_INT(executable_find("sh", path, NULL), ==, SONDE_OK);
    CHECK_INT(path[0], ==, '/');
    setenv("PATH", "/nowhere::/bin", 1);
    CHECK_INT(executable_find("true", path, NULL), ==, SONDE_OK);
    CHECK_STR(path, "/bin/true");
    setenv("PATH", "/nowhere", 1);
    CHECK_INT(executable_find("true", path, NULL), ==, SONDE_NOT_FOUND);
    CHECK_INT(executable_find("/bin/true", path, NULL), ==, SONDE_OK);
    CHECK_INT(executable_find("", path, NULL), ==, SONDE_NOT_FOUND);
    CHECK_INT(executable_find("/etc/passwd/x", path, NULL), ==, SONDE_NOT_FOUND);
    CHECK_INT(executable_find("/etc", path, NULL), ==, SONDE_PERMISSION_DENIED);
}

TEST(a_script_is_checked_by_its_interpreter_and_a_loop_ends) {
    const char *script = write_file("#!/bin/sh\n", 10, 0755);
    CHECK_INT(executable_check(script, NULL), ==, SONDE_OK);
    unlink(script);
    char text[80];
    const char *loop = write_file("", 0, 0755);
    int len = snprintf(text, sizeof text, "#!%s\n", loop);
    int fd = open(loop, O_WRONLY);
    CHECK_INT(write(fd, text, (size_t)len), ==, len);
    close(fd);
    CHECK_INT(executable_check(loop, NULL), ==, SONDE_OK);
    unlink(loop);
}

#define LINKER "/lib64/ld-linux-x86-64.so.2"

static const char *write_for_another_machine(void) {
    char bytes[4096];
    int fd = open("/bin/true", O_RDONLY);
    CHECK_INT(read(fd, bytes, sizeof bytes), ==, (ssize_t)sizeof bytes);
    close(fd);
    bytes[18] = (char)183; /* EM_AARCH64 */
    return write_file(bytes, sizeof bytes, 0755);
}

TEST(a_program_behind_the_dynamic_linker_is_checked) {
    const char *other = write_for_another_machine();
    char *good[] = {LINKER, "--argv0", "sh", "--library-path", "/bin/sh", "/bin/true", "-x", NULL};
    char *bad[] = {LINKER, "--library-path", "/bin/true", (char *)(uintptr_t)other, NULL};
    CHECK_INT(executable_check(LINKER, NULL), ==, SONDE_OK);
    CHECK(executable_is_wrapper(LINKER));
    CHECK_INT(executable_check_wrapped(good, NULL), ==, SONDE_OK);
    CHECK_INT(executable_check_wrapped(bad, NULL), ==, SONDE_INVALID_ARGUMENT);
    unlink(other);
}

/* What `sonde run` says depends on whether the program can at least be sampled from outside. */
TEST(a_program_for_another_machine_cannot_be_sampled_at_all) {
    struct sonde_diag diag = {0};
    const char *other = write_for_another_machine();
    CHECK_INT(executable_check(other, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "is not an x86-64 program") != NULL);
    unlink(other);
}

TEST(a_set_id_program_can_be_sampled_from_outside_by_root) {
    char bytes[4096];
    int fd = open("/bin/true", O_RDONLY);
    CHECK_INT(read(fd, bytes, sizeof bytes), ==, (ssize_t)sizeof bytes);
    close(fd);
    const char *setid = write_file(bytes, sizeof bytes, 0755);
    if (chown(setid, 65534, 65534) == 0 && chmod(setid, 04755) == 0)
        CHECK_INT(executable_check(setid, NULL), ==,
                  geteuid() == 0 ? SONDE_NOT_AVAILABLE : SONDE_PERMISSION_DENIED);
    unlink(setid);
}

TEST(a_truncated_elf_file_passes_the_check) {
    char bytes[64];
    int fd = open("/bin/true", O_RDONLY);
    CHECK_INT(read(fd, bytes, sizeof bytes), ==, 64);
    close(fd);
    const char *cut = write_file(bytes, sizeof bytes, 0755);
    CHECK_INT(executable_check(cut, NULL), ==, SONDE_OK);
    struct executable_symbols found = symbols_of(cut);
    CHECK(found.is_elf && !found.dynsym);
    unlink(cut);
}
