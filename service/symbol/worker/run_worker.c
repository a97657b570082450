/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a worker that builds a table. The worker gets open files instead of paths. If it leaves a
 * complete table, the table counts, however the worker ended. Otherwise the reason is saved, and
 * the run is not repeated for the same file for a while. */
#include "service/elf/sections.h"
#include "service/symbol/locate/locate.h"
#include "service/symbol/store.h"
#include "service/symbol/table/checksum.h"
#include "service/symbol/table/table_file.h"
#include "service/symbol/worker/worker.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define LINES_TIMEOUT_MS   (15 * 60 * 1000)
#define SYMBOLS_TIMEOUT_MS (60 * 1000)

static bool fd_has_dwarf(int fd) {
    struct elf_input input;
    struct elf_file elf = {0};
    bool has = fd >= 0 && elf_input_of_file(fd, &input) &&
               elf_open(&input, &elf, NULL) == SONDE_OK && elf_has_dwarf(&elf);
    elf_finish(&elf);
    return has;
}

static int dwarf_fd(struct symbol_module *module) {
    if (fd_has_dwarf(module->fd))
        return module->fd;
    return fd_has_dwarf(module->debug_fd) ? module->debug_fd : -1;
}

bool symbol_module_has_dwarf(struct symbol_module *module) {
    return dwarf_fd(module) >= 0;
}

/* The package of split DWARF units beside the file (.dwp), which must have the same owner, so that
 * nobody has sonded read a file of somebody else; -1 = none. */
static int open_package(int fd) {
    char link[64], path[PATH_MAX];
    struct stat file, package;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - sizeof ".dwp");
    if (len <= 0)
        return -1;
    memcpy(path + len, ".dwp", sizeof ".dwp");
    int found = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (found >= 0 &&
        (fstat(fd, &file) != 0 || fstat(found, &package) != 0 || file.st_uid != package.st_uid)) {
        close(found);
        found = -1;
    }
    return found;
}

/* The file to which dwz moved shared DWARF, in our own root. A file of a user can name any path,
 * and this thread has sonded's rights, so then only files that everybody may read count. -1 =
 * none. */
