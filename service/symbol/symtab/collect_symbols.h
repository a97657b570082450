/* SPDX-License-Identifier: Apache-2.0
 *
 * Collects the symbols of functions and variables of one file from its best source: .symtab of the
 * file or of its debug file, else the table of Go's runtime, else .gnu_debugdata together with
 * .dynsym, else .dynsym alone. PLT entries, which have no symbols, also get names, as does
 * libstdc++'s function that runs a std::thread. Functions that only .eh_frame_hdr knows get unnamed
 * symbols. The result is an unsorted list, clipped to sections, from which symbol_table_build.c
 * builds a table. Thread safety: one thread per collection. */
#ifndef SONDE_SERVICE_SYMBOL_SYMTAB_COLLECT_SYMBOLS_H
#define SONDE_SERVICE_SYMBOL_SYMTAB_COLLECT_SYMBOLS_H

#include "api/elf/elf.h"
#include "service/symbol/symbol.h"

/* Limits per file. If a file has more, is_cut is set. */
#define SYMBOL_MAX_SYMBOLS    ((size_t)16 << 20)
#define SYMBOL_MAX_NAME_BYTES ((size_t)1 << 30)

struct symbol_raw {
    uint64_t start;
    uint64_t end;       /* equal to start if the size is unknown: it extends to the next symbol */
    uint64_t limit;     /* the end of its section, beyond which it does not extend */
    uint32_t name;      /* offset into names */
    uint8_t binding;    /* STB_* */
    uint8_t is_exact;   /* of unknown size among missing neighbours: covers its first byte only */
    uint8_t is_plain;   /* SYMBOL_IS_PLAIN */
    uint8_t is_unnamed; /* SYMBOL_IS_UNNAMED; `name` is the empty string */
};

struct symbol_text {
    uint64_t start, end; /* one section */
    bool is_data;        /* with variables, not code */
};

struct symbol_collection {
    struct symbol_raw *items;
    size_t count, capacity;
    size_t functions;         /* of .symtab and .dynsym */
    struct symbol_text *text; /* sorted by start */
    size_t text_count;
    struct sonde_buf names;
    enum symbol_quality quality;
    bool is_cut;
};

/* `debug` is the file's debug file; NULL = none. The only error is SONDE_OUT_OF_MEMORY: a damaged
 * source is skipped. */
SONDE_MUST_USE sonde_err symbol_collect(const struct elf_file *elf, const struct elf_file *debug,
                                        struct symbol_collection *collection);
void symbol_collection_finish(struct symbol_collection *collection);

/* --- for the files of this folder and jit/ ---------------------------------------------------- */

/* Adds a symbol. Beyond SYMBOL_MAX_SYMBOLS, and without memory, sets is_cut instead. */
void symbol_collection_add(struct symbol_collection *collection, struct symbol_raw item);
/* Appends name and tail to the names and returns the offset for symbol_raw.name. */
uint32_t symbol_collection_name(struct symbol_collection *collection, const char *name, size_t len,
                                const char *tail);
/* The section that contains the address; NULL = none. */
const struct symbol_text *symbol_collection_text(const struct symbol_collection *collection,
                                                 uint64_t address);
/* Collects the functions of a Go program (go_symbols.c). Returns false if the file is not one. */
bool symbol_collect_go(const struct elf_file *elf, struct symbol_collection *collection);
/* Unnamed symbols for the functions that .eh_frame_hdr lists (fde_starts.c). */
void symbol_collect_fde_starts(const struct elf_file *elf, struct symbol_collection *collection);
/* name@plt for every PLT entry that jumps through a relocated slot (plt.c). */
void symbol_collect_plt(const struct elf_file *elf, struct symbol_collection *collection);
/* The function that runs a std::thread in a stripped libstdc++, after the PLT (thread_start.c). */
void symbol_collect_thread_start(const struct elf_file *elf, struct symbol_collection *collection);

#endif
