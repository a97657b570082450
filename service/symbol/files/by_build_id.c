/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds modules by build-id, for addresses that come without a process. A build-id is looked up in
 * three places: open modules, debug files on disk (uploads first), and the cache, whose tables may
 * have outlived the file they were built from. Anybody can write a file with any build-id, so
 * trusted files (file_identity.h) come before those of users. */
#include "service/machine/machine.h"
#include "service/symbol/files/file_info.h"
#include "service/symbol/files/files.h"
#include "service/symbol/locate/locate.h"
#include "service/symbol/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_ROOTS "/usr/lib/debug"
#define PAGE          4096u

bool symbol_build_id_read(const char *text, char build_id[SYMBOL_BUILD_ID_TEXT]) {
    size_t len = strlen(text);
    if (len < 4 || len >= SYMBOL_BUILD_ID_TEXT || len % 2 != 0)
        return false;
    for (size_t i = 0; i <= len; i++) {
        char letter = text[i] >= 'A' && text[i] <= 'F' ? (char)(text[i] - 'A' + 'a') : text[i];
        if (i < len && !strchr("0123456789abcdef", letter))
            return false;
        build_id[i] = letter;
    }
    return true;
}

bool symbol_store_set_debug_roots(struct symbol_store *store, const char *cache_dir,
                                  const char *roots) {
    char *path = cache_dir ? realpath(cache_dir, NULL) : NULL;
    roots = roots ? roots : DEFAULT_ROOTS;
    store->has_uploads = path && !strchr(path, ':');
    if (!store->has_uploads)
        store->debug_roots = strdup(roots);
    else if (asprintf(&store->debug_roots, "%s/uploads:%s", path, roots) < 0)
        store->debug_roots = NULL;
    free(path);
    return store->debug_roots != NULL;
}

/* --- file info -------------------------------------------------------------------------------- */

#define KIND "info"

static bool write_all(int fd, const struct sonde_buf *text) {
    return !text->failed && write(fd, text->data, text->len) == (ssize_t)text->len;
}

void symbol_module_save_file_info(const struct symbol_module *module) {
    const struct symbol_cache *cache = &module->store->cache;
    char name[SYMBOL_CACHE_NAME];
    if (cache->directory < 0 || module->load_count == 0)
        return;
    int fd = symbol_cache_open(cache, module->identity, KIND); /* marks its use */
    if (fd < 0 && (fd = symbol_cache_begin(cache, name)) >= 0) {
        struct sonde_buf text = {0};
        symbol_file_info_write(module->path, module->loads, module->load_count, &text);
        if (!write_all(fd, &text) || !symbol_cache_commit(cache, fd, name, module->identity, KIND))
            symbol_cache_abandon(cache, name);
        sonde_buf_finish(&text);
    }
    if (fd >= 0)
        close(fd);
}

/* False if there is none. */
static bool read_file_info(const struct symbol_cache *cache, const char *identity,
                           struct symbol_file_info *info) {
    int fd = symbol_cache_open(cache, identity, KIND);
    char *text = fd >= 0 ? malloc(SYMBOL_FILE_INFO_MAX_BYTES) : NULL;
    ssize_t len = text ? read(fd, text, SYMBOL_FILE_INFO_MAX_BYTES) : -1;
    bool good = len >= 0 && symbol_file_info_read((struct sonde_slice){text, (size_t)len}, info);
    if (len >= 0 && !good)
        symbol_file_info_finish(info);
    free(text);
    if (fd >= 0)
        close(fd);
    return good;
}

/* --- finding a module ------------------------------------------------------------------------- */

static bool has_id(const struct symbol_module *module, const char *build_id) {
    return module && strcmp(module->build_id, build_id) == 0;
}

static bool fits(const struct symbol_module *module, const char *build_id, bool trusted) {
    return has_id(module, build_id) &&
           (!trusted || file_identity_is_shared(module->file_identity[0] ? module->file_identity
                                                                         : module->identity));
}

