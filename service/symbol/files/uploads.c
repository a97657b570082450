/* SPDX-License-Identifier: Apache-2.0
 *
 * Debug files from outside: written to a temporary file, judged when they are whole, then named by
 * the build-id that is in them. */
#include "service/elf/sections.h"
#include "service/symbol/files/files.h"
#include "service/symbol/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STALE_S 3600

struct symbol_upload {
    struct symbol_store *store;
    int fd;
    uint64_t size, written;
    char name[64]; /* below the cache directory */
};

static bool make_directory(const struct symbol_store *store, const char *path) {
    return mkdirat(store->cache.directory, path, 0700) == 0 || errno == EEXIST;
}

/* What an earlier service began and never ended. */
static void remove_stale(const struct symbol_store *store) {
    int fd = openat(store->cache.directory, "uploads", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = fd >= 0 ? fdopendir(fd) : NULL;
    if (!listing && fd >= 0)
        close(fd);
    for (struct dirent *item; listing && (item = readdir(listing)) != NULL;) {
        struct stat about;
        if (strncmp(item->d_name, "tmp.", 4) == 0 &&
            fstatat(fd, item->d_name, &about, AT_SYMLINK_NOFOLLOW) == 0 &&
            time(NULL) - about.st_mtime > STALE_S)
            unlinkat(fd, item->d_name, 0);
    }
    if (listing)
        closedir(listing);
}

static uint64_t bytes_kept(struct symbol_store *store) {
    struct symbol_file *files;
    size_t count;
    uint64_t bytes = 0;
    if (symbol_files_list(store, &files, &count, NULL) != SONDE_OK)
        return 0;
    for (size_t i = 0; i < count; i++)
        bytes += files[i].kind == SYMBOL_FILE_UPLOAD ? files[i].bytes : 0;
    free(files);
    return bytes;
}

/* Sets aside room for the whole file. */
static sonde_err reserve(struct symbol_store *store, uint64_t size, struct sonde_diag *diag) {
    uint64_t kept = bytes_kept(store);
    lock_take(&store->lock);
    bool fits = size <= store->upload_limit && kept <= store->upload_limit - size &&
                store->uploading <= store->upload_limit - size - kept;
    if (fits)
        store->uploading += size;
    lock_drop(&store->lock);
    if (fits)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_TOO_LARGE,
                      "uploads may take %llu MiB here and %llu MiB are taken: evict some first",
                      (unsigned long long)(store->upload_limit >> 20),
                      (unsigned long long)(kept >> 20));
}

static void give_back(struct symbol_store *store, uint64_t size) {
    lock_take(&store->lock);
    store->uploading -= size;
    lock_drop(&store->lock);
}

static sonde_err create(struct symbol_upload *upload, struct sonde_diag *diag) {
    static atomic_uint serial;
    struct symbol_store *store = upload->store;
    if (!make_directory(store, "uploads") || !make_directory(store, "uploads/.build-id"))
        return sonde_fail_os(diag, errno, "the directory for uploads cannot be made");
    remove_stale(store);
    snprintf(upload->name, sizeof upload->name, "uploads/tmp.%d.%u", (int)getpid(),
             atomic_fetch_add(&serial, 1));
    unlinkat(store->cache.directory, upload->name, 0); /* of an earlier process with this pid */
    upload->fd = openat(store->cache.directory, upload->name,
                        O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    return upload->fd >= 0 ? SONDE_OK
                           : sonde_fail_os(diag, errno, "a file for the upload cannot be made");
}

sonde_err symbol_upload_begin(struct symbol_store *store, uint64_t size,
                              struct symbol_upload **upload, struct sonde_diag *diag) {
    *upload = NULL;
    if (store->cache.directory < 0 || !store->has_uploads)
        return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                          "the service has no directory for uploads: start it with a data "
                          "directory whose path has no colon");
    if (size == 0 || size > SYMBOL_UPLOAD_MAX)
        return sonde_fail(diag, size ? SONDE_TOO_LARGE : SONDE_INVALID_ARGUMENT,
                          "size_bytes: \"%llu\" is not a whole number from 1 to %llu",
                          (unsigned long long)size, (unsigned long long)SYMBOL_UPLOAD_MAX);
    sonde_err err = reserve(store, size, diag);
    if (err)
        return err;
    struct symbol_upload *made = calloc(1, sizeof *made);
    if (!made) {
        give_back(store, size);
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for an upload");
    }
    *made = (struct symbol_upload){.store = store, .fd = -1, .size = size};
    err = create(made, diag);
    if (err)
        symbol_upload_abandon(made);
    else
        *upload = made;
    return err;
}

