/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that the symbol tests compile, run and look into. Everything lies in one directory per
 * test program, removed at its end; every child ends with the test that started it. */
#ifndef SONDE_TESTS_UNIT_SYMBOL_FIXTURE_H
#define SONDE_TESTS_UNIT_SYMBOL_FIXTURE_H

#include "service/symbol/symbol.h"

#include <sys/types.h>

/* The directory. */
const char *fixture_dir(void);
/* Formats a path in the directory into one of a few rotating buffers. */
const char *fixture_path(const char *format, ...) __attribute__((format(printf, 1, 2)));
void fixture_write(const char *name, const char *text);
/* Runs a shell command in the directory; its exit status. Output is thrown away unless it fails. */
int fixture_run(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same, but failure ends the test, and a missing program skips it. */
void fixture_must(const char *program, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* First line of a command's output. */
const char *fixture_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A running program that printed "NAME ADDRESS\n" lines and "ready\n". */
struct fixture_process {
    pid_t pid;
    int in; /* closing it lets the program end */
    int out;
    char output[2048];
};

/* `unshare` runs it in new mount and pid namespaces with that directory as its root; NULL = not. */
void fixture_start(struct fixture_process *process, const char *program, const char *root);
void fixture_stop(struct fixture_process *process);
uint64_t fixture_address(const struct fixture_process *process, const char *name);

/* The mapping around an address; text lives until the next call. False when there is none. */
bool fixture_mapping(pid_t pid, uint64_t address, struct symbol_mapping *mapping);
/* Opens the module there, and names the address; "" = no name. Strings live until the next call. */
struct fixture_answer {
    const char *name, *system_name, *file, *build_id, *place;
    uint32_t line, frame_count;
    enum symbol_quality quality;
    enum symbol_reason reason;
    bool is_folded;
    uint64_t offset;
};
struct fixture_answer fixture_name(struct symbol_store *store, pid_t pid, uint64_t address);
/* The same for an ELF address of a file on disk, which need not run. */
struct fixture_answer fixture_name_in(struct symbol_store *store, const char *path, uint64_t vaddr);
struct symbol_module *fixture_module(struct symbol_store *store, const char *path);
/* The address of a symbol by nm; 0 = not there. */
uint64_t fixture_nm(const char *path, const char *name);

struct symbol_store *fixture_store(const char *cache_dir, const char *debug_roots);

#endif
