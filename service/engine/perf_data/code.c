/* SPDX-License-Identifier: Apache-2.0
 *
 * A recorded process is usually gone, so its files are found by path and build-id: the file at the
 * path if it has the build-id, otherwise any file that has it (an upload, a debug file). Where perf
 * has stored no build-id, the path alone must do, as it does for perf. */
#include "service/engine/perf_data/parts.h"

#include "api/base/array.h"
#include "service/engine/code/tables.h"
#include "service/engine/once/once.h"
#include "service/symbol/files/files.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>

#define KERNEL_HALF (1ull << 63)

sonde_err recorded_code_init(struct recorded_code *code, const struct perf_file *file,
                             const struct perf_data_options *from, struct sonde_diag *diag) {
    char tables[4096] = "";
    if (from->data_dir)
        snprintf(tables, sizeof tables, "%.4000s/unwind", from->data_dir);
    *code = (struct recorded_code){.file = file};
    hash_index_init(&code->index);
    sonde_err err = once_open_store(from->data_dir, from->worker, &code->symbols, diag);
    if (err)
        return err;
    err = unwind_cache_create(from->data_dir ? tables : NULL, 0, &code->tables, diag);
    if (err && from->data_dir)
        err = unwind_cache_create(NULL, 0, &code->tables, diag);
    if (err)
        return err;
    code->views = unwind_views_create(code->tables);
    code->walker = unwind_walker_create();
    code->kernel = mapping_create_kernel();
    return code->views && code->walker && code->kernel
               ? SONDE_OK
               : sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
}

void recorded_code_finish(struct recorded_code *code) {
    for (uint32_t i = 0; i < code->file_count; i++)
        free(code->files[i].path);
    free(code->files);
    hash_index_finish(&code->index);
    mapping_release(code->kernel);
    unwind_walker_destroy(code->walker);
    if (code->views)
        unwind_views_destroy(code->views);
    if (code->tables)
        unwind_cache_destroy(code->tables);
    if (code->symbols) {
        symbol_store_end(code->symbols);
        symbol_store_destroy(code->symbols);
    }
    *code = (struct recorded_code){0};
}

/* ---- mappings ---- */

static bool is_same(const struct recorded_file *file, const struct perf_file_mmap *mmap,
                    const char *build_id) {
    return file->inode == mmap->inode && file->device_major == mmap->device_major &&
           file->device_minor == mmap->device_minor && strcmp(file->path, mmap->path) == 0 &&
           strcmp(file->build_id, build_id) == 0;
}

/* The number of a file from 1; 0: too many, or out of memory. */
static uint32_t intern(struct recorded_code *code, const struct perf_file_mmap *mmap,
                       const char *build_id) {
    const char *path = mmap->path;
    uint32_t hash = hash_index_data(&code->index, path, strlen(path)), number;
    struct hash_probe probe = hash_probe(hash);
    while ((number = hash_index_next(&code->index, &probe)) != HASH_INDEX_NONE)
        if (is_same(&code->files[number], mmap, build_id))
            return number + 1;
    bool fits = code->file_count < RECORDED_MAX_FILES && strlen(path) < PATH_MAX;
    char *copy = fits ? strdup(path) : NULL;
    if (!copy || !array_room(&code->files, &code->file_capacity, code->file_count, 1) ||
        !hash_index_add(&code->index, hash, code->file_count)) {
        free(copy);
        return 0;
    }
    struct recorded_file *file = &code->files[code->file_count++];
    *file = (struct recorded_file){.path = copy,
                                   .inode = mmap->inode,
                                   .device_major = mmap->device_major,
                                   .device_minor = mmap->device_minor};
    snprintf(file->build_id, sizeof file->build_id, "%s", build_id);
    return code->file_count;
}

/* perf writes "[kernel.kallsyms]_text", with the address of _text as its offset. */
static void note_kernel(struct recorded_code *code, const struct perf_file_mmap *mmap) {
    if (code->kernel_start == 0 && strncmp(mmap->path, "[kernel.kallsyms]", 17) == 0)
        code->kernel_start = mmap->offset;
}

struct mapping *recorded_code_mapping(struct recorded_code *code,
                                      const struct perf_file_record *record) {
    const struct perf_file_mmap *mmap = &record->mmap;
    if (mmap->is_kernel)
        note_kernel(code, mmap);
    if (mmap->is_kernel || mmap->start >= mmap->end || mmap->end > KERNEL_HALF)
        return NULL;
    const char *build_id =
        mmap->build_id[0] ? mmap->build_id : perf_file_build_id(code->file, mmap->path);
    uint32_t number = mmap->path[0] ? intern(code, mmap, build_id) : 0;
    struct symbol_mapping from = {
        .start = mmap->start,
        .end = mmap->end,
        .offset = number ? mmap->offset : 0,
        .inode = number,
        .path = number ? mmap->path : "",
    };
    return mapping_create(&from);
}

/* ---- files ---- */

static bool is_this_kernel(const struct perf_file *file) {
    struct utsname here;
    return uname(&here) == 0 && strcmp(here.release, perf_file_os_release(file)) == 0;
}

/* Every process of this kernel has the same vdso. */
static struct symbol_module *open_vdso(struct recorded_code *code,
                                       const struct symbol_mapping *mapping,
                                       const struct recorded_file *file) {
    struct symbol_module *module = NULL;
    if (symbol_module_open(code->symbols, 0, mapping, &module, NULL) != SONDE_OK)
        return NULL;
    bool is_same = file->build_id[0] ? strcmp(file->build_id, symbol_module_build_id(module)) == 0
                                     : is_this_kernel(code->file);
    if (is_same)
        return module;
    symbol_module_release(module);
    return NULL;
}

