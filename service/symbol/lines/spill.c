/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/lines/spill.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE  ((size_t)4096)
#define PIECE ((size_t)8 << 20)

static size_t slot_of(const struct symbol_spill *spill, const struct symbol_block *block) {
    size_t at = 0;
    while (at < SYMBOL_SPILL_BLOCKS && spill->in_file[at] != block)
        at++;
    return at;
}

static void *map_more(struct symbol_spill *spill, size_t size) {
    uint64_t len = (size + PAGE - 1) & ~(PAGE - 1);
    if (ftruncate(spill->fd, (off_t)(spill->file_bytes + len)) != 0)
        return NULL;
    void *bytes =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, spill->fd, (off_t)spill->file_bytes);
    if (bytes == MAP_FAILED)
        return NULL;
    spill->file_bytes += len;
    return bytes;
}

/* Moves piece by piece, so that both copies are never resident as a whole. */
static void move(const struct symbol_block *from, char *to, size_t len) {
    for (size_t at = 0; at < len; at += PIECE) {
        size_t piece = len - at < PIECE ? len - at : PIECE;
        memcpy(to + at, (const char *)from->bytes + at, piece);
        madvise(to + at, piece, MADV_DONTNEED);
        if (from->in_file)
            madvise((char *)from->bytes + at, piece, MADV_DONTNEED);
    }
}

static bool resize_in_memory(struct symbol_spill *spill, struct symbol_block *block, size_t size) {
    void *bytes = realloc(block->bytes, size);
    if (!bytes)
        return false;
    spill->in_memory += size - block->size;
    *block = (struct symbol_block){bytes, size, false};
    return true;
}

static bool resize_in_file(struct symbol_spill *spill, struct symbol_block *block, size_t size) {
    size_t slot = slot_of(spill, block->in_file ? block : NULL);
    char *bytes = slot < SYMBOL_SPILL_BLOCKS ? map_more(spill, size) : NULL;
    if (!bytes)
        return false;
    move(block, bytes, block->size < size ? block->size : size);
    symbol_block_free(spill, block);
    *block = (struct symbol_block){bytes, size, true};
    spill->in_file[slot] = block;
    return true;
}

bool symbol_block_resize(struct symbol_spill *spill, struct symbol_block *block, size_t size) {
    bool fits = !block->in_file && spill->in_memory - block->size + size <= spill->limit;
    if (fits || spill->fd < 0)
        return resize_in_memory(spill, block, size);
    return resize_in_file(spill, block, size);
}

void symbol_block_free(struct symbol_spill *spill, struct symbol_block *block) {
    size_t slot = block->in_file ? slot_of(spill, block) : SYMBOL_SPILL_BLOCKS;
    if (slot < SYMBOL_SPILL_BLOCKS)
        spill->in_file[slot] = NULL;
    if (block->in_file) {
        munmap(block->bytes, block->size);
    } else {
        free(block->bytes);
        spill->in_memory -= block->size;
    }
    *block = (struct symbol_block){0};
}

void symbol_spill_drop_pages(const struct symbol_spill *spill) {
    for (size_t i = 0; i < SYMBOL_SPILL_BLOCKS; i++)
        if (spill->in_file[i])
            madvise(spill->in_file[i]->bytes, spill->in_file[i]->size, MADV_DONTNEED);
}
