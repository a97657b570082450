/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/symbol/fixture.h"

#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[64];
static pid_t children[16];

static void clean_up(void) {
    char command[128];
    for (size_t i = 0; i < sizeof children / sizeof *children; i++)
        if (children[i] > 0)
            kill(children[i], SIGKILL);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    if (directory[0] && system(command) != 0)
        fprintf(stderr, "%s stays\n", directory);
}

const char *fixture_dir(void) {
    if (directory[0] == 0) {
        CHECK(mkdtemp(temporary_template(directory, sizeof directory)) != NULL);
        atexit(clean_up);
    }
    return directory;
}

const char *fixture_path(const char *format, ...) {
    static char paths[8][512];
    static unsigned next;
    char *path = paths[next++ % 8];
    int len = snprintf(path, 512, "%s/", fixture_dir());
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(path + len, 512 - (size_t)len, format, arguments);
    va_end(arguments);
    return path;
}

void fixture_write(const char *name, const char *text) {
    FILE *file = fopen(fixture_path("%s", name), "w");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static int run(const char *format, va_list arguments, bool quiet) {
    char command[4096];
    int len = snprintf(command, sizeof command, "cd %s && { ", fixture_dir());
    vsnprintf(command + len, sizeof command - (size_t)len, format, arguments);
    len = (int)strlen(command);
    snprintf(command + len, sizeof command - (size_t)len, "; } >out.txt 2>&1");
    int status = system(command);
    if (status != 0 && !quiet) {
        fprintf(stderr, "failed: %s\n", command);
        snprintf(command, sizeof command, "head -20 %s/out.txt >&2", directory);
        if (system(command) != 0)
            fprintf(stderr, "and its output cannot be shown\n");
    }
    return status;
}

int fixture_run(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int status = run(format, arguments, true);
    va_end(arguments);
    return status;
}

void fixture_must(const char *program, const char *format, ...) {
    if (fixture_run("command -v %s", program) != 0)
        check_skip("%s is not installed", program);
    va_list arguments;
    va_start(arguments, format);
    int status = run(format, arguments, false);
    va_end(arguments);
    CHECK_INT(status, ==, 0);
}

const char *fixture_line(const char *format, ...) {
    static char line[4096];
    va_list arguments;
    va_start(arguments, format);
    run(format, arguments, true);
    va_end(arguments);
    line[0] = 0;
    FILE *file = fopen(fixture_path("out.txt"), "r");
    if (file && fgets(line, sizeof line, file))
        line[strcspn(line, "\n")] = 0;
    if (file)
        fclose(file);
    return line;
}

/* --- processes -------------------------------------------------------------------------------- */

static void remember(pid_t from, pid_t to) {
    for (size_t i = 0; i < sizeof children / sizeof *children; i++) {
        if (children[i] != from)
            continue;
        children[i] = to;
        return;
    }
}

static _Noreturn void be_program(const char *program, const char *root, int in, int out) {
    dup2(in, 0);
    dup2(out, 1);
    if (root)
        execlp("unshare", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--root", root,
               program, (char *)NULL);
    else
        execl(program, program, (char *)NULL);
    _exit(127);
}

void fixture_start(struct fixture_process *process, const char *program, const char *root) {
    int in[2], out[2];
    CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    *process = (struct fixture_process){.pid = fork(), .in = in[1], .out = out[0]};
    CHECK(process->pid >= 0);
    if (process->pid == 0)
        be_program(program, root, in[0], out[1]);
    close(in[0]);
    close(out[1]);
    remember(0, process->pid);
    size_t len = 0;
    while (!strstr(process->output, "ready\n") && len + 1 < sizeof process->output) {
        ssize_t got = read(out[0], process->output + len, sizeof process->output - 1 - len);
        if (got <= 0)
            break;
        len += (size_t)got;
    }
    if (!strstr(process->output, "ready\n")) {
        fixture_stop(process);
        check_fail(__FILE__, __LINE__, "%s did not get ready: %s", program, process->output);
    }
}

void fixture_stop(struct fixture_process *process) {
    close(process->in);
    close(process->out);
    kill(process->pid, SIGKILL);
    waitpid(process->pid, NULL, 0);
    remember(process->pid, 0);
}

uint64_t fixture_address(const struct fixture_process *process, const char *name) {
    const char *at = strstr(process->output, name);
    CHECK(at);
    return strtoull(at + strlen(name), NULL, 16);
}

/* --- naming ----------------------------------------------------------------------------------- */

bool fixture_mapping(pid_t pid, uint64_t address, struct symbol_mapping *mapping) {
    static char line[PATH_MAX + 128];
    char path[64];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "r");
    while (maps && !found && fgets(line, sizeof line, maps)) {
        unsigned long long start, end, offset, inode;
        unsigned major, minor;
        int text = 0;
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "%llx-%llx %*s %llx %x:%x %llu %n", &start, &end, &offset, &major, &minor,
                   &inode, &text) < 6)
            continue;
        *mapping = (struct symbol_mapping){.start = start,
                                           .end = end,
                                           .offset = offset,
                                           .device_major = major,
                                           .device_minor = minor,
                                           .inode = inode,
                                           .path = line + text};
        found = address >= start && address < end;
    }
    if (maps)
        fclose(maps);
    return found;
}

