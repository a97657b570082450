/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules by build-id, for addresses that come without a process. What was asked for lately is kept
 * open, so that the next batch finds its tables mapped. */
#include "service/symbol/files/file_info.h"
#include "service/symbol/files/files.h"
#include "service/symbol/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_ROOTS "/usr/lib/debug"
#define PAGE          4096u

const char symbol_converting[] = "CONVERTING";
const char symbol_fetching[] = "FETCHING";

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

bool symbol_archive_roots(struct symbol_store *store, const char *cache_dir, const char *roots) {
    char *place = cache_dir ? realpath(cache_dir, NULL) : NULL;
    roots = roots ? roots : DEFAULT_ROOTS;
    store->has_uploads = place && !strchr(place, ':');
    if (!store->has_uploads)
        store->debug_roots = strdup(roots);
    else if (asprintf(&store->debug_roots, "%s/uploads:%s", place, roots) < 0)
        store->debug_roots = NULL;
    free(place);
    return store->debug_roots != NULL;
}

/* --- what stands beside the tables -------------------------------------------------------------
 */

#define KIND "about"

static bool write_all(int fd, const struct sonde_buf *text) {
    return !text->failed && write(fd, text->data, text->len) == (ssize_t)text->len;
}

void symbol_archive_note(const struct symbol_module *module) {
    const struct symbol_cache *cache = &module->store->cache;
    char name[SYMBOL_CACHE_NAME];
    if (cache->directory < 0 || module->load_count == 0)
        return;
    int fd = symbol_cache_open(cache, module->identity, KIND); /* marks its use */
    if (fd < 0 && (fd = symbol_cache_begin(cache, name)) >= 0) {
        struct sonde_buf text = {0};
        symbol_about_write(module->path, module->loads, module->load_count, &text);
        if (!write_all(fd, &text) || !symbol_cache_commit(cache, fd, name, module->identity, KIND))
            symbol_cache_abandon(cache, name);
        sonde_buf_finish(&text);
    }
    if (fd >= 0)
        close(fd);
}

/* False when there is nothing to read. */
static bool read_about(const struct symbol_cache *cache, const char *identity,
                       struct symbol_about *about) {
    int fd = symbol_cache_open(cache, identity, KIND);
    char *text = fd >= 0 ? malloc(SYMBOL_ABOUT_MAX_BYTES) : NULL;
    ssize_t len = text ? read(fd, text, SYMBOL_ABOUT_MAX_BYTES) : -1;
    bool good = len >= 0 && symbol_about_read((struct sonde_slice){text, (size_t)len}, about);
    if (len >= 0 && !good)
        symbol_about_finish(about);
    free(text);
    if (fd >= 0)
        close(fd);
    return good;
}

/* --- looking -----------------------------------------------------------------------------------
 */

static bool is_of(const struct symbol_module *module, const char *build_id) {
    return module && strcmp(module->build_id, build_id) == 0;
}

