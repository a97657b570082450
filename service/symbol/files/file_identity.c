/* SPDX-License-Identifier: Apache-2.0
 *
 * A shared key is "<build-id>-<hash>" or "file-<hash>". An untrusted file adds
 * "-<owner>.<device>.<inode>.<size>.<change time>", a debug file "-<owner>.<hash of these>". Nobody
 * can make files of another owner, so a user could only find collisions among its own files. */
#include "service/symbol/files/file_identity.h"

#include "service/symbol/table/checksum.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#define FUSE_MAGIC 0x65735546

static uint64_t change_ns(const struct stat *info) {
    return (uint64_t)info->st_ctim.tv_sec * 1000000000u + (uint64_t)info->st_ctim.tv_nsec;
}

bool file_is_trusted(const struct stat *file, long file_system) {
    return (file->st_uid == 0 || file->st_uid == geteuid()) &&
           (file->st_mode & (S_IWGRP | S_IWOTH)) == 0 && file_system != FUSE_MAGIC;
}

static bool is_trusted(int fd, const struct stat *file) {
    struct statfs system;
    return fstatfs(fd, &system) == 0 && file_is_trusted(file, (long)system.f_type);
}

bool file_is_public(int fd) {
    struct stat info;
    return fd >= 0 && fstat(fd, &info) == 0 && is_trusted(fd, &info) &&
           (geteuid() != 0 || (info.st_mode & S_IROTH));
}

void file_identity(int fd, const char *content, char key[FILE_IDENTITY_MAX]) {
    struct stat info = {0};
    bool known = fstat(fd, &info) == 0;
    if (known && is_trusted(fd, &info))
        snprintf(key, FILE_IDENTITY_MAX, "%s", content);
    else
        snprintf(key, FILE_IDENTITY_MAX, "%s-%x.%llx.%llx.%llx.%llx", content,
                 known ? info.st_uid : ~0u, (unsigned long long)info.st_dev,
                 (unsigned long long)info.st_ino, (unsigned long long)info.st_size,
                 (unsigned long long)change_ns(&info));
}

bool file_identity_add_debug(int fd, char key[FILE_IDENTITY_MAX]) {
    struct stat info;
    if (fd < 0 || file_is_public(fd))
        return true;
    if (fstat(fd, &info) != 0)
        return false;
    uint64_t fields[] = {info.st_dev, info.st_ino, (uint64_t)info.st_size, change_ns(&info)};
    char text[32];
    size_t len = strlen(key),
           more = (size_t)snprintf(text, sizeof text, "-%x.%016llx", info.st_uid,
                                   (unsigned long long)symbol_checksum(0, fields, sizeof fields));
    if (len + more >= FILE_IDENTITY_MAX)
        return false;
    memcpy(key + len, text, more + 1);
    return true;
}

bool file_identity_is_shared(const char *key) {
    const char *dash = strchr(key, '-');
    return dash && !strchr(dash + 1, '-');
}

bool file_is_unchanged(const struct stat *before, const struct stat *now) {
    return before->st_dev == now->st_dev && before->st_ino == now->st_ino &&
           before->st_size == now->st_size && before->st_uid == now->st_uid &&
           before->st_mode == now->st_mode && change_ns(before) == change_ns(now) &&
           before->st_mtim.tv_sec == now->st_mtim.tv_sec &&
           before->st_mtim.tv_nsec == now->st_mtim.tv_nsec;
}
