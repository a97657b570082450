/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of functions that Go's linker writes into every program, because the runtime needs it
 * itself: it is also in stripped ones. Its bytes are not trusted. Thread safety: any thread. */
#ifndef SONDE_SERVICE_ELF_GO_TABLE_H
#define SONDE_SERVICE_ELF_GO_TABLE_H

#include "api/bytes.h"
#include "api/elf/elf.h"

/* Zeroed memory is an empty table. */
struct go_table {
    struct sonde_buf section;
    const struct go_layout *layout;
    uint8_t quantum; /* bytes that instructions are a multiple of */
    uint64_t count;  /* of functions, sorted by address */
    uint64_t start, functions, names, names_end, depths;
};

struct go_function {
    uint64_t start, end; /* vaddrs */
    uint64_t name;       /* offset from table.names; names_end - names if there is none */
    uint64_t depths;     /* for go_table_next_depth; 0 = unknown */
};

/* Whether the file has such a table. */
bool go_table_is_in(const struct elf_file *elf);
/* False if the file has no table, or one of an unknown layout. Call finish after either. */
bool go_table_open(const struct elf_file *elf, struct go_table *table);
void go_table_finish(struct go_table *table);

/* Function number `which` < count. */
struct go_function go_table_function(const struct go_table *table, uint64_t which);

/* A run of instructions at which rsp is `depth` bytes below what it is at the function's start. */
struct go_depth {
    uint64_t at; /* where the next one is encoded; begin with go_function.depths */
    uint64_t pc; /* where the next one begins, as an offset from the function's start */
    int64_t depth;
};

/* Reads the next run, which ends at depth->pc. False at the function's end. To begin: pc 0, depth
 * -1. */
bool go_table_next_depth(const struct go_table *table, struct go_depth *depth);

#endif
