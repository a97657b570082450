/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads jit-PID.dump, which JIT compilers write for perf. Unlike a perf map it has source lines,
 * and records when code was loaded and moved.
 *
 *     header | records: kind, bytes, time | DEBUG_INFO of the LOAD after it, LOAD, MOVE, ...
 *
 * The file only grows, so each read continues where the last one ended. The machine code in it is
 * skipped. The file is untrusted: any record may be malformed, and memory is limited. Thread
 * safety: one thread per dump. */
#ifndef SONDE_SERVICE_SYMBOL_JIT_JITDUMP_H
#define SONDE_SERVICE_SYMBOL_JIT_JITDUMP_H

#include "api/elf/elf.h"
#include "api/hash_index.h"
#include "service/symbol/jit/interval_overlay.h"

#include <sys/types.h>

/* Limits per dump. Later code gets no names. */
#define SYMBOL_JITDUMP_LOADS (512u << 10)
#define SYMBOL_JITDUMP_ROWS  (2u << 20)
#define SYMBOL_JITDUMP_TEXT  ((size_t)32 << 20)

/* At this offset of the code begins another source line. */
struct symbol_jitdump_row {
    uint32_t offset, line;
    uint32_t file; /* offset into text; the empty string = unknown */
};

/* Code that was loaded at, or moved to, an address. */
struct symbol_jitdump_load {
    uint64_t start, end;
    uint32_t name, name_len; /* in text; name_len 0: the code moved away from here */
    uint32_t first_row, row_count;
};

struct symbol_jitdump {
    uint64_t at; /* offset of the next record; 0 = the header was not read yet */
    struct symbol_jitdump_load *loads;
    struct symbol_jitdump_row *rows;
    uint32_t load_count, load_capacity, row_count, row_capacity;
    struct sonde_buf text; /* NUL-terminated strings; the first is empty */
    bool is_broken;        /* no more of the file is read */
    bool has_small_offset; /* some row has an offset below the size of an ELF header */

    /* The last DEBUG_INFO record, whose LOAD has not been read yet. */
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

/* Reads what was added since the last call. True if that was anything. */
bool symbol_jitdump_read(struct symbol_jitdump *dump, const struct elf_input *input);
/* Memory that it takes. */
size_t symbol_jitdump_bytes(const struct symbol_jitdump *dump);
void symbol_jitdump_finish(struct symbol_jitdump *dump);
/* Subtract this from every row's offset: some compilers count offsets from the start of an ELF
 * file, whose header comes before the code. */
uint32_t symbol_jitdump_shift(const struct symbol_jitdump *dump);
/* Adds the loads to an overlay; interval.load is the load's number plus one.
 * SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err symbol_jitdump_intervals(const struct symbol_jitdump *dump,
                                                  struct symbol_overlay *overlay);

#endif
