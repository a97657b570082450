/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/ui/asset_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

static const struct {
    const char *extension, *media_type;
} media_types[] = {
    {".css", "text/css; charset=utf-8"},
    {".html", "text/html; charset=utf-8"},
    {".ico", "image/x-icon"},
    {".js", "text/javascript; charset=utf-8"},
    {".json", "application/json"},
    {".md", "text/plain; charset=utf-8"},
    {".png", "image/png"},
    {".svg", "image/svg+xml"},
    {".txt", "text/plain; charset=utf-8"},
    {".wasm", "application/wasm"},
    {".woff2", "font/woff2"},
};

static const char *media_type_of(const char *name) {
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof media_types / sizeof media_types[0]; i++)
        if (strcmp(dot, media_types[i].extension) == 0)
            return media_types[i].media_type;
    return "application/octet-stream";
}

/* FNV-1a: the files are the installer's, so nobody looks for collisions. */
static uint64_t hash_of(struct sonde_slice bytes) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes.len; i++)
        hash = (hash ^ (unsigned char)bytes.data[i]) * 0x100000001b3u;
    return hash;
}

static sonde_err read_bytes(int fd, size_t size, char *bytes, struct sonde_diag *diag) {
    for (size_t done = 0; done < size;) {
        ssize_t got = read(fd, bytes + done, size - done);
        if (got < 0)
            return sonde_fail_os(diag, errno, "cannot read a file of the folder");
        if (got == 0)
            return sonde_fail(diag, SONDE_IO, "a file of the folder changed while it was read");
        done += (size_t)got;
    }
    return SONDE_OK;
}

/* Takes over what it allocates only on success. */
static sonde_err add_file(struct asset_folder *folder, int fd, const char *name, size_t size,
                          struct sonde_diag *diag) {
    char etag[24], *bytes = malloc(size + 1), *own_name = strdup(name), *own_etag = NULL;
    sonde_err err = bytes && own_name ? read_bytes(fd, size, bytes, diag) : SONDE_OUT_OF_MEMORY;
    struct sonde_slice slice = {bytes, size};
    if (!err) {
        snprintf(etag, sizeof etag, "W/\"%016llx\"", (unsigned long long)hash_of(slice));
        own_etag = strdup(etag);
        err = own_etag ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    }
    if (err) {
        free(bytes);
        free(own_name);
        return err;
    }
    folder->items[folder->count++] = (struct ui_asset){
        .name = own_name, .media_type = media_type_of(name), .etag = own_etag, .bytes = slice};
    return SONDE_OK;
}

static sonde_err read_entry(struct asset_folder *folder, int dir, const char *name, size_t *left,
                            struct sonde_diag *diag) {
    struct stat info;
    if (name[0] == '.' || name[strspn(name, NAME_CHARS)])
        return SONDE_OK;
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return errno == ELOOP ? SONDE_OK : sonde_fail_os(diag, errno, "cannot open %.100s", name);
    sonde_err err = fstat(fd, &info) == 0 ? SONDE_OK : sonde_fail_os(diag, errno, "fstat");
    bool is_file = !err && S_ISREG(info.st_mode);
    if (is_file && (folder->count == ASSET_FOLDER_FILES || (uint64_t)info.st_size > *left))
        err = sonde_fail(diag, SONDE_TOO_LARGE, "the folder has more than %d files or %u MiB",
                         ASSET_FOLDER_FILES, ASSET_FOLDER_BYTES >> 20);
    if (is_file && !err) {
        *left -= (size_t)info.st_size;
        err = add_file(folder, fd, name, (size_t)info.st_size, diag);
    }
    close(fd);
    return err;
}

sonde_err asset_folder_read(const char *path, struct asset_folder *folder,
                            struct sonde_diag *diag) {
    size_t left = ASSET_FOLDER_BYTES;
    *folder = (struct asset_folder){0};
    DIR *dir = opendir(path);
    if (!dir)
        return errno == ENOENT ? sonde_fail(diag, SONDE_NOT_FOUND, "there is no %.120s", path)
                               : sonde_fail_os(diag, errno, "cannot open %.120s", path);
    folder->items = calloc(ASSET_FOLDER_FILES, sizeof *folder->items);
    sonde_err err = folder->items ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    for (struct dirent *entry; !err && (entry = readdir(dir));)
        err = read_entry(folder, dirfd(dir), entry->d_name, &left, diag);
    closedir(dir);
    if (!err && !asset_folder_find(folder, sonde_slice_of("")))
        err = sonde_fail(diag, SONDE_NOT_FOUND, "%.120s has no index.html", path);
    if (err)
        asset_folder_finish(folder);
    return err;
}

void asset_folder_finish(struct asset_folder *folder) {
    for (size_t i = 0; i < folder->count; i++) {
        free((char *)(uintptr_t)folder->items[i].name);
        free((char *)(uintptr_t)folder->items[i].etag);
        free((char *)(uintptr_t)folder->items[i].bytes.data);
    }
    free(folder->items);
    *folder = (struct asset_folder){0};
}

const struct ui_asset *asset_folder_find(const struct asset_folder *folder,
                                         struct sonde_slice name) {
    struct sonde_slice wanted = name.len ? name : sonde_slice_of("index.html");
    for (size_t i = 0; i < folder->count; i++)
        if (sonde_slice_equals(wanted, folder->items[i].name))
            return &folder->items[i];
    return NULL;
}
