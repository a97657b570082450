/* SPDX-License-Identifier: Apache-2.0
 *
 * Uploaded debug files. An upload is written to a temporary file and checked when it is complete;
 * then it is renamed to the build-id found in it, and open modules with that build-id use it. */
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

#define STALE_S 3600 /* age of temporary files that are removed */

struct symbol_upload {
    struct symbol_store *store;
    int fd;
    uint64_t size, written;
    char name[64]; /* below the cache directory */
};

static bool make_directory(const struct symbol_store *store, const char *path) {
    return mkdirat(store->cache.directory, path, 0700) == 0 || errno == EEXIST;
}

/* Removes temporary files of a service that ended during an upload. */
static void remove_stale(const struct symbol_store *store) {
    int fd = openat(store->cache.directory, "uploads", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = fd >= 0 ? fdopendir(fd) : NULL;
    if (!listing && fd >= 0)
        close(fd);
    for (struct dirent *item; listing && (item = readdir(listing)) != NULL;) {
        struct stat info;
        if (strncmp(item->d_name, "tmp.", 4) == 0 &&
            fstatat(fd, item->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            time(NULL) - info.st_mtime > STALE_S)
            unlinkat(fd, item->d_name, 0);
    }
    if (listing)
        closedir(listing);
}

static uint64_t bytes_on_disk(struct symbol_store *store) {
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

/* Counts the whole file against the limit before its first byte arrives. */
static sonde_err reserve(struct symbol_store *store, uint64_t size, struct sonde_diag *diag) {
    uint64_t used = bytes_on_disk(store);
    lock_take(&store->lock);
    bool fits = size <= store->upload_limit && used <= store->upload_limit - size &&
                store->uploading <= store->upload_limit - size - used;
    if (fits)
        store->uploading += size;
    lock_drop(&store->lock);
    if (fits)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_TOO_LARGE,
                      "uploads are limited to %llu MiB and %llu MiB are in use: evict some first",
                      (unsigned long long)(store->upload_limit >> 20),
                      (unsigned long long)(used >> 20));
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
        return sonde_fail_os(diag, errno, "cannot create the directory for uploads");
    remove_stale(store);
    snprintf(upload->name, sizeof upload->name, "uploads/tmp.%d.%u", (int)getpid(),
             atomic_fetch_add(&serial, 1));
    unlinkat(store->cache.directory, upload->name, 0); /* left by a process that had this pid */
    upload->fd = openat(store->cache.directory, upload->name,
                        O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    return upload->fd >= 0 ? SONDE_OK
                           : sonde_fail_os(diag, errno, "cannot create a file for the upload");
}

sonde_err symbol_upload_begin(struct symbol_store *store, uint64_t size,
                              struct symbol_upload **upload, struct sonde_diag *diag) {
    *upload = NULL;
    if (store->cache.directory < 0 || !store->has_uploads)
        return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                          "uploads need a data directory whose path has no colon: restart the "
                          "service with another --data-dir");
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
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory for an upload");
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
                          "the upload is longer than the %llu bytes announced",
                          (unsigned long long)upload->size);
    while (len > 0) {
        ssize_t done = write(upload->fd, bytes, len);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return sonde_fail_os(diag, errno, "cannot write the upload");
        bytes = (const char *)bytes + done;
        len -= (size_t)done;
        upload->written += (uint64_t)done;
    }
    return SONDE_OK;
}

uint64_t symbol_upload_missing(const struct symbol_upload *upload) {
    return upload->size - upload->written;
}

/* --- checks ----------------------------------------------------------------------------------- */

static bool has_symbols(const struct elf_file *elf) {
    for (uint32_t i = 0; i < elf->section_count; i++)
        if (elf->sections[i].sh_type == SHT_SYMTAB && elf->sections[i].sh_size > 0)
            return true;
    return elf_section(elf, ".gnu_debugdata") != NULL;
}

static sonde_err check_elf(const struct elf_file *elf, struct symbol_file *file,
                           struct sonde_diag *diag) {
    uint8_t build_id[ELF_BUILD_ID_MAX];
    size_t len = elf_build_id(elf, build_id);
    bool dwarf = elf_has_dwarf(elf);
    if (len < 2)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "the file has no build-id to find it by: link the program with "
                          "-Wl,--build-id");
    if (!dwarf && !has_symbols(elf))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "the file has neither DWARF nor a symbol table: upload the unstripped "
                          "program or its .debug file");
    for (size_t i = 0; i < len; i++)
        snprintf(file->build_id + 2 * i, 3, "%02x", build_id[i]);
    snprintf(file->identity, sizeof file->identity, "upload-%s", file->build_id);
    file->quality = dwarf ? SYMBOL_FULL : SYMBOL_NAMES;
    return SONDE_OK;
}