/* perf stores the build-ids of files that its own report will need. */
static bool is_that_inode(const struct symbol_module *module, const struct recorded_file *file) {
    struct stat now;
    return file->inode != 0 && fstat(symbol_module_fd(module), &now) == 0 &&
           now.st_ino == file->inode && major(now.st_dev) == file->device_major &&
           minor(now.st_dev) == file->device_minor;
}

static struct symbol_module *open_file(struct recorded_code *code,
                                       const struct recorded_file *file) {
    struct symbol_module *module = NULL;
    /* In a pipe's file, build-ids follow the records. */
    const char *build_id =
        file->build_id[0] ? file->build_id : perf_file_build_id(code->file, file->path);
    if (symbol_module_open_path(code->symbols, file->path, build_id, &module) == SONDE_OK) {
        code->unchecked += build_id[0] == 0 && !is_that_inode(module, file);
        return module;
    }
    if (build_id[0] && symbol_module_find(code->symbols, build_id, &module, NULL) == SONDE_OK)
        return module;
    return NULL;
}

static sonde_err load_vdso(struct recorded_code *code, const char *identity,
                           struct sonde_diag *diag, const struct unwind_view **view) {
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)getauxval(AT_SYSINFO_EHDR);
    if (!header)
        return SONDE_NOT_AVAILABLE;
    return unwind_views_get_memory(code->views, identity[0] ? identity : "vdso", header,
                                   tables_vdso_bytes(header), diag, view);
}

static void load_table(struct recorded_code *code, const struct symbol_module *module,
                       struct mapping *mapping) {
    const struct unwind_view *view = NULL;
    struct sonde_diag diag = {0};
    struct table_source source;
    sonde_err err = SONDE_NOT_AVAILABLE;
    if (symbol_module_kind(module) == SYMBOL_MODULE_VDSO)
        err = load_vdso(code, symbol_module_file_identity(module), &diag, &view);
    else if (tables_source(module, &source))
        err = unwind_views_get(code->views, source.identity, source.fd, source.debug_fd, &diag,
                               &view);
    mapping->views = code->views;
    mapping->view = err ? NULL : view; /* frames without a table are left by frame pointer */
}

/* A program may be installed under several names (redis-server is a link to redis-check-rdb). If
 * the process has one of them, returns its path, which the caller frees. */
static char *other_name(const struct symbol_module *module, const char *path, const char *name) {
    const char *slash = strrchr(path, '/');
    struct stat file, named;
    char *other = NULL;
    if (symbol_module_kind(module) != SYMBOL_MODULE_EXECUTABLE || !slash || !name[0] ||
        strchr(name, '/') || strcmp(slash + 1, name) == 0 ||
        asprintf(&other, "%.*s%s", (int)(slash + 1 - path), path, name) < 0)
        return NULL;
    if (stat(other, &named) == 0 && fstat(symbol_module_fd(module), &file) == 0 &&
        named.st_dev == file.st_dev && named.st_ino == file.st_ino)
        return other;
    free(other);
    return NULL;
}

void recorded_code_open(struct recorded_code *code, struct mapping *mapping, const char *name) {
    if (mapping->is_opened)
        return;
    mapping->is_opened = true;
    if (mapping->inode == 0 || mapping->inode > code->file_count)
        return;
    const struct recorded_file *file = &code->files[mapping->inode - 1];
    struct symbol_mapping from = mapping_as_symbol(mapping);
    struct symbol_module *module = NULL;
    if (strcmp(file->path, "[vdso]") == 0)
        module = open_vdso(code, &from, file);
    else if (file->path[0] == '/')
        module = open_file(code, file);
    if (!module)
        return;
    mapping->program = other_name(module, file->path, name);
    mapping->has_bias = symbol_module_bias_of(module, &from, &mapping->bias);
    atomic_store_explicit(&mapping->module, module, memory_order_release);
    if (mapping->has_bias)
        load_table(code, module, mapping);
}

/* ---- the kernel ---- */

/* The address of _text in /proc/kallsyms; 0 = unknown, or hidden. Each boot chooses another. */
static uint64_t present_start(void) {
    char line[256];
    uint64_t start = 0;
    FILE *file = fopen("/proc/kallsyms", "re");
    while (file && start == 0 && fgets(line, sizeof line, file)) {
        char *kind;
        uint64_t address = strtoull(line, &kind, 16);
        if (strcmp(kind, " T _text\n") == 0 || strcmp(kind, " T _stext\n") == 0)
            start = address;
        if (address == 0 && kind != line && strstr(kind, " _text\n"))
            break;
    }
    if (file)
        fclose(file);
    return start;
}

void recorded_code_open_kernel(struct recorded_code *code) {
    struct mapping *mapping = code->kernel;
    struct symbol_mapping from = mapping_as_symbol(mapping);
    struct symbol_module *module = NULL;
    if (code->kernel_start == 0 || !is_this_kernel(code->file) ||
        present_start() != code->kernel_start ||
        symbol_module_open(code->symbols, 0, &from, &module, NULL) != SONDE_OK)
        return;
    const char *build_id = perf_file_build_id(code->file, SYMBOL_KERNEL_PATH);
    if (build_id[0] && strcmp(build_id, symbol_module_build_id(module)) != 0) {
        symbol_module_release(module);
        return;
    }
    mapping->has_bias = symbol_module_bias(module, &from, &mapping->bias);
    atomic_store_explicit(&mapping->module, module, memory_order_release);
}
