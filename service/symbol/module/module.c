/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens modules for mappings. module_file.c reads their files. */
#include "service/process/process_identity.h"
#include "service/symbol/files/file_identity.h"
#include "service/symbol/files/files.h"
#include "service/symbol/locate/locate.h"
#include "service/symbol/store.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE       4096u
#define KERNEL_BIT (1ull << 63) /* set in every address of the kernel */

/* --- life cycle ------------------------------------------------------------------------------- */

sonde_err symbol_store_create(const struct symbol_options *options, struct symbol_store **store,
                              struct sonde_diag *diag) {
    struct symbol_store *made = calloc(1, sizeof *made);
    *store = NULL;
    if (!made)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory for the symbol store");
    sonde_err err = symbol_cache_init(&made->cache, options->cache_dir, options->cache_bytes, diag);
    if (err != SONDE_OK) {
        free(made);
        return err;
    }
    made->worker = options->worker ? strdup(options->worker) : NULL;
    made->upload_limit = options->upload_bytes ? options->upload_bytes : SYMBOL_UPLOADS_DEFAULT;
    pthread_cond_init(&made->wanted, NULL);
    pthread_cond_init(&made->worker_ended, NULL);
    lock_init(&made->lock, LOCK_SYMBOL_STORE);
    if (!symbol_store_set_debug_roots(made, options->cache_dir, options->debug_roots)) {
        symbol_store_destroy(made);
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory for the symbol store");
    }
    if (options->debuginfod && options->debuginfod[0])
        err = symbol_fetch_create(made, options->debuginfod, &made->fetch, diag);
    if (err) {
        symbol_store_destroy(made);
        return err;
    }
    *store = made;
    return SONDE_OK;
}

void symbol_store_destroy(struct symbol_store *store) {
    if (!store)
        return;
    symbol_lines_thread_stop(store);
    symbol_fetch_destroy(store->fetch);
    symbol_recent_remove_all(store, NULL);
    symbol_cache_finish(&store->cache);
    free(store->debug_roots);
    free(store->worker);
    pthread_cond_destroy(&store->wanted);
    pthread_cond_destroy(&store->worker_ended);
    lock_finish(&store->lock);
    free(store);
}

uint64_t symbol_store_tables_built(const struct symbol_store *store) {
    return store->tables_built;
}

static struct symbol_module *module_create(struct symbol_store *store, const char *path) {
    struct symbol_module *module = calloc(1, sizeof *module);
    char *copy = module ? strdup(path) : NULL;
    if (!copy) {
        free(module);
        return NULL;
    }
    module->store = store;
    module->references = 1;
    module->path = copy;
    module->fd = -1;
    module->debug_fd = -1; /* atomic, so clang does not assign its value */
    module->alt_fd = -1;
    lock_init(&module->lock, LOCK_SYMBOL_MODULE);
    pthread_cond_init(&module->changed, NULL);
    return module;
}

static void module_destroy(struct symbol_module *module) {
    if (module->fd >= 0)
        close(module->fd);
    if (module->debug_fd >= 0)
        close(module->debug_fd);
    if (module->alt_fd >= 0)
        close(module->alt_fd);
    loaded_symbols_finish(&module->symbols);
    if (module->better_symbols)
        loaded_symbols_finish(module->better_symbols);
    free(module->better_symbols);
    loaded_lines_finish(&module->lines);
    symbol_jit_release(module->jit);
    symbol_jit_sources_destroy(module->sources);
    lock_finish(&module->lock);
    pthread_cond_destroy(&module->changed);
    free(module->loads);
    free(module->advice);
    free(module->path);
    free(module);
}

static void unlink_module(struct symbol_store *store, struct symbol_module *module) {
    for (struct symbol_module **at = &store->modules; *at; at = &(*at)->next) {
        if (*at != module)
            continue;
        *at = module->next;
        return;
    }
}

void symbol_module_release(struct symbol_module *module) {
    if (!module)
        return;
    struct symbol_store *store = module->store;
    lock_take(&store->lock);
    bool last = --module->references == 0;
    if (last)
        unlink_module(store, module);
    lock_drop(&store->lock);
    if (last)
        module_destroy(module);
}

/* --- accessors -------------------------------------------------------------------------------- */

enum symbol_module_kind symbol_module_kind(const struct symbol_module *module) {
    return module->kind;
}

const char *symbol_module_path(const struct symbol_module *module) {
    return module->path;
}

const char *symbol_module_base_name(const struct symbol_module *module) {
    const char *slash = strrchr(module->path, '/');
    return slash && slash[1] ? slash + 1 : module->path;
}