/* Prefers a module with a debug file to one without. The result is retained. */
static struct symbol_module *find_open(struct symbol_store *store, const char *build_id,
                                       bool trusted) {
    struct symbol_module *best = NULL;
    lock_take(&store->lock);
    for (struct symbol_module *at = store->modules; at; at = at->next)
        if (fits(at, build_id, trusted) && at->fd >= 0 && (!best || best->debug_fd < 0))
            best = at;
    for (uint32_t i = 0; i < SYMBOL_RECENT_MODULES && !best; i++)
        best = fits(store->recent[i], build_id, trusted) ? store->recent[i] : NULL;
    if (best)
        best->references++;
    lock_drop(&store->lock);
    return best;
}

bool symbol_file_has_build_id(int fd, const char *build_id) {
    struct elf_input input;
    struct elf_file elf = {0};
    uint8_t own[ELF_BUILD_ID_MAX];
    char text[SYMBOL_BUILD_ID_TEXT] = "";
    bool good = elf_input_of_file(fd, &input) && elf_open(&input, &elf, NULL) == SONDE_OK;
    size_t len = good ? elf_build_id(&elf, own) : 0;
    for (size_t i = 0; i < len; i++)
        snprintf(text + 2 * i, 3, "%02x", own[i]);
    elf_finish(&elf);
    return strcmp(text, build_id) == 0;
}

/* *is_refused: the directories have a file of that name, which `refusal` refuses. */
static struct symbol_module *find_in_roots(struct symbol_store *store, const char *build_id,
                                           bool *is_refused, struct sonde_diag *refusal) {
    char path[PATH_MAX];
    for (const char *at = store->debug_roots; *at;) {
        size_t len = strcspn(at, ":");
        int fd = -1;
        if (len > 0 && snprintf(path, sizeof path, "%.*s/.build-id/%.2s/%s.debug", (int)len, at,
                                build_id, build_id + 2) < PATH_MAX)
            fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        struct symbol_module *module = NULL;
        if (fd >= 0 && !symbol_file_has_build_id(fd, build_id)) {
            *is_refused |= elf_is_for_other_machine(fd, refusal);
            close(fd);
        } else if (fd >= 0 && symbol_module_open_file(store, fd, path, &module) == SONDE_OK) {
            return module;
        }
        at += len + (at[len] == ':');
    }
    return NULL;
}

/* A symbol table's file is called "<identity>.symbols", and an identity "<build-id>-<hash>...". */
static bool find_identity(const struct symbol_cache *cache, const char *build_id, bool trusted,
                          char identity[SYMBOL_IDENTITY_MAX]) {
    int fd = cache->directory >= 0 ? openat(cache->directory, ".", O_RDONLY | O_CLOEXEC) : -1;
    DIR *listing = fd >= 0 ? fdopendir(fd) : NULL;
    size_t len = strlen(build_id);
    bool found = false;
    if (!listing && fd >= 0)
        close(fd);
    for (struct dirent *item; listing && !found && (item = readdir(listing)) != NULL;) {
        const char *dot = strrchr(item->d_name, '.');
        found = dot && strcmp(dot, ".symbols") == 0 && strncmp(item->d_name, build_id, len) == 0 &&
                item->d_name[len] == '-' && dot - item->d_name < SYMBOL_IDENTITY_MAX &&
                (!trusted || file_identity_is_shared(item->d_name));
        if (found)
            snprintf(identity, SYMBOL_IDENTITY_MAX, "%.*s", (int)(dot - item->d_name),
                     item->d_name);
    }
    if (listing)
        closedir(listing);
    return found;
}

static struct symbol_module *find_in_cache(struct symbol_store *store, const char *build_id) {
    char identity[SYMBOL_IDENTITY_MAX];
    if (!find_identity(&store->cache, build_id, true, identity) &&
        !find_identity(&store->cache, build_id, false, identity))
        return NULL;
    struct symbol_file_info info = {0};
    bool has_info = read_file_info(&store->cache, identity, &info);
    struct symbol_module *module =
        symbol_module_open_tables(store, has_info ? info.path : "", identity);
    if (module && has_info) {
        module->loads = info.loads;
        module->load_count = info.load_count;
        info.loads = NULL;
    }
    if (has_info)
        symbol_file_info_finish(&info);
    if (module && !symbol_module_symbols(module)) { /* evicted since, or damaged */
        symbol_module_release(module);
        module = NULL;
    }
    return module;
}

