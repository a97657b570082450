/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries have 16 bytes, and 24 where branch targets or return addresses are protected. They are
 * not counted but recognized by the two instructions that load the slot. The header in front of
 * them loads its own slot in the same way, which no relocation names.
 *
 *     [bti c]
 *     adrp x16, page of the slot
 *     ldr  x17, [x16, #offset in the page]
 *     add  x16, x16, #offset
 *     [autia1716]
 *     br   x17
 *     [nop] */
#include "service/machine/aarch64/aarch64.h"

#include <string.h>

#define BTI_C        0xd503245fu
#define PUSH         0xa9bf7bf0u /* stp x16, x30, [sp, #-16]! */
#define NOP          0xd503201fu
#define BR_X17       0xd61f0220u
#define ADRP_X16     0x90000010u
#define ADRP_MASK    0x9f00001fu
#define LDR_X17_X16  0xf9400211u
#define LDR_MASK     0xffc003ffu
#define INSTRUCTIONS 6u /* of the longest entry */

static uint32_t word_at(const struct machine_plt *plt, size_t at) {
    uint32_t word = 0;
    if (at + sizeof word <= plt->len)
        memcpy(&word, plt->code + at, sizeof word);
    return word;
}

/* The slot that adrp, at `address`, and ldr load. */
static uint64_t slot_of(uint64_t address, uint32_t adrp, uint32_t ldr) {
    return aarch64_page_of(address, adrp) + (ldr >> 10 & 0xfff) * 8u;
}

/* The offset behind the entry's jump and what fills its last bytes. */
static size_t end_of(const struct machine_plt *plt, size_t start, size_t load) {
    size_t at = load + 8, last = start + 4 * INSTRUCTIONS;
    while (at < last && word_at(plt, at) != BR_X17)
        at += 4;
    for (at += 4; at < last && word_at(plt, at) == NOP;)
        at += 4;
    return at < plt->len ? at : plt->len;
}

bool aarch64_next_plt_entry(const struct machine_plt *plt, size_t from,
                            struct machine_plt_entry *entry) {
    for (size_t at = (from + 3) & ~(size_t)3; at + 8 <= plt->len; at += 4) {
        uint32_t adrp = word_at(plt, at), ldr = word_at(plt, at + 4);
        if ((adrp & ADRP_MASK) != ADRP_X16 || (ldr & LDR_MASK) != LDR_X17_X16)
            continue;
        entry->start = at >= from + 4 && word_at(plt, at - 4) == BTI_C ? at - 4 : at;
        entry->end = end_of(plt, entry->start, at);
        entry->slot = slot_of(plt->address + at, adrp, ldr);
        return true;
    }
    return false;
}

size_t aarch64_find_plt_push(const struct machine_plt *plt) {
    size_t at = word_at(plt, 0) == BTI_C ? 4 : 0;
    return word_at(plt, at) == PUSH ? at + 4 : 0;
}
