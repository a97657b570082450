/* SPDX-License-Identifier: Apache-2.0
 *
 * Has a worker disassemble. The request and the answer are files in memory. */
#include "service/symbol/code/code_file.h"
#include "service/symbol/store.h"
#include "service/symbol/worker/worker.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TIMEOUT_MS   (60 * 1000)
#define ANSWER_BYTES ((size_t)64 << 20)

/* Returns the last address from `inside` on that still belongs to the symbol: doubles the distance
 * until it is outside, then bisects. */
static uint64_t find_edge(const struct symbol_table *table, uint32_t symbol, uint64_t inside) {
    uint64_t near = 0, far = 1;
    while (far < 4ull * SYMBOL_CODE_BYTES && symbol_table_find(table, inside + far) == symbol) {
        near = far;
        far *= 2;
    }
    while (far - near > 1) {
        uint64_t middle = near + (far - near) / 2;
        if (symbol_table_find(table, inside + middle) == symbol)
            near = middle;
        else
            far = middle;
    }
    return inside + near;
}

/* The address behind the function's last byte. Symbols nested in it belong to it. */
static uint64_t find_end(const struct symbol_table *table, uint32_t symbol, uint64_t vaddr) {
    uint64_t start = table->header->base + table->symbols[symbol].start;
    uint64_t end = find_edge(table, symbol, vaddr) + 1;
    while (end - start < SYMBOL_CODE_BYTES) {
        uint32_t next = symbol_table_find(table, end);
        if (next == SYMBOL_NO_SYMBOL || table->symbols[next].start <= table->symbols[symbol].start)
            break;
        uint64_t behind = find_edge(table, next, end) + 1;
        if (symbol_table_find(table, behind) != symbol)
            break;
        end = find_edge(table, symbol, behind) + 1;
    }
    return end;
}

bool symbol_code_function(struct symbol_module *module, uint64_t vaddr,
                          struct symbol_code_range *range) {
    struct loaded_symbols *symbols = module->is_flat ? NULL : symbol_module_symbols(module);
    uint32_t symbol = symbols ? symbol_table_find(&symbols->table, vaddr) : SYMBOL_NO_SYMBOL;
    if (symbol == SYMBOL_NO_SYMBOL)
        return false;
    range->start = symbols->table.header->base + symbols->table.symbols[symbol].start;
    range->end = find_end(&symbols->table, symbol, vaddr);
    return range->start < range->end;
}

static bool write_all(int fd, const struct sonde_buf *bytes) {
    for (size_t at = 0; at < bytes->len;) {
        ssize_t put = write(fd, bytes->data + at, bytes->len - at);
        if (put < 0 && errno != EINTR)
            return false;
        at += put > 0 ? (size_t)put : 0;
    }
    return lseek(fd, 0, SEEK_SET) == 0;
}

static int request_file(const struct symbol_code_request *request) {
    struct sonde_buf bytes = {0};
    int fd = memfd_create("sonde-code", MFD_CLOEXEC);
    code_request_write(request, &bytes);
    if (fd >= 0 && (bytes.failed || !write_all(fd, &bytes))) {
        close(fd);
        fd = -1;
    }
    sonde_buf_finish(&bytes);
    return fd;
}

static sonde_err read_answer(int fd, struct symbol_code *code, struct sonde_diag *diag) {
    struct sonde_buf bytes = {.limit = ANSWER_BYTES};
    off_t size = lseek(fd, 0, SEEK_END);
    char *to =
        size > 0 && (size_t)size <= ANSWER_BYTES ? sonde_buf_extend(&bytes, (size_t)size) : NULL;
    for (off_t at = 0; to && at < size;) {
        ssize_t got = pread(fd, to + at, (size_t)(size - at), at);
        if (got <= 0 && !(got < 0 && errno == EINTR))
            to = NULL;
        at += got > 0 ? got : 0;
    }
    if (to && code_file_open(&bytes, code))
        return SONDE_OK;
    sonde_buf_finish(&bytes);
    return sonde_fail(diag, SONDE_CORRUPT, "the code could not be read");
}

static sonde_err judge(const struct symbol_process_run *run, struct sonde_diag *diag) {
    int code =
        run->end == SYMBOL_PROCESS_ENDED && WIFEXITED(run->status) ? WEXITSTATUS(run->status) : -1;
    switch (code) {
    case SYMBOL_WORKER_DONE:
        return SONDE_OK;
    case SYMBOL_WORKER_NO_LIBRARY:
        return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                          "the disassembler is not installed: install libcapstone4");
    case SYMBOL_WORKER_NO_CODE:
        return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                          "the file has no code: it is a debug file without its program");
    default:
        return sonde_fail(diag, SONDE_CORRUPT, "the code could not be disassembled");
    }
}

static sonde_err run(struct symbol_module *module, int request, int out, struct symbol_code *code,
                     struct sonde_diag *diag) {
    const char *arguments[] = {SYMBOL_WORKER_ARGUMENT, SYMBOL_WORKER_CODE, "-", NULL};
    int fds[SYMBOL_WORKER_FD_END];
    for (int i = 0; i < SYMBOL_WORKER_FD_END; i++)
        fds[i] = -1;
    fds[SYMBOL_WORKER_MAIN] = module->fd;
    fds[SYMBOL_WORKER_SCRATCH] = request;
    fds[SYMBOL_WORKER_OUT] = out;
    struct symbol_process_run run =
        symbol_process_run(module->store, arguments, fds, SYMBOL_WORKER_FD_END, TIMEOUT_MS);
    sonde_err err = judge(&run, diag);
    return err ? err : read_answer(out, code, diag);
}

/* A module that is known only by its tables has /dev/null as its file. */
static bool has_file(const struct symbol_module *module) {
    struct stat file;
    return module->fd >= 0 && fstat(module->fd, &file) == 0 && S_ISREG(file.st_mode);
}

static sonde_err check(const struct symbol_module *module,
                       const struct symbol_code_request *request, struct sonde_diag *diag) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < request->range_count; i++)
        bytes += request->ranges[i].end - request->ranges[i].start;
    if (request->range_count > SYMBOL_CODE_RANGES || request->wanted_count > SYMBOL_CODE_WANTED ||
        bytes > SYMBOL_CODE_BYTES)
        return sonde_fail(diag, SONDE_TOO_LARGE,
                          "the function has %llu bytes of code: at most %u can be shown",
                          (unsigned long long)bytes, SYMBOL_CODE_BYTES);
    if (module->is_flat || module->kind == SYMBOL_MODULE_KERNEL)
        return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                          "%s has no file with its code, so there are no instructions to show",
                          module->kind == SYMBOL_MODULE_KERNEL ? "the kernel" : "JIT code");
    if (!has_file(module) || !module->store->worker)
        return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                          "only tables of %.60s are here, not its code: start it, or upload it "
                          "(`sonde symbol --upload`)",
                          module->path[0] ? module->path : "this file");
    return SONDE_OK;
}

sonde_err symbol_code_read(struct symbol_module *module, const struct symbol_code_request *request,
                           struct symbol_code *code, struct sonde_diag *diag) {
    *code = (struct symbol_code){0};
    sonde_err err = check(module, request, diag);
    if (err)
        return err;
    int in = request_file(request), out = memfd_create("sonde-code", MFD_CLOEXEC);
    if (in < 0 || out < 0)
        err = sonde_fail_os(diag, errno, "cannot disassemble");
    else
        err = run(module, in, out, code, diag);
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    return err;
}
