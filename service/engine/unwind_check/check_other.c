/* SPDX-License-Identifier: Apache-2.0
 *
 * Shares the samples with a confined process and reads its results. */
#include "service/engine/unwind_check/check_run.h"
#include "service/engine/unwind_check/check_worker.h"
#include "service/symbol/worker/run_process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define TIMEOUT_MS 120000

struct shared {
    int fds[CHECK_FIRST_FILE + CHECK_MAX_MODULES];
    int fd_end, vdso; /* -1 = no file of it yet */
    struct check_module modules[CHECK_MAX_MODULES];
    uint32_t module_count;
    size_t bytes;
    uint8_t *memory; /* mapped */
};

/* The vdso is the same in every process, so ours is used. */
static int vdso_file(const struct mapping *mapping) {
    const void *own = (const void *)getauxval(AT_SYSINFO_EHDR);
    size_t bytes = mapping->end - mapping->start;
    int fd = own ? memfd_create("sonde-vdso", MFD_CLOEXEC) : -1;
    if (fd >= 0 && write(fd, own, bytes) == (ssize_t)bytes)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static int file_of(const struct mapping *mapping, struct shared *shared) {
    const struct symbol_module *module = mapping_module(mapping);
    if (!module || !mapping->has_bias)
        return -1;
    if (symbol_module_kind(module) != SYMBOL_MODULE_VDSO)
        return symbol_module_fd(module);
    if (shared->vdso < 0)
        shared->vdso = vdso_file(mapping);
    return shared->vdso;
}

/* The modules that our walks came through. */
static void collect_modules(const struct check_run *run, struct shared *shared) {
    shared->fd_end = CHECK_FIRST_FILE;
    for (uint32_t i = 0; i < run->code.generation->count; i++) {
        const struct code_region *region = &run->code.regions[i];
        if (!region->is_open || shared->module_count == CHECK_MAX_MODULES)
            continue;
        int fd = file_of(region->mapping, shared);
        if (fd < 0)
            continue;
        shared->fds[shared->fd_end++] = fd;
        shared->modules[shared->module_count++] = (struct check_module){
            region->mapping->start, region->mapping->end, region->mapping->bias};
    }
}

static bool share(const struct check_run *run, struct shared *shared) {
    size_t bytes_at = check_bytes_at(shared->module_count, run->count);
    shared->bytes = bytes_at + run->bytes.len;
    int fd = shared->fds[CHECK_SHARED] = memfd_create("sonde-check", MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)shared->bytes) == 0)
        shared->memory = mmap(NULL, shared->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (!shared->memory || shared->memory == MAP_FAILED) {
        shared->memory = NULL;
        return false;
    }
    *(struct check_header *)shared->memory =
        (struct check_header){CHECK_MAGIC, shared->bytes, shared->module_count, run->count};
    memcpy(shared->memory + check_modules_at(), shared->modules,
           shared->module_count * sizeof *shared->modules);
    struct check_stack *stacks = (void *)(shared->memory + check_stacks_at(shared->module_count));
    for (uint32_t i = 0; i < run->count; i++) {
        stacks[i] = run->stacks[i].stack;
        stacks[i].stack_at += bytes_at;
        stacks[i].pcs_at += bytes_at;
    }
    memcpy(shared->memory + bytes_at, run->bytes.data, run->bytes.len);
    return true;
}

/* Takes only results that are possible. */
static void read_results(struct check_run *run, const struct shared *shared) {
    const uint8_t *from = shared->memory + check_results_at(shared->module_count, run->count);
    memcpy(run->results, from, run->count * sizeof *run->results);
    for (uint32_t i = 0; i < run->count; i++) {
        struct check_result *result = &run->results[i];
        uint32_t ours = run->stacks[i].stack.count;
        if (result->count > CHECK_MAX_FRAMES || result->equal > result->count ||
            result->equal > ours || result->end >= CHECK_ENDS)
            result->is_done = 0;
        result->row[CHECK_ROW_BYTES - 1] = 0;
    }
}

static sonde_err run_worker(struct check_run *run, const struct shared *shared,
                            struct sonde_diag *diag) {
    const char *arguments[] = {CHECK_ARGUMENT, NULL};
    struct symbol_process_run ran = symbol_process_run(run->engine->symbols, arguments, shared->fds,
                                                       shared->fd_end, TIMEOUT_MS);
    if (ran.end == SYMBOL_PROCESS_STORE_ENDS)
        return sonde_fail(diag, SONDE_UNAVAILABLE, "the service is shutting down");
    if (ran.end == SYMBOL_PROCESS_NOT_STARTED)
        return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                          "cannot start the process that walks with libunwind");
    if (ran.end == SYMBOL_PROCESS_LATE)
        return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                          "libunwind took longer than %d s; ask for fewer stacks",
                          TIMEOUT_MS / 1000);
    if (WIFSIGNALED(ran.status))
        return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                          "libunwind crashed with signal %d while it walked these stacks",
                          WTERMSIG(ran.status));
    if (WEXITSTATUS(ran.status) == CHECK_NO_LIBUNWIND)
        return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                          "libunwind is not installed: apt install libunwind8");
    if (WEXITSTATUS(ran.status) == CHECK_NOT_CONFINED)
        return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                          "the kernel refused to confine the process that walks with libunwind");
    if (WEXITSTATUS(ran.status) != CHECK_DONE)
        return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                          "the process that walks with libunwind ended with status %d",
                          WEXITSTATUS(ran.status));
    read_results(run, shared);
    return SONDE_OK;
}

static void finish(struct shared *shared) {
    const int own[] = {shared->fds[CHECK_SHARED], shared->vdso};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (own[i] >= 0)
            close(own[i]);
    if (shared->memory)
        munmap(shared->memory, shared->bytes);
    free(shared);
}

sonde_err check_walk_other(struct check_run *run, struct sonde_diag *diag) {
    struct shared *shared = calloc(1, sizeof *shared);
    run->results = calloc(run->count + 1, sizeof *run->results);
    sonde_err err = shared && run->results ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    if (shared)
        shared->vdso = shared->fds[CHECK_SHARED] = -1;
    if (!err) {
        collect_modules(run, shared);
        if (!share(run, shared))
            err = sonde_fail_os(diag, errno, "cannot share %zu bytes of stacks", shared->bytes);
    }
    if (!err)
        err = run_worker(run, shared, diag);
    if (shared)
        finish(shared);
    return err;
}
