/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that may go to disk. Blocks are plain memory until all of them together reach a bound;
 * what grows beyond lies in a scratch file, mapped, and its pages can be given back to the kernel
 * at any time: the bytes stay, only the next touch costs a fault. So a conversion's memory is
 * bounded whatever its result. Thread safety: one thread per spill. */
#ifndef SONDE_SERVICE_SYMBOL_LINES_SPILL_H
#define SONDE_SERVICE_SYMBOL_LINES_SPILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SYMBOL_SPILL_BLOCKS 16

struct symbol_block {
    void *bytes;
    size_t size;
    bool in_file;
};

struct symbol_spill {
    int fd; /* an empty file, borrowed; -1 = memory only */
    size_t limit, in_memory;
    uint64_t file_bytes;
    struct symbol_block *in_file[SYMBOL_SPILL_BLOCKS];
};

/* Grows or shrinks a block (zeroed = empty) and keeps its bytes; false when there is no room, and
 * then nothing has changed. */
bool symbol_block_resize(struct symbol_spill *spill, struct symbol_block *block, size_t size);
void symbol_block_free(struct symbol_spill *spill, struct symbol_block *block);
/* Gives back the pages of all blocks that lie in the file. */
void symbol_spill_drop_pages(const struct symbol_spill *spill);

#endif
