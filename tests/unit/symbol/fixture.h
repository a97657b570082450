/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that the symbol tests compile and run. Each test program has one directory, which is
 * removed when it ends; its children are killed, too. */
#ifndef SONDE_TESTS_UNIT_SYMBOL_FIXTURE_H
#define SONDE_TESTS_UNIT_SYMBOL_FIXTURE_H

#include "service/symbol/symbol.h"

#include <sys/types.h>

/* The path of the directory. */
const char *fixture_dir(void);
/* Formats a path in the directory into one of a few rotating buffers. */
const char *fixture_path(const char *format, ...) __attribute__((format(printf, 1, 2)));
void fixture_write(const char *name, const char *text);
/* Runs a shell command in the directory and returns its status. */
int fixture_run(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same, but fails the test if the command fails, and skips it if the program is missing. */
void fixture_must(const char *program, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The first line of a command's output. */
const char *fixture_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A running program that has printed "NAME ADDRESS\n" lines and "ready\n". */
struct fixture_process {
    pid_t pid;
    int in; /* the program exits when it is closed */
    int out;
    char output[2048];
};

/* With `root`, runs it in new mount and pid namespaces with that directory as its root. */
void fixture_start(struct fixture_process *process, const char *program, const char *root);
void fixture_stop(struct fixture_process *process);
uint64_t fixture_address(const struct fixture_process *process, const char *name);

/* The mapping that contains an address. Its path is valid until the next call. */
bool fixture_mapping(pid_t pid, uint64_t address, struct symbol_mapping *mapping);
/* Opens the module at an address and resolves it; "" = no name. Strings are valid until the next
 * call. */
struct fixture_answer {
    const char *name, *system_name, *file, *build_id, *place;
    uint32_t line, frame_count;
    enum symbol_quality quality;
    enum symbol_reason reason;
    bool is_folded;
    uint64_t offset;
};
struct fixture_answer fixture_name(struct symbol_store *store, pid_t pid, uint64_t address);
/* The same for an ELF vaddr of a file on disk. */
struct fixture_answer fixture_name_in(struct symbol_store *store, const char *path, uint64_t vaddr);
struct symbol_module *fixture_module(struct symbol_store *store, const char *path);
/* The address of a symbol, from nm; 0 = not found. */
uint64_t fixture_nm(const char *path, const char *name);

struct symbol_store *fixture_store(const char *cache_dir, const char *debug_roots);

#endif
