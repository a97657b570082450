/* SPDX-License-Identifier: Apache-2.0
 *
 * The function symbols of one file, from the best source it has: .symtab of the file or of its
 * debug file, else .gnu_debugdata together with .dynsym, else .dynsym alone; and names for the PLT,
 * which no symbol covers. What comes out is a plain list, clipped to executable sections, that
 * names_build.c turns into a table. Thread safety: one thread per collection. */
#ifndef SONDE_SERVICE_SYMBOL_SYMTAB_COLLECT_SYMBOLS_H
#define SONDE_SERVICE_SYMBOL_SYMTAB_COLLECT_SYMBOLS_H

#include "api/elf/elf.h"
#include "service/symbol/symbol.h"

/* Bounds of one file: 16 M symbols, 1 GiB of names. Larger tables are cut, and say so. */
#define SYMBOL_MAX_SYMBOLS    ((size_t)16 << 20)
#define SYMBOL_MAX_NAME_BYTES ((size_t)1 << 30)

struct symbol_raw {
    uint64_t start;
    uint64_t end;       /* start = size unknown: up to the next symbol, at most to `limit` */
    uint64_t limit;     /* end of its section */
    uint32_t name;      /* offset into names */
    uint8_t binding;    /* STB_* */
    uint8_t is_exact;   /* covers its first byte only: no size, and neighbours are missing */
    uint8_t is_plain;   /* the name is shown as it is: no linkage name */
    uint8_t is_unnamed; /* a function begins here; `name` is that of the empty string */
};

struct symbol_text {
    uint64_t start, end; /* one executable section */
};

struct symbol_collection {
    struct symbol_raw *items;
    size_t count, capacity;
    struct symbol_text *text; /* sorted by start */
    size_t text_count;
    struct sonde_buf names;
    enum symbol_quality quality;
    bool is_cut;
};

/* `debug` is the file of debug information of the same build-id, NULL = none. SONDE_OUT_OF_MEMORY
 * is the only failure: a broken source costs its own names. */
SONDE_MUST_USE sonde_err symbol_collect(const struct elf_file *elf, const struct elf_file *debug,
                                        struct symbol_collection *collection);
void symbol_collection_finish(struct symbol_collection *collection);

/* For collect.c and its helpers: adds one symbol with its name, clipped to its section. */
void symbol_collection_add(struct symbol_collection *collection, struct symbol_raw item);
uint32_t symbol_collection_name(struct symbol_collection *collection, const char *name, size_t len,
                                const char *tail);
/* The executable section around an address, NULL when there is none. */
const struct symbol_text *symbol_collection_text(const struct symbol_collection *collection,
                                                 uint64_t address);
/* Where functions begin that have no symbol. */
void symbol_collect_starts(const struct elf_file *elf, struct symbol_collection *collection);
/* name@plt for every PLT entry whose jump goes through a relocated slot. */
void symbol_collect_plt(const struct elf_file *elf, struct symbol_collection *collection);

#endif