static sonde_err check(const struct symbol_upload *upload, struct symbol_file *file,
                       struct sonde_diag *diag) {
    struct elf_input input;
    struct elf_file elf = {0};
    if (upload->written < upload->size)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "the upload ended after %llu of %llu bytes: send it again",
                          (unsigned long long)upload->written, (unsigned long long)upload->size);
    sonde_err err = SONDE_CORRUPT;
    if (elf_input_of_file(upload->fd, &input))
        err = elf_open(&input, &elf, diag);
    if (err == SONDE_CORRUPT)
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT, "not a 64-bit little-endian ELF file");
    if (!err)
        err = check_elf(&elf, file, diag);
    elf_finish(&elf);
    return err;
}

/* Syncs the file before it gets its name, and the directory before success is reported. */
static sonde_err publish(struct symbol_upload *upload, const struct symbol_file *file,
                         struct sonde_diag *diag) {
    int directory = upload->store->cache.directory;
    char folder[32], path[SYMBOL_BUILD_ID_TEXT + 32];
    snprintf(folder, sizeof folder, "uploads/.build-id/%.2s", file->build_id);
    snprintf(path, sizeof path, "%s/%s.debug", folder, file->build_id + 2);
    if (!make_directory(upload->store, folder) || fsync(upload->fd) != 0 ||
        renameat(directory, upload->name, directory, path) != 0)
        return sonde_fail_os(diag, errno, "cannot store the upload");
    upload->name[0] = 0;
    int fd = openat(directory, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    return SONDE_OK;
}

/* --- use -------------------------------------------------------------------------------------- */

/* Makes the file the module's debug file. Returns false, and leaves fd to the caller, if the module
 * does not need it or its line table is being built. dup3 replaces the open file behind the old
 * descriptor atomically, because other threads may be reading from it. */
static bool set_debug_file(struct symbol_module *module, int fd) {
    bool taken = false;
    symbol_module_symbols(module); /* so that no thread builds it from now on */
    lock_take(&module->lock);
    if (module->fd >= 0 && !module->is_flat && module->lines_state != SYMBOL_BUILDING &&
        !module->lines.table.header) {
        int old = module->debug_fd;
        taken = old < 0 || dup3(fd, old, O_CLOEXEC) >= 0;
        if (old < 0)
            module->debug_fd = fd;
        else if (taken)
            close(fd);
        if (taken)
            module->lines_state = SYMBOL_UNBUILT;
    }
    lock_drop(&module->lock);
    return taken;
}

int symbol_upload_open(const struct symbol_store *store, const char *build_id) {
    char path[SYMBOL_BUILD_ID_TEXT + 32];
    snprintf(path, sizeof path, "uploads/.build-id/%.2s/%s.debug", build_id, build_id + 2);
    return openat(store->cache.directory, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

/* The next module with that build-id after `after` (NULL = the first), retained. */
static struct symbol_module *next_of(struct symbol_store *store, const char *build_id,
                                     const struct symbol_module *after) {
    lock_take(&store->lock);
    struct symbol_module *at = after ? after->next : store->modules;
    while (at && strcmp(at->build_id, build_id) != 0)
        at = at->next;
    if (at)
        at->references++;
    lock_drop(&store->lock);
    return at;
}

void symbol_store_use_upload(struct symbol_store *store, const char *build_id) {
    symbol_recent_remove_all(store, build_id);
    struct symbol_module *module = next_of(store, build_id, NULL);
    while (module) {
        int fd = symbol_upload_open(store, build_id);
        if (fd >= 0 && set_debug_file(module, fd)) {
            symbol_module_improve_symbols(module);
            symbol_module_lines(module, NULL); /* starts building it */
        } else if (fd >= 0) {
            close(fd);
        }
        struct symbol_module *next = next_of(store, build_id, module);
        symbol_module_release(module);
        module = next;
    }
}

sonde_err symbol_upload_finish(struct symbol_upload *upload, struct symbol_file *file,
                               struct sonde_diag *diag) {
    struct stat info = {0};
    *file =
        (struct symbol_file){.kind = SYMBOL_FILE_UPLOAD, .state = SYMBOL_FILE_READY, .reason = ""};
    sonde_err err = check(upload, file, diag);
    if (!err)
        err = publish(upload, file, diag);
    if (!err && fstat(upload->fd, &info) == 0) {
        file->bytes = (uint64_t)info.st_blocks * 512;
        file->used_unix_ns = info.st_mtim.tv_sec * INT64_C(1000000000) + info.st_mtim.tv_nsec;
    }
    if (!err)
        symbol_store_use_upload(upload->store, file->build_id);
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