sonde_err symbol_upload_write(struct symbol_upload *upload, const void *bytes, size_t len,
                              struct sonde_diag *diag) {
    if (len > upload->size - upload->written)
        return sonde_fail(diag, SONDE_TOO_LARGE,
                          "more came than the %llu bytes that were announced",
                          (unsigned long long)upload->size);
    while (len > 0) {
        ssize_t done = write(upload->fd, bytes, len);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return sonde_fail_os(diag, errno, "the upload cannot be written");
        bytes = (const char *)bytes + done;
        len -= (size_t)done;
        upload->written += (uint64_t)done;
    }
    return SONDE_OK;
}

uint64_t symbol_upload_missing(const struct symbol_upload *upload) {
    return upload->size - upload->written;
}

/* --- the judgement -----------------------------------------------------------------------------
 */

static bool has_symbols(const struct elf_file *elf) {
    for (uint32_t i = 0; i < elf->section_count; i++)
        if (elf->sections[i].sh_type == SHT_SYMTAB && elf->sections[i].sh_size > 0)
            return true;
    return elf_section(elf, ".gnu_debugdata") != NULL;
}

static sonde_err judge_elf(const struct elf_file *elf, struct symbol_file *file,
                           struct sonde_diag *diag) {
    uint8_t build_id[ELF_BUILD_ID_MAX];
    size_t len = elf_build_id(elf, build_id);
    bool dwarf = elf_has_dwarf(elf);
    if (len < 2)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "the file has no build-id, so nothing could find it: link the program "
                          "with -Wl,--build-id");
    if (!dwarf && !has_symbols(elf))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "the file has neither DWARF nor a symbol table: upload the program as it "
                          "was before it was stripped, or its .debug file");
    for (size_t i = 0; i < len; i++)
        snprintf(file->build_id + 2 * i, 3, "%02x", build_id[i]);
    snprintf(file->identity, sizeof file->identity, "upload-%s", file->build_id);
    file->quality = dwarf ? SYMBOL_FULL : SYMBOL_NAMES;
    return SONDE_OK;
}

static sonde_err judge(const struct symbol_upload *upload, struct symbol_file *file,
                       struct sonde_diag *diag) {
    struct elf_input input;
    struct elf_file elf = {0};
    if (upload->written < upload->size)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "the upload ended after %llu of %llu bytes: send it again",
                          (unsigned long long)upload->written, (unsigned long long)upload->size);
    sonde_err err = SONDE_CORRUPT;
    if (elf_input_of_file(upload->fd, &input))
        err = elf_open(&input, &elf, NULL);
    if (err == SONDE_CORRUPT || err == SONDE_INVALID_ARGUMENT)
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT, "not a 64-bit little-endian ELF file");
    if (!err)
        err = judge_elf(&elf, file, diag);
    elf_finish(&elf);
    return err;
}

/* The file is whole on disk before it has its name, and the name before we say so. */
static sonde_err keep(struct symbol_upload *upload, const struct symbol_file *file,
                      struct sonde_diag *diag) {
    int directory = upload->store->cache.directory;
    char folder[32], path[SYMBOL_BUILD_ID_TEXT + 32];
    snprintf(folder, sizeof folder, "uploads/.build-id/%.2s", file->build_id);
    snprintf(path, sizeof path, "%s/%s.debug", folder, file->build_id + 2);
    if (!make_directory(upload->store, folder) || fsync(upload->fd) != 0 ||
        renameat(directory, upload->name, directory, path) != 0)
        return sonde_fail_os(diag, errno, "the upload cannot be kept");
    upload->name[0] = 0;
    int fd = openat(directory, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    return SONDE_OK;
}

sonde_err symbol_upload_finish(struct symbol_upload *upload, struct symbol_file *file,
                               struct sonde_diag *diag) {
    struct stat about = {0};
    *file =
        (struct symbol_file){.kind = SYMBOL_FILE_UPLOAD, .state = SYMBOL_FILE_READY, .reason = ""};
    sonde_err err = judge(upload, file, diag);
    if (!err)
        err = keep(upload, file, diag);
    if (!err && fstat(upload->fd, &about) == 0) {
        file->bytes = (uint64_t)about.st_blocks * 512;
        file->used_unix_ns = about.st_mtim.tv_sec * INT64_C(1000000000) + about.st_mtim.tv_nsec;
    }
    if (!err)
        symbol_archive_refresh(upload->store, file->build_id);
    symbol_upload_abandon(upload);
    return err;
}

void symbol_upload_abandon(struct symbol_upload *upload) {
    if (!upload)
        return;
    if (upload->fd >= 0)
        close(upload->fd);
    if (upload->name[0])
        unlinkat(upload->store->cache.directory, upload->name, 0);
    give_back(upload->store, upload->size);
    free(upload);
}