sonde_err symbol_module_find(struct symbol_store *store, const char *build_id,
                             struct symbol_module **module, struct sonde_diag *diag) {
    char wanted[SYMBOL_BUILD_ID_TEXT];
    bool is_refused = false;
    struct sonde_diag refusal = {0};
    *module = NULL;
    if (!symbol_build_id_read(build_id, wanted))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "\"%.80s\" is not a build-id (4 to 64 hexadecimal digits)", build_id);
    struct symbol_module *found = find_open(store, wanted, true);
    if (!found)
        found = find_in_roots(store, wanted, &is_refused, &refusal);
    if (!found)
        found = find_open(store, wanted, false);
    if (!found)
        found = find_in_cache(store, wanted);
    if (!found && is_refused)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%s", refusal.text);
    if (!found)
        return sonde_fail(diag, SONDE_NOT_FOUND,
                          symbol_fetch_want(store->fetch, wanted)
                              ? "no file with build-id %s yet: a debuginfod server is being asked "
                                "for it, so retry in a moment"
                              : "no file with build-id %s: upload the program or its debug file",
                          wanted);
    symbol_recent_add(found);
    *module = found;
    return SONDE_OK;
}

sonde_err symbol_module_open_path(struct symbol_store *store, const char *path,
                                  const char *build_id, struct symbol_module **module) {
    struct stat about;
    *module = NULL;
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode)) /* opening a device can change it */
        return SONDE_NOT_FOUND;
    int fd = symbol_open_in_root(0, path);
    if (fd < 0)
        return SONDE_NOT_FOUND;
    if (build_id[0] && !symbol_file_has_build_id(fd, build_id)) {
        close(fd);
        return SONDE_NOT_FOUND;
    }
    sonde_err err = symbol_module_open_file(store, fd, path, module);
    return err == SONDE_CORRUPT ? SONDE_NOT_FOUND : err;
}

/* --- addresses of a debug file ---------------------------------------------------------------- */

/* Where the mapping of a segment starts: at its first page. The page size is that of the kernel on
 * which the mapping was seen: arm64 has three. Loaders align a file by its p_align, which tells the
 * sizes apart; where it does not, the smallest is the usual one. */
static uint64_t first_page(const struct elf_file *elf, const Elf64_Phdr *segment, uint64_t start) {
    uint64_t largest = machine_of(elf->machine)->largest_page;
    for (uint64_t size = PAGE; size <= largest && largest > PAGE; size *= 4) {
        uint64_t page = segment->p_vaddr & ~(size - 1);
        if (segment->p_align > 0 && (start - page) % segment->p_align == 0)
            return page;
    }
    return segment->p_vaddr & ~(uint64_t)(PAGE - 1);
}

/* A debug file's segments have lost their file offsets, so a mapping cannot be matched to one by
 * its offset. If only one segment is executable, the mapping, which starts at `start`, is of its
 * first page. */
static bool find_only_code(const struct symbol_module *module, uint64_t start, uint64_t *vaddr) {
    struct elf_input input;
    struct elf_file elf = {0};
    uint32_t count = 0;
    if (elf_input_of_file(module->fd, &input) && elf_open(&input, &elf, NULL) == SONDE_OK) {
        for (uint32_t i = 0; i < elf.segment_count; i++) {
            const Elf64_Phdr *segment = &elf.segments[i];
            if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X) || segment->p_memsz == 0)
                continue;
            *vaddr = first_page(&elf, segment, start);
            count++;
        }
    }
    elf_finish(&elf);
    return count == 1;
}

bool symbol_module_bias_of(const struct symbol_module *module, const struct symbol_mapping *mapping,
                           uint64_t *bias) {
    uint64_t vaddr;
    if (symbol_module_bias(module, mapping, bias))
        return true;
    if (module->load_count > 0 || module->fd < 0 || !find_only_code(module, mapping->start, &vaddr))
        return false;
    *bias = mapping->start - vaddr;
    return true;
}
