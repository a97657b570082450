/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloading is the dynamic linker's work. It happens only when the kernel starts a program by way
 * of PT_INTERP, when that interpreter is glibc's of our own machine (libsonde.so is linked against
 * it), and when the kernel has not set AT_SECURE, which it does for set-id files. */
#include "clients/cli/run/executable.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define MAX_PROGRAM_HEADERS 128
#define MAX_SCRIPT_LEVELS   4
#define MAX_SECTIONS        8192
#define MAX_SECTION_NAMES   65536

static bool read_at(int fd, void *data, size_t len, uint64_t offset) {
    return offset < INT64_MAX - len && pread(fd, data, len, (off_t)offset) == (ssize_t)len;
}

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

sonde_err program_find(const char *name, char path[PATH_MAX], struct sonde_diag *diag) {
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

/* Does the kernel give the program other rights than ours? Then the linker ignores LD_PRELOAD. */
static bool changes_rights(int fd) {
    struct stat info;
    if (fstat(fd, &info) != 0)
        return false;
    if ((info.st_mode & S_ISUID) && info.st_uid != geteuid())
        return true;
    if ((info.st_mode & S_ISGID) && (info.st_mode & S_IXGRP) && info.st_gid != getegid())
        return true;
    return geteuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0;
}

/* The text of PT_INTERP: 1 found, 0 none, -1 not readable. */
static int read_interpreter(int fd, const Elf64_Ehdr *header, char text[256]) {
    Elf64_Phdr segments[MAX_PROGRAM_HEADERS];
    if (header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phnum > MAX_PROGRAM_HEADERS ||
        !read_at(fd, segments, header->e_phnum * sizeof(Elf64_Phdr), header->e_phoff))
        return -1;
    for (size_t i = 0; i < header->e_phnum; i++) {
        if (segments[i].p_type != PT_INTERP)
            continue;
        size_t len = segments[i].p_filesz < 255 ? segments[i].p_filesz : 255;
        if (!read_at(fd, text, len, segments[i].p_offset))
            return -1;
        text[len] = 0;
        return 1;
    }
    return 0;
}

static sonde_err check_elf(const char *path, int fd, const Elf64_Ehdr *header,
                           struct sonde_diag *diag) {
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != EM_X86_64)
        return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                          "%.160s is not an x86-64 program; Sonde supports x86-64 only", path);
    char interpreter[256];
    int found = read_interpreter(fd, header, interpreter);
    if (found == 0)
        return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                          "%.160s is statically linked, so libsonde.so cannot be preloaded; link "
                          "it dynamically (Go: -linkmode=external)",
                          path);
    if (found > 0 && !strstr(interpreter, "ld-linux"))
        return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                          "%.120s uses the dynamic linker %.60s; Sonde needs glibc's", path,
                          interpreter);
    if (changes_rights(fd))
        return sonde_fail(
            diag, SONDE_NOT_AVAILABLE,
            "%.160s is set-id or has file capabilities, so the dynamic linker ignores LD_PRELOAD; "
            "start it as the user it switches to, without those bits",
            path);
    return SONDE_OK;
}

/* Leaves the interpreter's path of a "#!" line in `path`. */
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

/* One file; *again when `path` now names an interpreter to look at. */
static sonde_err check_file(char path[PATH_MAX], bool *again, struct sonde_diag *diag) {
    *again = false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return SONDE_OK; /* executable, but not readable: the kernel will tell */
    char start[256] = {0};
    ssize_t len = pread(fd, start, sizeof start, 0);
    sonde_err err = SONDE_OK;
    Elf64_Ehdr header;
    if (len >= (ssize_t)sizeof header && memcmp(start, ELFMAG, SELFMAG) == 0) {
        memcpy(&header, start, sizeof header);
        err = check_elf(path, fd, &header, diag);
    } else if (len > 0) {
        *again = follow_script(start, (size_t)len, path);
    }
    close(fd);
    return err;
}

sonde_err program_check(const char *path, struct sonde_diag *diag) {
    char current[PATH_MAX];
    snprintf(current, sizeof current, "%s", path);
    bool again = true;
    sonde_err err = SONDE_OK;
    for (int level = 0; !err && again && level < MAX_SCRIPT_LEVELS; level++)
        err = check_file(current, &again, diag);
    return err;
}

/* The bytes of one section, NUL-terminated; the caller frees. */
static char *read_section(int fd, const Elf64_Shdr *section, size_t limit) {
    if (section->sh_size == 0 || section->sh_size > limit)
        return NULL;
    char *bytes = calloc(1, section->sh_size + 1);
    if (bytes && !read_at(fd, bytes, section->sh_size, section->sh_offset)) {
        free(bytes);
        return NULL;
    }
    return bytes;
}

static void note_section(struct program_symbols *found, const Elf64_Shdr *section,
                         const char *name) {
    found->symtab |= section->sh_type == SHT_SYMTAB;
    found->dynsym |= section->sh_type == SHT_DYNSYM;
    found->debugdata |= strcmp(name, ".gnu_debugdata") == 0;
    found->debug_info |= strcmp(name, ".debug_info") == 0;
    found->build_id |= strcmp(name, ".note.gnu.build-id") == 0;
}

static void note_sections(int fd, const Elf64_Ehdr *header, struct program_symbols *found) {
    size_t count = header->e_shnum;
    if (count == 0 || count > MAX_SECTIONS || header->e_shstrndx >= count ||
        header->e_shentsize != sizeof(Elf64_Shdr))
        return;
    Elf64_Shdr *sections = calloc(count, sizeof *sections);
    if (sections && read_at(fd, sections, count * sizeof *sections, header->e_shoff)) {
        const Elf64_Shdr *names_section = &sections[header->e_shstrndx];
        char *names = read_section(fd, names_section, MAX_SECTION_NAMES);
        for (size_t i = 0; names && i < count; i++)
            if (sections[i].sh_name < names_section->sh_size)
                note_section(found, &sections[i], names + sections[i].sh_name);
        free(names);
    }
    free(sections);
}

struct program_symbols program_symbols(int fd) {
    struct program_symbols found = {0};
    Elf64_Ehdr header;
    if (read_at(fd, &header, sizeof header, 0) && memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
        header.e_ident[EI_CLASS] == ELFCLASS64) {
        found.is_elf = true;
        note_sections(fd, &header, &found);
    }
    return found;
}
