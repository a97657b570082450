/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/guest/fake_tables.h"

#include "service/unwind/table/table_build.h"
#include "tests/unit/check.h"

#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST_FILES 256

static struct known {
    char path[256];
    uint64_t inode, bytes;
    int fd;
} files[MOST_FILES];
static int file_count;

static int seal(const struct sonde_buf *table) {
    int fd = memfd_create("table", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(write(fd, table->data, table->len) == (ssize_t)table->len);
    CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) == 0);
    return fd;
}

static struct known *compile(const sonde_guest_v1_Mapping *mapping) {
    for (int i = 0; i < file_count; i++)
        if (files[i].inode == mapping->inode && strcmp(files[i].path, mapping->path) == 0)
            return &files[i];
    if (file_count == MOST_FILES)
        return NULL;
    struct known *file = &files[file_count++];
    struct sonde_buf table = {0};
    int fd = open(mapping->path, O_RDONLY | O_CLOEXEC);
    snprintf(file->path, sizeof file->path, "%s", mapping->path);
    file->inode = mapping->inode;
    file->fd = -1;
    if (fd >= 0 && unwind_table_build(fd, &table, NULL) == SONDE_OK) {
        file->bytes = table.len;
        file->fd = seal(&table);
    }
    sonde_buf_finish(&table);
    if (fd >= 0)
        close(fd);
    return file;
}

static bool find_bias(const sonde_guest_v1_Mapping *mapping, uint64_t *bias) {
    Elf64_Ehdr header;
    Elf64_Phdr segment;
    bool found = false;
    int fd = open(mapping->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || pread(fd, &header, sizeof header, 0) != sizeof header)
        header.e_phnum = 0;
    for (int i = 0; i < header.e_phnum && !found; i++) {
        off_t at = (off_t)(header.e_phoff + (uint64_t)i * sizeof segment);
        if (pread(fd, &segment, sizeof segment, at) != sizeof segment ||
            segment.p_type != PT_LOAD || !(segment.p_flags & PF_X))
            continue;
        uint64_t start = segment.p_offset & ~4095ull;
        found = mapping->offset >= start && mapping->offset < segment.p_offset + segment.p_filesz;
        *bias = mapping->start - (segment.p_vaddr - segment.p_offset + mapping->offset);
    }
    if (fd >= 0)
        close(fd);
    return found;
}

int fake_table(const sonde_guest_v1_Mapping *mapping, uint64_t *bias, uint64_t *bytes) {
    if (mapping->path[0] != '/' || !find_bias(mapping, bias))
        return -1;
    const struct known *file = compile(mapping);
    if (!file || file->fd < 0)
        return -1;
    *bytes = file->bytes;
    return fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
}

int fake_table_without_seals(int fd, uint64_t bytes) {
    int other = memfd_create("unsealed", MFD_CLOEXEC);
    CHECK(other >= 0 && ftruncate(other, (off_t)bytes) == 0);
    close(fd);
    return other;
}
