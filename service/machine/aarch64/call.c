/* SPDX-License-Identifier: Apache-2.0
 *
 *     adrp x2, page
 *     ...
 *     add x2, x2, #offset in the page
 *     ...
 *     bl target */
#include "service/machine/aarch64/aarch64.h"

#include <string.h>

/* The page of an adrp at `address`. */
uint64_t aarch64_page_of(uint64_t address, uint32_t adrp) {
    uint64_t pages = (uint64_t)(adrp >> 5 & 0x7ffff) << 2 | (adrp >> 29 & 3);
    pages = (pages ^ 1u << 20) - (1u << 20); /* 21 bits with a sign */
    return (address & ~(uint64_t)0xfff) + (pages << 12);
}

static uint64_t target_of(uint64_t address, uint32_t bl) {
    uint64_t words = bl & 0x3ffffff;
    words = (words ^ 1u << 25) - (1u << 25);
    return address + (words << 2);
}

bool aarch64_next_call(const struct machine_text *text, size_t *at, struct machine_call *call) {
    uint64_t page = 0;
    call->argument = 0;
    for (; *at + 4 <= text->len; *at += 4) {
        uint32_t word;
        memcpy(&word, text->code + *at, sizeof word);
        if ((word & 0x9f00001f) == 0x90000002) /* adrp x2 */
            page = aarch64_page_of(text->address + *at, word);
        else if (page && (word & 0xffc003ff) == 0x91000042) /* add x2, x2, #n */
            call->argument = page + (word >> 10 & 0xfff);
        if (word >> 26 != 0x25) /* bl */
            continue;
        call->target = target_of(text->address + *at, word);
        if (call->argument) {
            *at += 4;
            return true;
        }
        page = 0;
    }
    return false;
}