const char *symbol_module_build_id(const struct symbol_module *module) {
    return module->build_id;
}

const char *symbol_module_file_identity(const struct symbol_module *module) {
    return module->file_identity;
}

int symbol_module_debug_fd(const struct symbol_module *module) {
    return module->debug_fd;
}

bool symbol_module_is_memory(const struct symbol_module *module) {
    return module->is_flat && module->kind == SYMBOL_MODULE_NONE;
}

int symbol_module_fd(const struct symbol_module *module) {
    return module->fd;
}

enum symbol_reason symbol_module_reason(const struct symbol_module *module) {
    return module->reason;
}

const char *symbol_reason_text(enum symbol_reason reason) {
    static const char *const texts[] = {
        [SYMBOL_REASON_NONE] = "",
        [SYMBOL_REASON_ANONYMOUS] = "ANONYMOUS",
        [SYMBOL_REASON_NO_FILE] = "NO_FILE",
        [SYMBOL_REASON_BINARY_REPLACED] = "BINARY_REPLACED",
        [SYMBOL_REASON_NOT_ELF] = "NOT_ELF",
        [SYMBOL_REASON_OTHER_MACHINE] = "OTHER_MACHINE",
        [SYMBOL_REASON_STRIPPED] = "STRIPPED",
        [SYMBOL_REASON_KERNEL_HIDDEN] = "KERNEL_HIDDEN",
        [SYMBOL_REASON_MEMORY] = "MEMORY_OF_USER",
    };
    return (size_t)reason < sizeof texts / sizeof *texts ? texts[reason] : "";
}

/* --- bias ------------------------------------------------------------------------------------- */

static bool segment_holds(const Elf64_Phdr *segment, uint64_t offset, bool rounded) {
    uint64_t start = segment->p_offset, end = start + segment->p_filesz;
    if (end < start)
        return false;
    if (rounded) {
        start &= ~(uint64_t)(PAGE - 1);
        end = end > UINT64_MAX - PAGE ? UINT64_MAX : (end + PAGE - 1) & ~(uint64_t)(PAGE - 1);
    }
    return offset >= start && offset < end;
}

static uint64_t bias_by(const Elf64_Phdr *segment, const struct symbol_mapping *mapping) {
    return mapping->start - mapping->offset + segment->p_offset - segment->p_vaddr;
}

/* Whether the mapping is what the kernel and ld.so make of the segment: all of its pages. */
static bool is_whole(const Elf64_Phdr *segment, const struct symbol_mapping *mapping) {
    uint64_t before = segment->p_vaddr & (PAGE - 1), bytes = before + segment->p_filesz;
    return mapping->offset == segment->p_offset - before && bytes >= before &&
           mapping->end - mapping->start == ((bytes + PAGE - 1) & ~(uint64_t)(PAGE - 1));
}

/* Where pages of the file belong to two segments, the mapping's offset does not say which one it
 * is. A program at a fixed address has no bias; otherwise the mapping's length may tell. *unclear:
 * it does not. */
static const Elf64_Phdr *find_by_page(const struct symbol_module *module,
                                      const struct symbol_mapping *mapping, bool *unclear) {
    const Elf64_Phdr *whole = NULL;
    uint32_t holding = 0, wholes = 0;
    for (uint32_t i = 0; i < module->load_count; i++) {
        const Elf64_Phdr *segment = &module->loads[i];
        if (!segment_holds(segment, mapping->offset, true))
            continue;
        if (bias_by(segment, mapping) == 0)
            return segment;
        holding++;
        if (is_whole(segment, mapping)) {
            whole = segment;
            wholes++;
        }
    }
    *unclear = wholes > 1;
    return holding > 1 && wholes == 1 ? whole : NULL;
}

/* Finds the executable segment that contains the mapping's offset. Otherwise, the one whose pages
 * do, or the first that the mapping reaches. NULL: none, or it may be any of several. */
static const Elf64_Phdr *find_segment(const struct symbol_module *module,
                                      const struct symbol_mapping *mapping) {
    bool unclear = false;
    uint64_t offset = mapping->offset, len = mapping->end - mapping->start;
    const Elf64_Phdr *by_page = find_by_page(module, mapping, &unclear), *reached = NULL;
    if (by_page || unclear)
        return by_page;
    for (uint32_t i = 0; i < module->load_count; i++) {
        const Elf64_Phdr *segment = &module->loads[i];
        if (segment_holds(segment, offset, false))
            return segment;
        if (!by_page && segment_holds(segment, offset, true))
            by_page = segment;
        bool ahead = segment->p_offset > offset && segment->p_offset - offset < len;
        if (ahead && (!reached || segment->p_offset < reached->p_offset))
            reached = segment;
    }
    return by_page ? by_page : reached;
}