static struct fixture_answer resolve(struct symbol_store *store, struct symbol_module *module,
                                     uint64_t vaddr) {
    static struct sonde_arena arena;
    static char build_id[80];
    struct symbol_query query = {.module = module, .vaddr = vaddr};
    struct symbol_answer answer;
    sonde_arena_finish(&arena);
    CHECK_INT(symbol_resolve(store, &query, 1, &arena, &answer), ==, SONDE_OK);
    snprintf(build_id, sizeof build_id, "%s", symbol_module_build_id(module));
    static const struct symbol_frame none = {"", "", "", 0, 0};
    const struct symbol_frame *frame = answer.frame_count ? answer.frames : &none;
    return (struct fixture_answer){
        .name = frame->name,
        .system_name = frame->system_name,
        .file = frame->file,
        .line = frame->line,
        .build_id = build_id,
        .place = answer.place ? answer.place : "",
        .frame_count = answer.frame_count,
        .quality = answer.quality,
        .is_folded = answer.is_folded,
        .offset = frame->offset,
        .reason = symbol_module_reason(module),
    };
}

struct fixture_answer fixture_name(struct symbol_store *store, pid_t pid, uint64_t address) {
    struct symbol_mapping mapping;
    struct symbol_module *module;
    uint64_t bias;
    CHECK(fixture_mapping(pid, address, &mapping));
    CHECK_INT(symbol_module_open(store, pid, &mapping, &module, NULL), ==, SONDE_OK);
    struct fixture_answer answer = {"", "", "", "", "", .reason = symbol_module_reason(module)};
    if (symbol_module_bias(module, &mapping, &bias))
        answer = resolve(store, module, address - bias);
    symbol_module_release(module);
    return answer;
}

struct symbol_module *fixture_module(struct symbol_store *store, const char *path) {
    struct symbol_module *module;
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && fstat(fd, &info) == 0);
    void *bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    CHECK(bytes != MAP_FAILED);
    close(fd);
    struct symbol_mapping mapping;
    CHECK(fixture_mapping(getpid(), (uint64_t)(uintptr_t)bytes, &mapping));
    CHECK_INT(symbol_module_open(store, getpid(), &mapping, &module, NULL), ==, SONDE_OK);
    munmap(bytes, (size_t)info.st_size);
    return module;
}

struct fixture_answer fixture_name_in(struct symbol_store *store, const char *path,
                                      uint64_t vaddr) {
    struct symbol_module *module = fixture_module(store, path);
    struct fixture_answer answer = resolve(store, module, vaddr);
    symbol_module_release(module);
    return answer;
}

uint64_t fixture_nm(const char *path, const char *name) {
    const char *line = fixture_line("nm %s | awk '$3 == \"%s\" {print $1}'", path, name);
    return strtoull(line, NULL, 16);
}

struct symbol_store *fixture_store(const char *cache_dir, const char *debug_roots) {
    struct symbol_options options = {.cache_dir = cache_dir,
                                     .debug_roots = debug_roots ? debug_roots : fixture_dir()};
    struct symbol_store *store;
    struct sonde_diag diag = {0};
    if (symbol_store_create(&options, &store, &diag) != SONDE_OK)
        check_fail(__FILE__, __LINE__, "%s", diag.text);
    return store;
}
