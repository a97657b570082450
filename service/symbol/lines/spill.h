/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that can move to disk. Blocks are heap memory until all of them together reach a limit. A
 * block that grows beyond it moves to a mapped scratch file, whose pages can be returned to the
 * kernel at any time: the bytes stay, and the next access costs a page fault. That bounds the
 * memory of a worker, however large its table is. Thread safety: one thread per spill. */
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
    int fd; /* an empty scratch file, borrowed; -1 = memory only */
    size_t limit, in_memory;
    uint64_t file_bytes;
    struct symbol_block *in_file[SYMBOL_SPILL_BLOCKS];
};

/* Resizes a block (zeroed = empty) and keeps its bytes. If it fails, the block is unchanged. */
bool symbol_block_resize(struct symbol_spill *spill, struct symbol_block *block, size_t size);
void symbol_block_free(struct symbol_spill *spill, struct symbol_block *block);
/* Returns the pages of all blocks in the file to the kernel. */
void symbol_spill_drop_pages(const struct symbol_spill *spill);

#endif
