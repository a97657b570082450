/* SPDX-License-Identifier: Apache-2.0
 *
 * The starts of functions without a symbol in a stripped or partly stripped file, from the sorted
 * table of its frame description entries (.eh_frame_hdr). With them, all samples in one function
 * are shown as "[module]+0xSTART". Without them, every sampled instruction would be shown as a
 * function of its own. */
#include "service/symbol/symtab/collect_symbols.h"

#include <string.h>

#define PIECE 512u

/* The version and encodings that linkers write: pcrel sdata4, udata4, datarel sdata4. */
static const uint8_t usual[4] = {1, 0x1b, 0x03, 0x3b};

struct header {
    uint8_t version_and_encodings[4];
    int32_t frames;
    uint32_t count;
};

struct entry {
    int32_t start, descriptor; /* relative to the header's address */
};

static const Elf64_Phdr *header_segment(const struct elf_file *elf) {
    for (uint32_t i = 0; i < elf->segment_count; i++)
        if (elf->segments[i].p_type == PT_GNU_EH_FRAME)
            return &elf->segments[i];
    return NULL;
}

static void add_fde_start(struct symbol_collection *collection, uint64_t address, uint32_t name) {
    const struct symbol_text *text = symbol_collection_text(collection, address);
    if (text)
        symbol_collection_add(collection, (struct symbol_raw){.start = address,
                                                              .end = address,
                                                              .limit = text->end,
                                                              .name = name,
                                                              .binding = STB_LOCAL,
                                                              .is_unnamed = true});
}

void symbol_collect_fde_starts(const struct elf_file *elf, struct symbol_collection *collection) {
    const Elf64_Phdr *segment = header_segment(elf);
    struct header header;
    if (!segment || segment->p_filesz < sizeof header ||
        !elf_read(&elf->input, segment->p_offset, &header, sizeof header) ||
        memcmp(header.version_and_encodings, usual, sizeof usual) != 0)
        return;
    uint64_t most = (segment->p_filesz - sizeof header) / sizeof(struct entry);
    uint64_t count = header.count < most ? header.count : most;
    uint64_t at = segment->p_offset + sizeof header;
    uint32_t name = symbol_collection_name(collection, "", 0, "");
    struct entry piece[PIECE];
    for (uint64_t done = 0; done < count && !collection->is_cut; done += PIECE) {
        size_t now = count - done < PIECE ? count - done : PIECE;
        if (!elf_read(&elf->input, at + done * sizeof *piece, piece, now * sizeof *piece))
            return;
        for (size_t i = 0; i < now; i++)
            add_fde_start(collection, segment->p_vaddr + (uint64_t)(int64_t)piece[i].start, name);
    }
}
