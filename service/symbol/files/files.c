/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists and evicts files. The list has an entry for each file in the cache directory, each upload
 * and each open module; entries with the same identity are merged. */
#include "service/symbol/files/files.h"

#include "api/base/array.h"
#include "service/elf/sections.h"
#include "service/symbol/store.h"
#include "service/symbol/worker/worker.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct listing {
    struct symbol_store *store;
    struct symbol_file *items;
    size_t count, capacity;
    bool failed;
};

static struct symbol_file *add(struct listing *listing) {
    if (listing->count == SYMBOL_FILES_MAX)
        return NULL;
    if (!array_room(&listing->items, &listing->capacity, listing->count, 1)) {
        listing->failed = true;
        return NULL;
    }
    struct symbol_file *file = &listing->items[listing->count++];
    memset(file, 0, sizeof *file);
    file->reason = "";
    return file;
}

typedef void on_entry(struct listing *listing, int directory, const char *name,
                      const struct stat *info);

static void each_entry(int directory, const char *path, on_entry *visit, struct listing *listing) {
    int fd = openat(directory, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *entries = fd >= 0 ? fdopendir(fd) : NULL;
    if (!entries) {
        if (fd >= 0)
            close(fd);
        return;
    }
    struct dirent *item;
    while ((item = readdir(entries)) != NULL) {
        struct stat info;
        if (item->d_name[0] != '.' && fstatat(fd, item->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0)
            visit(listing, fd, item->d_name, &info);
    }
    closedir(entries);
}

static void set_usage(struct symbol_file *file, const struct stat *info) {
    file->bytes = (uint64_t)info->st_blocks * 512;
    file->used_unix_ns = info->st_mtim.tv_sec * INT64_C(1000000000) + info->st_mtim.tv_nsec;
}

/* --- tables ----------------------------------------------------------------------------------- */

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* Reads the base name from a file info, whose first line is "path ...". */
static void read_name(int directory, const char *name, char out[256]) {
    char text[4200];
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t len = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = 0;
    text[strcspn(text, "\n")] = 0;
    if (strncmp(text, "path ", 5) == 0)
        snprintf(out, 256, "%s", base_name(text + 5));
}

static enum symbol_quality read_quality(int directory, const char *name) {
    struct symbol_table_header header = {0};
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    bool read = fd >= 0 && pread(fd, &header, sizeof header, 0) == (ssize_t)sizeof header;
    if (fd >= 0)
        close(fd);
    return read && header.magic == SYMBOL_TABLE_MAGIC && header.quality <= SYMBOL_NAMES
               ? (enum symbol_quality)header.quality
               : SYMBOL_NONE;
}

/* An identity without a build-id begins with "file-". */
static void set_identity(struct symbol_file *file, const char *name, size_t len) {
    snprintf(file->identity, sizeof file->identity, "%.*s", (int)len, name);
    size_t dash = strcspn(file->identity, "-");
    char text[SYMBOL_BUILD_ID_TEXT];
    if (dash < sizeof text) {
        snprintf(text, sizeof text, "%.*s", (int)dash, file->identity);
        if (!symbol_build_id_read(text, file->build_id))
            file->build_id[0] = 0;
    }
}

/* The files of an identity in the cache directory, by the end of their names. */
static const struct ending {
    const char *text, *failed; /* failed: the kind of table that could not be built; NULL = none */
    enum symbol_file_state state;
} endings[] = {
    {".info", NULL, SYMBOL_FILE_KNOWN},
    {".symbols", NULL, SYMBOL_FILE_READY},
    {".lines", NULL, SYMBOL_FILE_READY},
    {".symbols-failed", SYMBOL_WORKER_SYMBOLS, SYMBOL_FILE_FAILED},
    {".lines-failed", SYMBOL_WORKER_LINES, SYMBOL_FILE_FAILED},
};
#define ENDINGS (sizeof endings / sizeof *endings)

static void read_failure(const struct symbol_cache *cache, const char *kind,
                         struct symbol_file *file) {
    struct symbol_failure failure;
    if (!symbol_failure_find(cache, file->identity, kind, &failure))
        return;
    file->reason = "CONVERSION_FAILED";
    symbol_failure_text(&failure, file->detail);
}

static void on_table(struct listing *listing, int directory, const char *name,
                     const struct stat *info) {
    const char *dot = strrchr(name, '.');
    const struct ending *ending = endings, *end = endings + ENDINGS;
    while (dot && ending < end && strcmp(dot, ending->text) != 0)
        ending++;
    if (!S_ISREG(info->st_mode) || strncmp(name, "tmp.", 4) == 0 || !dot || ending == end ||
        dot - name >= SYMBOL_IDENTITY_MAX)
        return;
    struct symbol_file *file = add(listing);
    if (!file)
        return;
    set_identity(file, name, (size_t)(dot - name));
    set_usage(file, info);
    file->state = ending->state;
    if (strcmp(dot, ".info") == 0)
        read_name(directory, name, file->name);
    else if (ending->failed)
        read_failure(&listing->store->cache, ending->failed, file);
    else
        file->quality = strcmp(dot, ".lines") == 0 ? SYMBOL_FULL : read_quality(directory, name);
}

/* --- uploads ---------------------------------------------------------------------------------- */

/* The file was checked on arrival; this only looks at what it has. */
static enum symbol_quality upload_quality(int directory, const char *name) {
    struct elf_input input;
    struct elf_file elf = {0};
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    bool good =
        fd >= 0 && elf_input_of_file(fd, &input) && elf_open(&input, &elf, NULL) == SONDE_OK;
    enum symbol_quality quality = !good                 ? SYMBOL_NONE
                                  : elf_has_dwarf(&elf) ? SYMBOL_FULL
                                                        : SYMBOL_NAMES;
    elf_finish(&elf);
    if (fd >= 0)
        close(fd);
    return quality;
}

static void on_upload(struct listing *listing, int directory, const char *name,
                      const struct stat *info) {
    const char *dot = strrchr(name, '.');
    struct symbol_file *file = NULL;
    if (S_ISREG(info->st_mode) && dot && strcmp(dot, ".debug") == 0)
        file = add(listing);
    if (!file)
        return;
    /* on_uploads prepends the first two digits, which are the directory's name. */
    snprintf(file->build_id, sizeof file->build_id, "%.*s", (int)(dot - name), name);
    file->kind = SYMBOL_FILE_UPLOAD;
    file->state = SYMBOL_FILE_READY;
    file->quality = upload_quality(directory, name);
    set_usage(file, info);
}

static void on_uploads(struct listing *listing, int directory, const char *name,
                       const struct stat *info) {
    size_t first = listing->count;
    if (!S_ISDIR(info->st_mode) || strlen(name) != 2)
        return;
    each_entry(directory, name, on_upload, listing);
    for (size_t i = first; i < listing->count; i++) {
        struct symbol_file *file = &listing->items[i];
        char build_id[SYMBOL_BUILD_ID_TEXT];
        snprintf(build_id, sizeof build_id, "%.2s%.62s", name, file->build_id);
        memcpy(file->build_id, build_id, sizeof build_id);
        snprintf(file->identity, sizeof file->identity, "upload-%s", build_id);
    }
}

/* --- modules ---------------------------------------------------------------------------------- */

static enum symbol_file_state state_of(struct symbol_module *module) {
    lock_take(&module->lock);
    bool asked = module->symbols_state == SYMBOL_READY, full = module->lines.table.header != NULL;
    bool nameless = asked && !module->symbols.table.header && module->kind != SYMBOL_MODULE_NONE;
    bool converting = module->lines_state == SYMBOL_BUILDING, unasked = !module->lines_state;
    lock_drop(&module->lock);
    if (converting)
        return SYMBOL_FILE_CONVERTING;
    if (nameless && !full)
        return SYMBOL_FILE_FAILED;
    if (!full && !unasked && module->store->worker && symbol_module_has_dwarf(module))
        return SYMBOL_FILE_FAILED;
    return asked ? SYMBOL_FILE_READY : SYMBOL_FILE_KNOWN;
}

static enum symbol_quality quality_of(struct symbol_module *module, enum symbol_file_state state) {
    if (state == SYMBOL_FILE_KNOWN)
        return SYMBOL_NONE;
    if (symbol_module_lines(module, NULL))
        return SYMBOL_FULL;
    struct loaded_symbols *table = symbol_module_symbols(module);
    return table ? (enum symbol_quality)table->table.header->quality : SYMBOL_NONE;
}

static void set_detail(struct symbol_module *module, struct symbol_file *file) {
    lock_take(&module->lock);
    symbol_failure_text(&module->failure, file->detail);
    lock_drop(&module->lock);
}

/* All modules of files, retained. */
static struct symbol_module **take_modules(struct symbol_store *store, size_t *count) {
    lock_take(&store->lock);
    size_t most = 0;
    for (struct symbol_module *at = store->modules; at; at = at->next)
        most++;
    struct symbol_module **modules = calloc(most + 1, sizeof *modules);
    *count = 0;
    for (struct symbol_module *at = store->modules; at && modules; at = at->next) {
        if (at->is_flat || at->fd < 0)
            continue;
        at->references++;
        modules[(*count)++] = at;
    }
    lock_drop(&store->lock);
    return modules;
}

static void add_modules(struct symbol_store *store, struct listing *listing) {
    size_t count;
    struct symbol_module **modules = take_modules(store, &count);
    listing->failed = listing->failed || !modules;
    for (size_t i = 0; i < count; i++) {
        struct symbol_file *file = add(listing);
        if (file) {
            set_identity(file, modules[i]->identity, strlen(modules[i]->identity));
            snprintf(file->name, sizeof file->name, "%s", symbol_module_base_name(modules[i]));
            file->state = state_of(modules[i]);
            file->quality = quality_of(modules[i], file->state);
            if (file->state != SYMBOL_FILE_KNOWN)
                file->reason = symbol_module_shortfall(modules[i]);
            if (file->state == SYMBOL_FILE_FAILED)
                set_detail(modules[i], file);
            file->is_loaded = true;
        }
        symbol_module_release(modules[i]);
    }
    free(modules);
}

/* --- the list --------------------------------------------------------------------------------- */

static int by_identity(const void *left, const void *right) {
    const struct symbol_file *a = left, *b = right;
    return strcmp(a->identity, b->identity);
}

/* A loaded module's state is newer than what is on disk. */
static void merge(struct symbol_file *into, const struct symbol_file *from) {
    into->bytes += from->bytes;
    if (from->used_unix_ns > into->used_unix_ns)
        into->used_unix_ns = from->used_unix_ns;
    if (from->quality > into->quality)
        into->quality = from->quality;
    if (from->is_loaded || (!into->is_loaded && from->state > into->state))
        into->state = from->state;
    if (!into->name[0])
        memcpy(into->name, from->name, sizeof into->name);
    if (from->reason[0])
        into->reason = from->reason;
    if (!into->detail[0])
        memcpy(into->detail, from->detail, sizeof into->detail);
    into->is_loaded = into->is_loaded || from->is_loaded;
}

static void merge_all(struct listing *listing) {
    size_t kept = 0;
    if (listing->count > 0)
        qsort(listing->items, listing->count, sizeof *listing->items, by_identity);
    for (size_t i = 0; i < listing->count; i++) {
        struct symbol_file *file = &listing->items[i];
        if (kept > 0 && strcmp(listing->items[kept - 1].identity, file->identity) == 0)
            merge(&listing->items[kept - 1], file);
        else
            listing->items[kept++] = *file;
    }
    listing->count = kept;
}

sonde_err symbol_files_list(struct symbol_store *store, struct symbol_file **files, size_t *count,
                            struct sonde_diag *diag) {
    struct listing listing = {.store = store};
    if (store->cache.directory >= 0) {
        each_entry(store->cache.directory, ".", on_table, &listing);
        each_entry(store->cache.directory, "uploads/.build-id", on_uploads, &listing);
    }
    add_modules(store, &listing);
    merge_all(&listing);
    *files = listing.items;
    *count = listing.count;
    if (!listing.failed)
        return SONDE_OK;
    free(listing.items);
    *files = NULL;
    *count = 0;
    return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory for the list of files");
}

/* --- eviction --------------------------------------------------------------------------------- */

static bool is_wanted(const struct symbol_file *file, const char *id, bool uploads) {
    if (file->kind == SYMBOL_FILE_UPLOAD && !uploads)
        return id && strcmp(file->identity, id) == 0; /* uploads go only by their own identity */
    return !id || strcmp(file->identity, id) == 0 ||
           (file->build_id[0] && strcmp(file->build_id, id) == 0);
}

static void remove_file(struct symbol_store *store, const struct symbol_file *file) {
    char path[SYMBOL_BUILD_ID_TEXT + 32];
    if (file->kind == SYMBOL_FILE_UPLOAD) {
        snprintf(path, sizeof path, "uploads/.build-id/%.2s/%s.debug", file->build_id,
                 file->build_id + 2);
        unlinkat(store->cache.directory, path, 0);
        return;
    }
    for (size_t i = 0; i < ENDINGS; i++)
        symbol_cache_remove(&store->cache, file->identity, endings[i].text + 1);
}

/* Lets the next request run a worker again for modules whose last run failed. */
static void forget_failures(struct symbol_store *store) {
    lock_take(&store->lock);
    for (struct symbol_module *at = store->modules; at; at = at->next) {
        lock_take(&at->lock);
        if (at->lines_state == SYMBOL_READY && !at->lines.table.header)
            at->lines_state = SYMBOL_UNBUILT;
        if (at->symbols_state == SYMBOL_READY && !at->symbols.table.header &&
            at->kind != SYMBOL_MODULE_NONE)
            at->symbols_state = SYMBOL_UNBUILT;
        at->failure = (struct symbol_failure){0};
        lock_drop(&at->lock);
    }
    lock_drop(&store->lock);
}

sonde_err symbol_files_evict(struct symbol_store *store, const char *id, bool uploads,
                             struct symbol_evicted *evicted, struct sonde_diag *diag) {
    struct symbol_file *files;
    size_t count;
    char build_id[SYMBOL_BUILD_ID_TEXT];
    bool known = id == NULL;
    *evicted = (struct symbol_evicted){0};
    sonde_err err = symbol_files_list(store, &files, &count, diag);
    if (id && symbol_build_id_read(id, build_id)) /* build_id is in lower case */
        id = build_id;
    symbol_recent_remove_all(store, NULL);
    for (size_t i = 0; i < count; i++) {
        bool wanted = is_wanted(&files[i], id, uploads);
        known = known || wanted;
        if (!wanted || files[i].bytes == 0)
            continue;
        remove_file(store, &files[i]);
        evicted->files++;
        evicted->bytes += files[i].bytes;
    }
    free(files);
    forget_failures(store);
    symbol_fetch_forget(store->fetch);
    if (!err && !known)
        err = sonde_fail(diag, SONDE_NOT_FOUND,
                         "\"%.100s\" matches no file: run `sonde symbol --list` for identities and "
                         "build-ids",
                         id);
    return err;
}