/* One that has debug information rather than one that has none. Retained. */
static struct symbol_module *find_open(struct symbol_store *store, const char *build_id) {
    struct symbol_module *best = NULL;
    lock_take(&store->lock);
    for (struct symbol_module *at = store->modules; at; at = at->next)
        if (is_of(at, build_id) && at->fd >= 0 && (!best || best->debug_fd < 0))
            best = at;
    for (uint32_t i = 0; i < SYMBOL_KEPT && !best; i++)
        best = is_of(store->kept[i], build_id) ? store->kept[i] : NULL;
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

static struct symbol_module *find_in_roots(struct symbol_store *store, const char *build_id) {
    char path[PATH_MAX];
    for (const char *at = store->debug_roots; *at;) {
        size_t len = strcspn(at, ":");
        int fd = -1;
        if (len > 0 && snprintf(path, sizeof path, "%.*s/.build-id/%.2s/%s.debug", (int)len, at,
                                build_id, build_id + 2) < PATH_MAX)
            fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        struct symbol_module *module = NULL;
        if (fd >= 0 && !symbol_file_has_build_id(fd, build_id))
            close(fd);
        else if (fd >= 0 && symbol_module_open_file(store, fd, path, &module) == SONDE_OK)
            return module;
        at += len + (at[len] == ':');
    }
    return NULL;
}

/* "<build-id>-<hash>.names": the identity is what stands before the dot. */
static bool find_identity(const struct symbol_cache *cache, const char *build_id,
                          char identity[SYMBOL_IDENTITY_MAX]) {
    int fd = cache->directory >= 0 ? openat(cache->directory, ".", O_RDONLY | O_CLOEXEC) : -1;
    DIR *listing = fd >= 0 ? fdopendir(fd) : NULL;
    size_t len = strlen(build_id);
    bool found = false;
    if (!listing && fd >= 0)
        close(fd);
    for (struct dirent *item; listing && !found && (item = readdir(listing)) != NULL;) {
        const char *dot = strrchr(item->d_name, '.');
        found = dot && strcmp(dot, ".names") == 0 && strncmp(item->d_name, build_id, len) == 0 &&
                item->d_name[len] == '-' && dot - item->d_name < SYMBOL_IDENTITY_MAX;
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
    if (!find_identity(&store->cache, build_id, identity))
        return NULL;
    struct symbol_about about = {0};
    bool has_about = read_about(&store->cache, identity, &about);
    struct symbol_module *module =
        symbol_module_open_tables(store, has_about ? about.path : "", identity);
    if (module && has_about) {
        module->loads = about.loads;
        module->load_count = about.load_count;
        about.loads = NULL;
    }
    if (has_about)
        symbol_about_finish(&about);
    if (module && !symbol_module_table(module)) { /* evicted meanwhile, or damaged */
        symbol_module_release(module);
        module = NULL;
    }
    return module;
}

/* --- keeping -----------------------------------------------------------------------------------
 */

void symbol_archive_keep(struct symbol_module *module) {
    struct symbol_store *store = module->store;
    struct symbol_module *old = NULL;
    bool is_kept = false;
    lock_take(&store->lock);
    for (uint32_t i = 0; i < SYMBOL_KEPT; i++)
        is_kept = is_kept || store->kept[i] == module;
    if (!is_kept) {
        struct symbol_module **place = &store->kept[store->next_kept++ % SYMBOL_KEPT];
        old = *place;
        *place = module;
        module->references++;
    }
    lock_drop(&store->lock);
    symbol_module_release(old);
}

void symbol_archive_let_go(struct symbol_module *module) {
    struct symbol_store *store = module->store;
    struct symbol_module *kept = NULL;
    lock_take(&store->lock);
    for (uint32_t i = 0; i < SYMBOL_KEPT && !kept; i++) {
        if (store->kept[i] != module)
            continue;
        kept = module;
        store->kept[i] = NULL;
    }
    lock_drop(&store->lock);
    symbol_module_release(kept);
}

/* build_id NULL: all. */
static void let_go(struct symbol_store *store, const char *build_id) {
    struct symbol_module *old[SYMBOL_KEPT];
    uint32_t count = 0;
    lock_take(&store->lock);
    for (uint32_t i = 0; i < SYMBOL_KEPT; i++) {
        if (!store->kept[i] || (build_id && !is_of(store->kept[i], build_id)))
            continue;
        old[count++] = store->kept[i];
        store->kept[i] = NULL;
    }
    lock_drop(&store->lock);
    while (count > 0)
        symbol_module_release(old[--count]);
}

void symbol_archive_stop(struct symbol_store *store) {
    let_go(store, NULL);
}

sonde_err symbol_module_find(struct symbol_store *store, const char *build_id,
                             struct symbol_module **module, struct sonde_diag *diag) {
    char wanted[SYMBOL_BUILD_ID_TEXT];
    *module = NULL;
    if (!symbol_build_id_read(build_id, wanted))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "\"%.80s\" is no build-id: 4 to 64 hexadecimal digits", build_id);
    struct symbol_module *found = find_open(store, wanted);
    if (!found)
        found = find_in_roots(store, wanted);
    if (!found)
        found = find_in_cache(store, wanted);
    if (!found)
        return sonde_fail(diag, SONDE_NOT_FOUND,
                          symbol_fetch_want(store->fetch, wanted)
                              ? "no file with the build-id %s is known here yet: a debuginfod "
                                "server is asked for it, so ask again in a moment"
                              : "no file with the build-id %s is known here: upload it or its "
                                "debug file",
                          wanted);
    symbol_archive_keep(found);
    *module = found;
    return SONDE_OK;
}

/* --- a debug file has come ---------------------------------------------------------------------
 */

/* False when there is nothing to gain, or somebody is just making the tables. Takes fd when true.
 * dup3 puts the new file under the old number at once, whoever reads it. */
static bool take_debug_file(struct symbol_module *module, int fd) {
    bool taken = false;
    symbol_module_table(module); /* nobody builds it after this */
    lock_take(&module->lock);
    if (module->fd >= 0 && !module->is_flat && module->full_state != SYMBOL_BUILDING &&
        !module->full_table.full.header) {
        int old = module->debug_fd;
        taken = old < 0 || dup3(fd, old, O_CLOEXEC) >= 0;
        if (old < 0)
            module->debug_fd = fd;
        else if (taken)
            close(fd);
        if (taken)
            module->full_state = SYMBOL_UNBUILT;
    }
    lock_drop(&module->lock);
    return taken;
}

static int open_upload(const struct symbol_store *store, const char *build_id) {
    char path[SYMBOL_BUILD_ID_TEXT + 32];
    snprintf(path, sizeof path, "uploads/.build-id/%.2s/%s.debug", build_id, build_id + 2);
    return openat(store->cache.directory, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

static struct symbol_module *next_of(struct symbol_store *store, const char *build_id,
                                     const struct symbol_module *after) {
    lock_take(&store->lock);
    struct symbol_module *at = after ? after->next : store->modules;
    while (at && !is_of(at, build_id))
        at = at->next;
    if (at)
        at->references++;
    lock_drop(&store->lock);
    return at;
}

void symbol_archive_refresh(struct symbol_store *store, const char *build_id) {
    let_go(store, build_id);
    struct symbol_module *module = next_of(store, build_id, NULL);
    while (module) {
        int fd = open_upload(store, build_id);
        if (fd >= 0 && take_debug_file(module, fd)) {
            symbol_module_improve(module);
            symbol_module_full(module, NULL); /* its conversion begins */
        } else if (fd >= 0) {
            close(fd);
        }
        struct symbol_module *next = next_of(store, build_id, module);
        symbol_module_release(module);
        module = next;
    }
}

/* --- what a module can tell --------------------------------------------------------------------
 */

/* Of a debug file: its code has no bytes there, so only the addresses of its segments count. With
 * one executable segment its first page is where the mapping begins. */
static bool only_code(const struct symbol_module *module, uint64_t *vaddr) {
    struct elf_input input;
    struct elf_file elf = {0};
    uint32_t count = 0;
    if (elf_input_of_file(module->fd, &input) && elf_open(&input, &elf, NULL) == SONDE_OK) {
        for (uint32_t i = 0; i < elf.segment_count; i++) {
            const Elf64_Phdr *segment = &elf.segments[i];
            if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X) || segment->p_memsz == 0)
                continue;
            *vaddr = segment->p_vaddr & ~(uint64_t)(PAGE - 1);
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
    if (module->load_count > 0 || module->fd < 0 || !only_code(module, &vaddr))
        return false;
    *bias = mapping->start - vaddr;
    return true;
}

bool symbol_module_is_converting(struct symbol_module *module) {
    if (module->is_flat)
        return false;
    lock_take(&module->lock);
    bool busy = module->full_state == SYMBOL_BUILDING;
    lock_drop(&module->lock);
    return busy;
}

bool symbol_module_failure(struct symbol_module *module, char text[SYMBOL_SENTENCE]) {
    text[0] = 0;
    if (module->is_flat)
        return false;
    lock_take(&module->lock);
    symbol_failure_text(&module->failure, text);
    lock_drop(&module->lock);
    return text[0] != 0;
}

const char *symbol_module_shortfall(struct symbol_module *module) {
    if (module->is_flat || module->fd < 0)
        return symbol_reason_text(module->reason);
    lock_take(&module->lock);
    bool busy = module->full_state != SYMBOL_READY;
    bool full = !busy && module->full_table.full.header;
    bool nameless = module->state == SYMBOL_READY && !module->table.names.header &&
                    module->kind != SYMBOL_MODULE_NONE;
    lock_drop(&module->lock);
    if (full)
        return "";
    if (busy)
        return symbol_converting;
    if (symbol_module_has_dwarf(module))
        return module->store->worker ? "CONVERSION_FAILED" : "NO_CONVERTER";
    if (nameless)
        return "CONVERSION_FAILED";
    if (symbol_fetch_is_under_way(module->store->fetch, module->build_id))
        return symbol_fetching;
    return module->reason != SYMBOL_REASON_NONE ? symbol_reason_text(module->reason)
                                                : "NO_DEBUG_INFO";
}
