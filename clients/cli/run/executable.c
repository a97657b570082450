/* SPDX-License-Identifier: Apache-2.0
 *
 * LD_PRELOAD is the dynamic linker's work. It only has an effect if the program has a PT_INTERP, if
 * that interpreter is this machine's glibc (which libsonde.so is linked against), and if the kernel
 * does not set AT_SECURE, as it does for set-id files. */
#include "clients/cli/run/executable.h"

#include "api/program_advice.h"
#include "api/wrapper_programs.h"

#include "api/elf/elf.h"
#include "api/text/dynamic_linker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define MAX_SCRIPT_LEVELS 4

static bool is_executable_file(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

static sonde_err find_in_path(const char *name, char path[PATH_MAX], struct sonde_diag *diag) {
    const char *folders = getenv("PATH");
    if (!folders)
        folders = "/usr/local/bin:/usr/bin:/bin";
    bool more = true;
    for (const char *at = folders; more; at++) {
        size_t len = strcspn(at, ":");
        int written = snprintf(path, PATH_MAX, "%.*s/%s", len ? (int)len : 1, len ? at : ".", name);
        if (written < PATH_MAX && is_executable_file(path))
            return SONDE_OK;
        at += len;
        more = *at == ':';
    }
    return sonde_fail(diag, SONDE_NOT_FOUND, "%.200s: command not found", name);
}

sonde_err executable_find(const char *name, char path[PATH_MAX], struct sonde_diag *diag) {
    if (!strchr(name, '/'))
        return *name ? find_in_path(name, path, diag)
                     : sonde_fail(diag, SONDE_NOT_FOUND, "the command is empty");
    snprintf(path, PATH_MAX, "%s", name);
    if (is_executable_file(path))
        return SONDE_OK;
    if (access(path, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR))
        return sonde_fail(diag, SONDE_NOT_FOUND, "%.200s: no such file", name);
    return sonde_fail(diag, SONDE_PERMISSION_DENIED, "%.200s: not an executable file", name);
}

/* True if the kernel starts the program with other privileges than ours. The dynamic linker then
 * ignores LD_PRELOAD. */
static bool changes_privileges(int fd) {
    struct stat info;
    if (fstat(fd, &info) != 0)
        return false;
    if ((info.st_mode & S_ISUID) && info.st_uid != geteuid())
        return true;
    if ((info.st_mode & S_ISGID) && (info.st_mode & S_IXGRP) && info.st_gid != getegid())
        return true;
    return geteuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0;
}

bool executable_interpreter(const struct elf_file *elf, char text[256]) {
    text[0] = 0;
    for (uint32_t i = 0; i < elf->segment_count; i++) {
        const Elf64_Phdr *segment = &elf->segments[i];
        if (segment->p_type != PT_INTERP)
            continue;
        size_t len = segment->p_filesz < 255 ? segment->p_filesz : 255;
        text[len] = 0;
        return elf_read(&elf->input, segment->p_offset, text, len);
    }
    return true;
}

static sonde_err check_interpreter(const char *path, const struct elf_file *elf,
                                   struct sonde_diag *diag) {
    char interpreter[256];
    if (!executable_interpreter(elf, interpreter))
        return SONDE_OK;
    const char *slash = strrchr(path, '/');
    enum program_kind kind = interpreter[0] ? PROGRAM_OTHER : program_kind_of_elf(elf);
    if (kind != PROGRAM_OTHER) {
        char advice[PROGRAM_ADVICE];
        program_advice(kind, slash ? slash + 1 : path, NULL, advice);
        return sonde_fail(diag, SONDE_NOT_AVAILABLE, "%s", advice);
    }
    if (!interpreter[0]) /* the program is the dynamic linker */
        snprintf(interpreter, sizeof interpreter, "%.255s", path);
    if (!dynamic_linker_is(interpreter) || strstr(interpreter, "musl"))
        return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                          "%.120s uses the dynamic linker %.60s, and libsonde.so needs glibc's",
                          path, interpreter);
    return SONDE_OK;
}