bool symbol_module_bias(const struct symbol_module *module, const struct symbol_mapping *mapping,
                        uint64_t *bias) {
    *bias = module->fixed_bias;
    if (module->kind == SYMBOL_MODULE_KERNEL)
        *bias = mapping->start & KERNEL_BIT ? 0 : KERNEL_BIT;
    if (module->is_flat || module->has_fixed_bias)
        return true;
    const Elf64_Phdr *segment = find_segment(module, mapping);
    if (!segment)
        return false;
    *bias = bias_by(segment, mapping);
    return true;
}

/* --- opening ---------------------------------------------------------------------------------- */

/* Whether this is the module of that file. If its tables depend on anything that another process
 * may not have (see file_identity.h), the file must be identified again. */
static bool is_of(const struct symbol_module *module, const struct stat *file, const char *path) {
    struct stat now;
    return module->fd >= 0 && strcmp(module->path, path) == 0 && module->opened.st_ino != 0 &&
           !module->has_fixed_bias && file_identity_is_shared(module->identity) &&
           file_is_unchanged(file, &module->opened) && fstat(module->fd, &now) == 0 &&
           file_is_unchanged(&now, &module->opened);
}

/* The module of an open file, without reading the file. */
static struct symbol_module *find_opened(struct symbol_store *store, int fd, const char *path) {
    struct symbol_module *module = NULL;
    struct stat file;
    if (fd < 0 || fstat(fd, &file) != 0)
        return NULL;
    lock_take(&store->lock);
    for (module = store->modules; module && !is_of(module, &file, path); module = module->next)
        continue;
    if (module)
        module->references++;
    lock_drop(&store->lock);
    return module;
}

/* The path is a guest's claim. It must not become the name of the file in other profiles. */
static bool is_same(const struct symbol_module *a, const struct symbol_module *b) {
    return strcmp(a->identity, b->identity) == 0 && strcmp(a->path, b->path) == 0 &&
           (a->fd < 0) == (b->fd < 0) && a->has_fixed_bias == b->has_fixed_bias &&
           a->fixed_bias == b->fixed_bias;
}

/* Adds `made` to the list, or destroys it if there is a module of the same file already. The result
 * is retained. */
static struct symbol_module *join(struct symbol_store *store, struct symbol_module *made) {
    lock_take(&store->lock);
    struct symbol_module *same = store->modules;
    while (same && !is_same(same, made))
        same = same->next;
    if (same) {
        same->references++;
    } else {
        made->next = store->modules;
        store->modules = made;
    }
    lock_drop(&store->lock);
    if (same)
        module_destroy(made);
    return same ? same : made;
}

static bool names_a_file(const struct symbol_mapping *mapping) {
    static const char *const pseudo[] = {"//anon", "/dev/zero", "/SYSV", "/anon_hugepage"};
    for (size_t i = 0; i < sizeof pseudo / sizeof *pseudo; i++)
        if (strncmp(mapping->path, pseudo[i], strlen(pseudo[i])) == 0)
            return false;
    return mapping->path[0] == '/' && mapping->inode != 0;
}

/* Memory without a file belongs to one process, so its identity is that of the process. */
static void identify_memory(struct symbol_module *module, pid_t pid) {
    module->is_flat = true;
    if (module->reason == SYMBOL_REASON_NONE)
        module->reason = SYMBOL_REASON_ANONYMOUS;
    module->pid = pid;
    module->process_start = process_start_ticks(pid);
    snprintf(module->identity, sizeof module->identity, "memory-%d-%llu-%.48s", (int)pid,
             (unsigned long long)module->process_start, module->path);
}

static sonde_err open_vdso(struct symbol_module *module, const struct symbol_mapping *mapping,
                           pid_t pid) {
    uint64_t size;
    int fd = symbol_vdso_open(&size);
    if (fd < 0 || size != mapping->end - mapping->start) { /* a 32-bit process has another vdso */
        if (fd >= 0)
            close(fd);
        identify_memory(module, pid);
        return SONDE_OK;
    }
    sonde_err err = symbol_module_read_file(module, fd, pid);
    module->kind = SYMBOL_MODULE_VDSO;
    return err;
}

