/* SPDX-License-Identifier: Apache-2.0
 *
 * Two strings of every release since 3.0 say what a file has: the name of the variable that this
 * jemalloc reads, and the first words of its leak report, which the compiler removes from a build
 * without profiling. The names of its options and statistics are in both builds. */
#include "clients/cli/run/jemalloc_probe.h"

#include "api/elf/elf.h"
#include "clients/cli/run/executable.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHUNK     (1u << 20)
#define OVERLAP   64u          /* longer than any text that is searched for */
#define MAX_BYTES (1ull << 30) /* of one file */

extern char **environ;

const char *const jemalloc_variables[JEMALLOC_VARIABLES] = {"MALLOC_CONF", "_RJEM_MALLOC_CONF",
                                                            "JE_MALLOC_CONF"};

enum { TEXT_MESSAGE = JEMALLOC_VARIABLES, TEXT_LEAK, TEXT_SETTING, TEXTS };
static const struct {
    const char *bytes;
    size_t len;
} texts[TEXTS] = {
#define TEXT(text) \
    { text, sizeof(text) - 1 }
    TEXT("\0MALLOC_CONF\0"), TEXT("\0_RJEM_MALLOC_CONF\0"), TEXT("\0JE_MALLOC_CONF\0"),
    TEXT("<jemalloc>: "),    TEXT("<jemalloc>: Leak "),     TEXT("prof:true"),
};

static void search_chunk(const char *chunk, size_t len, bool found[TEXTS]) {
    for (int i = 0; i < TEXTS; i++)
        found[i] = found[i] || memmem(chunk, len, texts[i].bytes, texts[i].len) != NULL;
}

/* Searches what the segments have in the file. */
static void search(int fd, const struct elf_file *elf, bool found[TEXTS]) {
    uint64_t left = MAX_BYTES;
    char *chunk = malloc(CHUNK);
    for (uint32_t i = 0; chunk && i < elf->segment_count; i++) {
        const Elf64_Phdr *segment = &elf->segments[i];
        uint64_t bytes = segment->p_type == PT_LOAD ? segment->p_filesz : 0, at = 0;
        while (at < bytes && left > 0) {
            size_t wanted = bytes - at < CHUNK ? bytes - at : CHUNK;
            ssize_t got = pread(fd, chunk, wanted, (off_t)(segment->p_offset + at));
            if (got <= 0)
                break;
            search_chunk(chunk, (size_t)got, found);
            uint64_t step = (size_t)got > OVERLAP && at + (size_t)got < bytes
                                ? (size_t)got - OVERLAP
                                : (size_t)got;
            at += step;
            left -= step < left ? step : left;
        }
    }
    free(chunk);
}

static void note(struct jemalloc_probe *probe, const bool found[TEXTS], bool is_program) {
    bool is_jemalloc = found[TEXT_MESSAGE];
    for (uint32_t i = 0; is_jemalloc && i < JEMALLOC_VARIABLES; i++) {
        probe->profiles[i] |= found[i] && found[TEXT_LEAK];
        probe->lacks[i] |= found[i] && !found[TEXT_LEAK];
    }
    probe->has_setting |= (is_jemalloc || is_program) && found[TEXT_SETTING];
}

/* True at the first call for a file. */
static bool is_new(struct jemalloc_probe *probe, int fd) {
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) ||
        probe->file_count == JEMALLOC_PROBE_FILES)
        return false;
    for (uint32_t i = 0; i < probe->file_count; i++)
        if (probe->files[i].device == info.st_dev && probe->files[i].inode == info.st_ino)
            return false;
    probe->files[probe->file_count].device = info.st_dev;
    probe->files[probe->file_count++].inode = info.st_ino;
    return true;
}

/* Searches a file. Copies its interpreter, "" = none or the file was searched before. */
static void probe_file(struct jemalloc_probe *probe, const char *path, bool is_program,
                       char interpreter[256]) {
    interpreter[0] = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct elf_input input;
    struct elf_file elf = {0};
    if (fd >= 0 && is_new(probe, fd) && elf_input_of_file(fd, &input) &&
        elf_open(&input, &elf, NULL) == SONDE_OK) {
        bool found[TEXTS] = {false};
        search(fd, &elf, found);
        note(probe, found, is_program);
        if (!executable_interpreter(&elf, interpreter))
            interpreter[0] = 0;
    }
    elf_finish(&elf);
    if (fd >= 0)
        close(fd);
}

/* Starts `linker --list path`. Returns its output, NULL = it could not be started. */
static FILE *start_list(const char *linker, const char *path, pid_t *pid) {
    const char *argv[] = {linker, "--list", path, NULL};
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return NULL;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    int error = posix_spawn(pid, linker, &actions, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    FILE *list = error ? NULL : fdopen(ends[0], "r");
    if (!list)
        close(ends[0]);
    if (!list && !error)
        waitpid(*pid, NULL, 0);
    return list;
}

/* "\tlibm.so.6 => /lib/libm.so.6 (0x7f...)" or "\t/lib/ld.so (0x7f...)": the path, NULL = none. */
static const char *path_in(char *line) {
    char *end = strstr(line, " (0x"), *arrow = strstr(line, " => ");
    if (!end)
        return NULL;
    *end = 0;
    char *path = arrow && arrow < end ? arrow + 4 : line + strspn(line, " \t");
    return *path == '/' ? path : NULL;
}

void jemalloc_probe_program(struct jemalloc_probe *probe, const char *path) {
    char linker[256], none[256];
    pid_t pid;
    probe_file(probe, path, true, linker);
    FILE *list = strstr(linker, "ld-linux") ? start_list(linker, path, &pid) : NULL;
    if (!list)
        return;
    char *line = NULL;
    for (size_t size = 0; getline(&line, &size, list) > 0;) {
        const char *library = path_in(line);
        if (library)
            probe_file(probe, library, false, none);
    }
    free(line);
    fclose(list);
    waitpid(pid, NULL, 0);
}