static sonde_err check_elf(const char *path, int fd, struct sonde_diag *diag) {
    struct elf_input input;
    struct elf_file elf = {0};
    if (!elf_input_of_file(fd, &input))
        return SONDE_OK;
    sonde_err opened = elf_open(&input, &elf, NULL), err = SONDE_OK;
    if (opened == SONDE_INVALID_ARGUMENT || elf.machine != EM_X86_64)
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                         "%.160s is not an x86-64 program; Sonde supports x86-64 only", path);
    else if (!opened)
        err = check_interpreter(path, &elf, diag);
    elf_finish(&elf);
    if (!err && changes_privileges(fd))
        err = sonde_fail(
            diag, geteuid() == 0 ? SONDE_NOT_AVAILABLE : SONDE_PERMISSION_DENIED,
            "%.160s is set-id or has file capabilities, so the dynamic linker ignores LD_PRELOAD; "
            "start it as the user it switches to, without those bits",
            path);
    return err;
}

/* If start is a "#!" line, writes its interpreter to `path`. */
static bool follow_script(const char *start, size_t len, char path[PATH_MAX]) {
    if (len < 3 || start[0] != '#' || start[1] != '!')
        return false;
    const char *at = start + 2, *end = start + len;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    size_t used = 0;
    while (at < end && used < PATH_MAX - 1 && *at > ' ')
        path[used++] = *at++;
    path[used] = 0;
    return used > 0;
}

/* Checks one file. Sets *again if the file is a script and `path` now names its interpreter. */
static sonde_err check_file(char path[PATH_MAX], bool *again, struct sonde_diag *diag) {
    *again = false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return SONDE_OK; /* executable but not readable: exec will report any problem */
    char start[256] = {0};
    ssize_t len = pread(fd, start, sizeof start, 0);
    sonde_err err = SONDE_OK;
    if (len >= (ssize_t)sizeof(Elf64_Ehdr) && memcmp(start, ELFMAG, SELFMAG) == 0)
        err = check_elf(path, fd, diag);
    else if (len > 0)
        *again = follow_script(start, (size_t)len, path);
    close(fd);
    return err;
}

sonde_err executable_check(const char *path, struct sonde_diag *diag) {
    char current[PATH_MAX];
    snprintf(current, sizeof current, "%s", path);
    bool again = true;
    sonde_err err = SONDE_OK;
    for (int level = 0; !err && again && level < MAX_SCRIPT_LEVELS; level++)
        err = check_file(current, &again, diag);
    return err;
}

bool executable_is_wrapper(const char *program) {
#define NAME(name) name,
    static const char *const names[] = {WRAPPER_PROGRAMS(NAME, NAME)};
    const char *slash = strrchr(program, '/');
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(slash ? slash + 1 : program, names[i]) == 0)
            return true;
    return dynamic_linker_is(program);
}

sonde_err executable_check_wrapped(char *const *argv, struct sonde_diag *diag) {
    char path[PATH_MAX], program[PATH_MAX] = "";
    bool is_linker = dynamic_linker_is(argv[0]);
    for (bool more = executable_is_wrapper(argv[0]); more && *++argv;) {
        if (is_linker && argv[1] && dynamic_linker_has_value(argv[0])) {
            argv++;
            continue;
        }
        if (argv[0][0] == '-' || executable_find(argv[0], path, NULL) != SONDE_OK)
            continue;
        memcpy(program, path, sizeof program);
        more = executable_is_wrapper(argv[0]);
        is_linker = dynamic_linker_is(argv[0]);
    }
    return program[0] ? executable_check(program, diag) : SONDE_OK;
}

static void note_section(struct executable_symbols *found, const Elf64_Shdr *section,
                         const char *name) {
    found->symtab |= section->sh_type == SHT_SYMTAB;
    found->dynsym |= section->sh_type == SHT_DYNSYM;
    found->debugdata |= strcmp(name, ".gnu_debugdata") == 0;
    found->debug_info |= strcmp(name, ".debug_info") == 0;
    found->build_id |= strcmp(name, ".note.gnu.build-id") == 0;
}

struct executable_symbols executable_symbols(int fd) {
    struct executable_symbols found = {0};
    struct elf_input input;
    struct elf_file elf = {0};
    if (!elf_input_of_file(fd, &input))
        return found;
    found.is_elf = elf_open(&input, &elf, NULL) != SONDE_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < elf.section_count; i++)
        note_section(&found, &elf.sections[i], elf_section_name(&elf, &elf.sections[i]));
    elf_finish(&elf);
    return found;
}