/* Takes fd (-1 = none). */
static sonde_err open_file(struct symbol_module *module, const struct symbol_mapping *mapping,
                           pid_t pid, int fd) {
    sonde_err err = fd >= 0 ? symbol_module_read_file(module, fd, pid) : SONDE_OK;
    if (module->reason == SYMBOL_REASON_NOT_ELF) { /* JIT code in a mapped file */
        close(module->fd);
        module->fd = -1;
        identify_memory(module, pid);
    }
    if (module->fd >= 0 && fstat(module->fd, &module->opened) != 0)
        module->opened.st_ino = 0;
    if (module->identity[0] == 0)
        snprintf(module->identity, sizeof module->identity, "none-%u:%u:%llu-%d",
                 mapping->device_major, mapping->device_minor, (unsigned long long)mapping->inode,
                 (int)pid);
    return err;
}

/* Anonymous memory: code that the program copied there from its own file, or JIT code. */
static sonde_err open_memory(struct symbol_module *module, const struct symbol_mapping *mapping,
                             pid_t pid) {
    char path[PATH_MAX];
    int fd = symbol_locate_remapped(pid, mapping, &module->fixed_bias, path);
    char *copy = fd >= 0 ? strdup(path) : NULL;
    if (!copy) {
        if (fd >= 0)
            close(fd);
        module->fixed_bias = 0;
        identify_memory(module, pid);
        return SONDE_OK;
    }
    free(module->path);
    module->path = copy;
    module->has_fixed_bias = true;
    return symbol_module_read_file(module, fd, pid);
}

sonde_err symbol_module_open(struct symbol_store *store, pid_t pid,
                             const struct symbol_mapping *mapping, struct symbol_module **module,
                             struct sonde_diag *diag) {
    if (mapping->is_kernel)
        return symbol_module_open_kernel(store, module, diag);
    bool file = names_a_file(mapping);
    enum symbol_reason reason = SYMBOL_REASON_NONE;
    int fd = file ? symbol_locate_file(pid, mapping, &reason) : -1;
    *module = find_opened(store, fd, mapping->path);
    if (*module) {
        close(fd);
        return SONDE_OK;
    }
    struct symbol_module *made = module_create(store, mapping->path[0] ? mapping->path : "[anon]");
    sonde_err err = made ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    if (made)
        made->reason = reason;
    else if (fd >= 0)
        close(fd);
    if (made && file)
        err = open_file(made, mapping, pid, fd);
    else if (made && strcmp(mapping->path, "[vdso]") == 0)
        err = open_vdso(made, mapping, pid);
    else if (made)
        err = open_memory(made, mapping, pid);
    if (made && strcmp(mapping->path, "[vsyscall]") == 0)
        made->kind = SYMBOL_MODULE_VDSO;
    if (err != SONDE_OK) {
        if (made)
            module_destroy(made);
        return sonde_fail(diag, err, "out of memory for a module");
    }
    *module = join(store, made);
    if ((*module)->pid > 0)
        symbol_jit_watch(*module);
    return SONDE_OK;
}

sonde_err symbol_module_open_kernel(struct symbol_store *store, struct symbol_module **module,
                                    struct sonde_diag *diag) {
    struct symbol_module *made = module_create(store, SYMBOL_KERNEL_PATH);
    *module = NULL;
    if (!made)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory for a module");
    made->kind = SYMBOL_MODULE_KERNEL;
    made->is_flat = true;
    snprintf(made->identity, sizeof made->identity, "kernel");
    symbol_kernel_build_id(made->build_id);
    *module = join(store, made);
    symbol_jit_release(symbol_module_jit(*module, 0)); /* reads kallsyms, which sets the reason */
    return SONDE_OK;
}

sonde_err symbol_module_open_file(struct symbol_store *store, int fd, const char *path,
                                  struct symbol_module **module) {
    struct symbol_module *made = module_create(store, path);
    *module = NULL;
    if (!made) {
        close(fd);
        return SONDE_OUT_OF_MEMORY;
    }
    sonde_err err = symbol_module_read_file(made, fd, 0);
    if (err != SONDE_OK || made->identity[0] == 0) {
        module_destroy(made);
        return err != SONDE_OK ? err : SONDE_CORRUPT;
    }
    *module = join(store, made);
    return SONDE_OK;
}

/* /dev/null stands in for the file, because fd < 0 would mean that there are no names. */
struct symbol_module *symbol_module_open_tables(struct symbol_store *store, const char *path,
                                                const char *identity) {
    struct symbol_module *made = module_create(store, path);
    if (!made)
        return NULL;
    made->fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    snprintf(made->identity, sizeof made->identity, "%s", identity);
    snprintf(made->build_id, sizeof made->build_id, "%.*s", (int)strcspn(identity, "-"), identity);
    if (made->fd >= 0)
        return made;
    module_destroy(made);
    return NULL;
}