static int open_alt(const struct symbol_module *module, int dwarf) {
    int fd = symbol_locate_alt_of(dwarf, 0, module->store->debug_roots);
    if (fd >= 0 && !file_identity_is_shared(module->identity) && !file_is_public(fd)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* The worker's descriptors, and which of them are closed when it has ended; -1 = none. */
struct worker_fds {
    int fds[SYMBOL_WORKER_FD_END], own[SYMBOL_WORKER_FD_END];
};

/* Returns false if one is missing. */
static bool collect_fds(struct symbol_module *module, bool is_symbols, int out,
                        struct worker_fds *to) {
    int dwarf = is_symbols ? module->debug_fd : dwarf_fd(module), *own = to->own, *fds = to->fds;
    bool wants_more = dwarf >= 0 && !is_symbols;
    bool whole = module->fd >= 0 && (is_symbols || dwarf >= 0);
    for (int i = 0; i < SYMBOL_WORKER_FD_END; i++)
        own[i] = fds[i] = -1;
    if (wants_more) {
        own[SYMBOL_WORKER_ALT] = module->alt_fd < 0 ? open_alt(module, dwarf) : -1;
        own[SYMBOL_WORKER_PACKAGE] = open_package(dwarf);
    }
    for (int i = SYMBOL_WORKER_SCRATCH; !is_symbols && i <= SYMBOL_WORKER_LAST_SCRATCH; i++) {
        own[i] = symbol_cache_scratch(&module->store->cache);
        whole = whole && own[i] >= 0;
    }
    memcpy(fds, own, sizeof to->fds);
    fds[SYMBOL_WORKER_MAIN] = module->fd;
    fds[SYMBOL_WORKER_DWARF] = dwarf;
    if (wants_more && module->alt_fd >= 0)
        fds[SYMBOL_WORKER_ALT] = module->alt_fd;
    fds[SYMBOL_WORKER_OUT] = out;
    return whole;
}

static void close_fds(const struct worker_fds *from) {
    for (int i = 0; i < SYMBOL_WORKER_FD_END; i++)
        if (from->own[i] >= 0)
            close(from->own[i]);
}

static struct symbol_failure run(struct symbol_module *module, const char *kind, const int *fds,
                                 int timeout_ms) {
    const char *arguments[] = {SYMBOL_WORKER_ARGUMENT, kind, module->identity, NULL};
    struct symbol_process_run run =
        symbol_process_run(module->store, arguments, fds, SYMBOL_WORKER_FD_END, timeout_ms);
    if (run.end == SYMBOL_PROCESS_STORE_ENDS)
        return (struct symbol_failure){.cause = SYMBOL_FAILURE_NONE};
    if (run.end == SYMBOL_PROCESS_NOT_STARTED)
        return (struct symbol_failure){.cause = SYMBOL_FAILURE_NOT_STARTED, .unix_s = time(NULL)};
    return symbol_failure_of(run.status, run.cpu_ms, run.end == SYMBOL_PROCESS_LATE);
}

/* --- one run ---------------------------------------------------------------------------------- */

static uint64_t hash_file(uint64_t hash, bool is_known, const struct stat *info) {
    uint64_t fields[] = {is_known,
                         info->st_dev,
                         info->st_ino,
                         (uint64_t)info->st_size,
                         (uint64_t)info->st_mtim.tv_sec,
                         (uint64_t)info->st_mtim.tv_nsec};
    return symbol_checksum(hash, fields, sizeof fields);
}

uint64_t symbol_worker_subject(const struct symbol_module *module) {
    struct stat worker = {0}, file = {0}, debug = {0};
    bool has_worker = module->store->worker && stat(module->store->worker, &worker) == 0;
    uint64_t hash = hash_file(SYMBOL_TABLE_VERSION << 8 | LINE_TABLE_VERSION, has_worker, &worker);
    hash = hash_file(hash, fstat(module->fd, &file) == 0, &file);
    return hash_file(hash, module->debug_fd >= 0 && fstat(module->debug_fd, &debug) == 0, &debug);
}

/* Takes out. Returns the table's file, or -1. */
static int publish(struct symbol_module *module, const char *kind, int out, const char *name,
                   struct symbol_failure *failure) {
    struct symbol_cache *cache = &module->store->cache;
    bool whole = table_file_is_whole(out);
    if (whole)
        table_file_seal(out);
    if (whole && symbol_cache_commit(cache, out, name, module->identity, kind)) {
        failure->cause = SYMBOL_FAILURE_NONE;
        symbol_failure_forget(cache, module->identity, kind);
        return out;
    }
    if (whole)
        failure->cause = SYMBOL_FAILURE_IO;
    symbol_cache_abandon(cache, name);
    close(out);
    return -1;
}

/* Builds the table in `out`, whose temporary name is `name`; "" = it is in memory. */
static int attempt(struct symbol_module *module, const char *kind, int out, const char *name,
                   struct symbol_failure *failure) {
    struct worker_fds fds;
    bool is_symbols = strcmp(kind, SYMBOL_WORKER_SYMBOLS) == 0;
    *failure = (struct symbol_failure){.cause = SYMBOL_FAILURE_IO, .unix_s = time(NULL)};
    if (out < 0)
        return -1;
    if (collect_fds(module, is_symbols, out, &fds))
        *failure = run(module, kind, fds.fds, is_symbols ? SYMBOLS_TIMEOUT_MS : LINES_TIMEOUT_MS);
    close_fds(&fds);
    return publish(module, kind, out, name, failure);
}

int symbol_worker_run(struct symbol_module *module, const char *kind,
                      struct symbol_failure *failure) {
    struct symbol_cache *cache = &module->store->cache;
    char name[SYMBOL_CACHE_NAME];
    uint64_t subject = symbol_worker_subject(module);
    if (symbol_failure_find(cache, module->identity, kind, failure) &&
        symbol_failure_stands(failure, subject))
        return -1;
    int out = attempt(module, kind, symbol_cache_begin(cache, name), name, failure);
    if (failure->cause == SYMBOL_FAILURE_IO && strcmp(kind, SYMBOL_WORKER_SYMBOLS) == 0)
        out = attempt(module, kind, memfd_create("sonde-symbols", MFD_CLOEXEC), "", failure);
    failure->subject = subject;
    if (failure->cause != SYMBOL_FAILURE_NONE)
        symbol_failure_save(cache, module->identity, kind, failure);
    return out;
}
