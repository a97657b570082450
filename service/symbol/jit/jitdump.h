/* SPDX-License-Identifier: Apache-2.0
 *
 * jit-PID.dump, the richer file that JIT compilers write for perf: code loaded and moved, with
 * lines.
 *
 *     header | records: kind, bytes, time | DEBUG_INFO of the LOAD after it, LOAD, MOVE, ...
 *
 * It only grows, so it is read on from where the last look ended; the code's bytes in it are passed
 * over. The file is anybody's input: each record may be anything, and what is kept is bounded.
 * Thread safety: one thread per dump. */
#ifndef SONDE_SERVICE_SYMBOL_JIT_JITDUMP_H
#define SONDE_SERVICE_SYMBOL_JIT_JITDUMP_H

#include "api/elf/elf.h"
#include "api/hash_index.h"
#include "service/symbol/jit/interval_overlay.h"

#include <sys/types.h>

/* Of one dump; what comes after them has no names. */
#define SYMBOL_JITDUMP_LOADS (512u << 10)
#define SYMBOL_JITDUMP_ROWS  (2u << 20)
#define SYMBOL_JITDUMP_TEXT  ((size_t)32 << 20)

/* A line of the source begins at an offset of its code. */
struct symbol_jitdump_row {
    uint32_t offset, line;
    uint32_t file; /* offset into text; of the empty string: unknown */
};

/* Code at a place, from some moment on. */
struct symbol_jitdump_load {
    uint64_t start, end;
    uint32_t name, name_len; /* in text; no length: it moved away from here */
    uint32_t first_row, row_count;
};

struct symbol_jitdump {
    uint64_t at; /* of the file; 0 = not even the header was read */
    struct symbol_jitdump_load *loads;
    struct symbol_jitdump_row *rows;
    uint32_t load_count, load_capacity, row_count, row_capacity;
    struct sonde_buf text; /* NUL-terminated strings; the first is empty */
    bool is_broken;        /* nothing more is read */
    bool has_small_offset; /* some line begins before an ELF header's length */

    /* A DEBUG_INFO record, waiting for its LOAD. */
    uint64_t pending_code;
    uint32_t pending_row, pending_count;

    /* The newest load of each code_index. */
    struct symbol_jitdump_code {
        uint64_t code_index;
        uint32_t load;
    } * codes;
    uint32_t code_count, code_capacity;
    struct hash_index index; /* of codes; initialised when the header is read */
};

/* Reads what has come since; true when there is something new. */
bool symbol_jitdump_read(struct symbol_jitdump *dump, const struct elf_input *input);
void symbol_jitdump_finish(struct symbol_jitdump *dump);
/* What is to be taken off every row's offset: some compilers write lines as they would stand in an
 * ELF file, behind its header. */
uint32_t symbol_jitdump_shift(const struct symbol_jitdump *dump);
/* The loads as ranges; range.load is a load's number plus one. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err symbol_jitdump_ranges(const struct symbol_jitdump *dump,
                                               struct symbol_ranges *ranges);

#endif
