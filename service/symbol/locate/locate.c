/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/locate/locate.h"

#include "service/process/foreign_memory.h"
#include "service/process/process_file.h"
#include "service/process/process_identity.h"
#include "service/symbol/locate/proc_maps.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* --- opening ---------------------------------------------------------------------------------- */

/* Opens regular files only. O_NONBLOCK and O_NOCTTY make it harmless to try a FIFO or a
 * terminal. */
static int open_regular(int directory, const char *path, int flags) {
    int fd = openat(directory, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
    struct stat info;
    if (fd >= 0 && (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Uses openat2, so that absolute symbolic links are followed inside the other root. */
static int open_beneath(int directory, const char *path, int flags) {
    struct open_how how = {.flags =
                               (uint64_t)(O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags),
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    int fd = (int)syscall(SYS_openat2, directory, path, &how, sizeof how);
    struct stat info;
    if (fd < 0 && errno == ENOSYS)
        fd = open_regular(directory, path[0] == '/' ? path + 1 : path, flags);
    if (fd >= 0 && (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static int open_in_root(pid_t pid, const char *path, int flags) {
    if (pid == 0)
        return open_regular(AT_FDCWD, path, flags);
    int root = process_file_open(PROCESS_ROOT, pid, 0, 0);
    int fd = root >= 0 ? open_beneath(root, path, flags) : -1;
    if (root >= 0)
        close(root);
    return fd;
}

int symbol_open_in_root(pid_t pid, const char *path) {
    return open_in_root(pid, path, 0);
}

int symbol_open_no_link(pid_t pid, const char *path) {
    return open_in_root(pid, path, O_NOFOLLOW);
}

/* --- identity --------------------------------------------------------------------------------- */

/* The build-id in the process's memory, where the file's first bytes are mapped. */
struct memory_identity {
    bool is_known;   /* the process still has the mapping */
    bool is_claimed; /* under another path than the kernel says: its memory is not read */
    uint8_t build_id[ELF_BUILD_ID_MAX];
    size_t build_id_len;
};

static bool same_file(const struct symbol_mapping *a, const struct symbol_mapping *b) {
    return a->inode == b->inode && a->device_major == b->device_major &&
           a->device_minor == b->device_minor;
}

/* The kernel shows a path as this process sees it: for a process with another root, it may begin
 * with that root. */
static bool ends_with(const char *path, const char *end) {
    size_t len = strlen(path), end_len = strlen(end);
    return len >= end_len && strcmp(path + len - end_len, end) == 0;
}

/* Finds the nearest mapping of the file's first bytes, at or below the given one. */
static void find_header(pid_t pid, const struct symbol_mapping *mapping,
                        struct symbol_mapping *header, struct memory_identity *identity) {
    struct proc_maps_reader reader;
    struct proc_maps_line line;
    *header = (struct symbol_mapping){0};
    proc_maps_begin(&reader, pid, mapping->maps);
    while (proc_maps_next(&reader, &line)) {
        if (!same_file(&line.mapping, mapping) || line.mapping.start > mapping->start)
            continue;
        if (line.mapping.offset == 0)
            *header = line.mapping;
        if (mapping->start >= line.mapping.end)
            continue;
        identity->is_known = true;
        identity->is_claimed = !ends_with(line.mapping.path, mapping->path);
    }
    proc_maps_end(&reader);
    header->path = "";
}

/* Of a file's first mapping, this much is read: its headers and notes. */
#define HEADER_BYTES 65536u

/* Copies the memory of a mapping to a memfd; -1 = it cannot be read. */
static int copy_memory(pid_t pid, const struct symbol_mapping *mapping, uint64_t *len) {
    uint64_t want = mapping->end - mapping->start;
    char *bytes = malloc(HEADER_BYTES);
    int memory = process_file_open(PROCESS_MEMORY, pid, 0, 0);
    want = want < HEADER_BYTES ? want : HEADER_BYTES;
    *len = bytes ? foreign_memory_read_file(memory, pid, mapping->start, bytes, want) : 0;
    int copy = *len > 0 ? memfd_create("sonde-header", MFD_CLOEXEC) : -1;
    if (copy >= 0 && write(copy, bytes, *len) != (ssize_t)*len) {
        close(copy);
        copy = -1;
    }
    if (memory >= 0)
        close(memory);
    free(bytes);
    return copy;
}

static void read_memory(pid_t pid, const struct symbol_mapping *mapping,
                        struct memory_identity *identity) {
    struct symbol_mapping header;
    *identity = (struct memory_identity){0};
    find_header(pid, mapping, &header, identity);
    if (!identity->is_known || identity->is_claimed || header.end == 0)
        return;
    struct elf_input input = {0};
    struct elf_file elf = {0};
    input.fd = copy_memory(pid, &header, &input.size);
    if (input.fd >= 0 && elf_open(&input, &elf, NULL) == SONDE_OK)
        identity->build_id_len = elf_build_id(&elf, identity->build_id);
    elf_finish(&elf);
    if (input.fd >= 0)
        close(input.fd);
}

static bool has_build_id(int fd, const uint8_t *build_id, size_t len) {
    struct elf_input input;
    struct elf_file elf = {0};
    uint8_t own[ELF_BUILD_ID_MAX];
    bool fits = len > 0 && elf_input_of_file(fd, &input) &&
                elf_open(&input, &elf, NULL) == SONDE_OK && elf_build_id(&elf, own) == len &&
                memcmp(own, build_id, len) == 0;
    elf_finish(&elf);
    return fits;
}

static bool has_inode(int fd, const struct symbol_mapping *mapping) {
    struct stat info;
    return fstat(fd, &info) == 0 && info.st_ino == mapping->inode &&
           major(info.st_dev) == mapping->device_major &&
           minor(info.st_dev) == mapping->device_minor;
}

/* False if the file certainly is another one: file systems use the numbers of deleted inodes again,
 * with another generation. The kernel writes an int, in spite of the ioctl's number. */
static bool has_generation(int fd, const struct symbol_mapping *mapping) {
    long generation = 0;
    return mapping->inode_generation == 0 || ioctl(fd, FS_IOC_GETVERSION, &generation) != 0 ||
           (uint32_t)generation == (uint32_t)mapping->inode_generation;
}

/* --- the mapped file -------------------------------------------------------------------------- */

struct search {
    pid_t pid;
    const struct symbol_mapping *mapping;
    struct memory_identity memory;
    bool memory_read; /* or it is not to be read */
    bool saw_other;   /* a path led to another file */
};

/* Returns fd if it is the mapped file. `by_kernel`: fd was opened by the mapping itself, so it is
 * enough that the mapping still exists. (On overlayfs, maps and stat show different devices.) */
static int accept(struct search *search, int fd, bool by_kernel) {
    if (fd < 0)
        return fd;
    bool has_number = has_inode(fd, search->mapping);
    bool is_successor = (has_number || by_kernel) && !has_generation(fd, search->mapping);
    if (has_number && !is_successor)
        return fd;
    if (is_successor)
        search->memory = (struct memory_identity){0}; /* it is mapped there now */
    else if (!search->memory_read)
        read_memory(search->pid, search->mapping, &search->memory);
    search->memory_read = true;
    if ((by_kernel && search->memory.is_known) ||
        has_build_id(fd, search->memory.build_id, search->memory.build_id_len))
        return fd;
    search->saw_other = true;
    close(fd);
    return -1;
}

int symbol_open_mapped(pid_t pid, const struct symbol_mapping *mapping) {
    char path[PROCESS_MAPPED_PATH];
    process_mapped_path(pid, mapping->start, mapping->end, path);
    process_rights_pause();
    int found = open(path, O_PATH | O_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", found);
    int fd = process_rights_resume() && found >= 0 ? open_regular(AT_FDCWD, path, 0) : -1;
    if (found >= 0)
        close(found);
    /* Root's sonded has found it, or may not read it with the rights of the process. */
    if (fd < 0 && geteuid() != 0)
        fd = process_file_open(PROCESS_MAPPED, pid, mapping->start, mapping->end);
    return fd >= 0 ? fd : -1;
}

/* A deleted program can be opened this way without privileges. */
static int try_exe(struct search *search) {
    int fd = process_file_open_own(PROCESS_EXE, search->pid, 0, 0);
    if (fd >= 0 && !(has_inode(fd, search->mapping) && has_generation(fd, search->mapping))) {
        close(fd);
        return -1;
    }
    return fd;
}

int symbol_locate_file(pid_t pid, const struct symbol_mapping *mapping,
                       enum symbol_reason *reason) {
    struct search search = {.pid = pid, .mapping = mapping};
    int fd = accept(&search, symbol_open_mapped(pid, mapping), true);
    if (fd < 0)
        fd = try_exe(&search);
    if (fd < 0)
        fd = accept(&search, symbol_open_in_root(pid, mapping->path), false);
    if (fd < 0)
        fd = accept(&search, symbol_open_in_root(0, mapping->path), false);
    bool is_replaced = mapping->is_deleted || search.saw_other;
    *reason = fd >= 0       ? SYMBOL_REASON_NONE
              : is_replaced ? SYMBOL_REASON_BINARY_REPLACED
                            : SYMBOL_REASON_NO_FILE;
    return fd;
}

/* --- the vdso --------------------------------------------------------------------------------- */

int symbol_vdso_open(uint64_t *size) {
    char text[PATH_MAX + 128];
    struct proc_maps_line line = {0};
    FILE *maps = proc_maps_open(getpid());
    bool found = false;
    while (maps && !found && fgets(text, sizeof text, maps))
        found = proc_maps_parse(text, &line) && strcmp(line.mapping.path, "[vdso]") == 0;
    if (maps)
        fclose(maps);
    size_t len = found ? line.mapping.end - line.mapping.start : 0;
    int fd = found ? memfd_create("sonde-vdso", MFD_CLOEXEC) : -1;
    static const struct timespec times[2] = {{0}, {0}}; /* all copies have one identity */
    bool good = fd >= 0 && fchmod(fd, 0600) == 0 &&     /* others may not write it: it is trusted */
                write(fd, (const void *)(uintptr_t)line.mapping.start, len) == (ssize_t)len &&
                futimens(fd, times) == 0;
    if (fd >= 0 && !good) {
        close(fd);
        fd = -1;
    }
    *size = fd >= 0 ? len : 0;
    return fd;
}

void symbol_kernel_build_id(char text[2 * ELF_BUILD_ID_MAX + 1]) {
    uint8_t notes[4096], build_id[ELF_BUILD_ID_MAX];
    int fd = open("/sys/kernel/notes", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, notes, sizeof notes) : -1;
    if (fd >= 0)
        close(fd);
    size_t len = got > 0 ? elf_build_id_of_notes(notes, (size_t)got, build_id) : 0;
    text[0] = 0;
    for (size_t i = 0; i < len; i++)
        snprintf(text + 2 * i, 3, "%02x", build_id[i]);
}
