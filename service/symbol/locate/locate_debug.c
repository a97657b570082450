/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/locate/locate.h"

#include "service/elf/sections.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define DEFAULT_ROOTS "/usr/lib/debug"

struct wanted {
    pid_t pid;
    bool is_beside; /* the candidate is in the file's own folder, where others may write */
    const struct elf_file *elf;
    uint8_t build_id[ELF_BUILD_ID_MAX];
    size_t build_id_len;
    uint32_t crc;
    bool by_crc;
};

static bool same_inode(int left, int right) {
    struct stat a, b;
    return fstat(left, &a) == 0 && fstat(right, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

static bool crc_fits(int fd, uint32_t wanted) {
    char bytes[64 << 10];
    uLong crc = crc32(0, NULL, 0);
    ssize_t len;
    for (off_t at = 0; (len = pread(fd, bytes, sizeof bytes, at)) > 0; at += len)
        crc = crc32(crc, (const Bytef *)bytes, (uInt)len);
    return len == 0 && (uint32_t)crc == wanted;
}

/* In a folder like /tmp everybody can offer a debug file. */
static bool has_fitting_owner(const struct wanted *wanted, int fd) {
    struct stat file, debug;
    return fstat(fd, &debug) == 0 &&
           (!wanted->is_beside || debug.st_uid == 0 || debug.st_uid == geteuid() ||
            (fstat(wanted->elf->input.fd, &file) == 0 && debug.st_uid == file.st_uid));
}

/* Compares build-ids if both files have one, else the checksum of the debuglink. */
static bool fits(const struct wanted *wanted, int fd) {
    struct elf_input input;
    struct elf_file elf = {0};
    uint8_t own[ELF_BUILD_ID_MAX];
    bool good = elf_input_of_file(fd, &input) && elf_open(&input, &elf, NULL) == SONDE_OK;
    size_t len = good ? elf_build_id(&elf, own) : 0;
    if (good && wanted->build_id_len > 0 && len > 0)
        good = len == wanted->build_id_len && memcmp(own, wanted->build_id, len) == 0;
    else
        good = good && wanted->by_crc && crc_fits(fd, wanted->crc);
    elf_finish(&elf);
    return good;
}

/* Tries the path in the process's root, then in ours. */
static int try_path(const struct wanted *wanted, const char *path) {
    pid_t roots[2] = {wanted->pid, 0};
    for (int i = wanted->pid ? 0 : 1; i < 2; i++) {
        int fd = symbol_open_in_root(roots[i], path);
        bool itself =
            fd >= 0 && wanted->elf->input.fd >= 0 && same_inode(fd, wanted->elf->input.fd);
        if (fd >= 0 && !itself && has_fitting_owner(wanted, fd) && fits(wanted, fd))
            return fd;
        if (fd >= 0)
            close(fd);
    }
    return -1;
}

/* Tries root + rest for each of the ':'-separated roots. */
static int try_roots(const struct wanted *wanted, const char *roots, const char *rest) {
    char path[PATH_MAX];
    for (const char *at = roots; *at;) {
        size_t len = strcspn(at, ":");
        int fd = -1;
        if (len > 0 &&
            (size_t)snprintf(path, sizeof path, "%.*s%s", (int)len, at, rest) < sizeof path)
            fd = try_path(wanted, path);
        if (fd >= 0)
            return fd;
        at += len + (at[len] == ':');
    }
    return -1;
}

static int try_build_id(const struct wanted *wanted, const char *roots) {
    char rest[ELF_BUILD_ID_MAX * 2 + 32];
    if (wanted->build_id_len < 2)
        return -1;
    int len = snprintf(rest, sizeof rest, "/.build-id/%02x/", wanted->build_id[0]);
    for (size_t i = 1; i < wanted->build_id_len; i++)
        len += snprintf(rest + len, sizeof rest - (size_t)len, "%02x", wanted->build_id[i]);
    snprintf(rest + len, sizeof rest - (size_t)len, ".debug");
    return try_roots(wanted, roots, rest);
}

static int try_link(struct wanted *wanted, const char *path, const char *name, const char *roots) {
    char candidate[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int directory = slash ? (int)(slash - path) : 0, fd = -1;
    if (path[0] != '/')
        return -1;
    wanted->is_beside = true;
    if (snprintf(candidate, sizeof candidate, "%.*s/%s", directory, path, name) < PATH_MAX)
        fd = try_path(wanted, candidate);
    if (fd < 0 &&
        snprintf(candidate, sizeof candidate, "%.*s/.debug/%s", directory, path, name) < PATH_MAX)
        fd = try_path(wanted, candidate);
    wanted->is_beside = false;
    if (fd < 0 &&
        snprintf(candidate, sizeof candidate, "%.*s/%s", directory, path, name) < PATH_MAX)
        fd = try_roots(wanted, roots, candidate);
    return fd;
}

int symbol_locate_debug(const struct elf_file *elf, pid_t pid, const char *path,
                        const char *roots) {
    struct wanted wanted = {.pid = pid, .elf = elf};
    char name[NAME_MAX + 1];
    roots = roots ? roots : DEFAULT_ROOTS;
    wanted.build_id_len = elf_build_id(elf, wanted.build_id);
    int fd = try_build_id(&wanted, roots);
    wanted.by_crc = elf_debuglink(elf, name, sizeof name, &wanted.crc);
    if (fd < 0 && wanted.by_crc)
        fd = try_link(&wanted, path, name, roots);
    return fd;
}

int symbol_locate_alt(const struct elf_file *elf, pid_t pid, const char *near, const char *roots) {
    struct wanted wanted = {.pid = pid, .elf = elf};
    char path[PATH_MAX], beside[PATH_MAX];
    wanted.build_id_len = elf_altlink(elf, path, sizeof path, wanted.build_id);
    if (wanted.build_id_len == 0)
        return -1;
    int fd = try_build_id(&wanted, roots ? roots : DEFAULT_ROOTS);
    const char *slash = strrchr(near, '/');
    if (fd < 0 && path[0] == '/')
        fd = try_path(&wanted, path);
    else if (fd < 0 && slash &&
             snprintf(beside, sizeof beside, "%.*s/%s", (int)(slash - near), near, path) < PATH_MAX)
        fd = try_path(&wanted, beside);
    return fd;
}

int symbol_locate_alt_of(int fd, pid_t pid, const char *roots) {
    char link[64], path[PATH_MAX];
    struct elf_input input;
    struct elf_file elf = {0};
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    path[len > 0 ? len : 0] = 0;
    int alt = -1;
    if (elf_input_of_file(fd, &input) && elf_open(&input, &elf, NULL) == SONDE_OK)
        alt = symbol_locate_alt(&elf, pid, path, roots);
    elf_finish(&elf);
    return alt;
}
