/* SPDX-License-Identifier: Apache-2.0
 *
 *     48 8d 15 <disp32>    lea address(%rip), %rdx
 *     ...
 *     e8 <disp32>          call target */
#include "service/machine/x86_64/x86_64.h"

#include <string.h>

/* The address that the instruction at `at` refers to; it ends in a displacement after `size` bytes.
 */
static uint64_t referred(const struct machine_text *text, size_t at, size_t size) {
    int32_t displacement;
    memcpy(&displacement, text->code + at + size, sizeof displacement);
    return text->address + at + size + sizeof displacement + (uint64_t)(int64_t)displacement;
}

bool x86_64_next_call(const struct machine_text *text, size_t *at, struct machine_call *call) {
    static const uint8_t lea[] = {0x48, 0x8d, 0x15};
    for (; *at + sizeof lea + 4 <= text->len; ++*at) {
        size_t to = *at + sizeof lea + 4;
        if (memcmp(text->code + *at, lea, sizeof lea) != 0)
            continue;
        while (to + 5 <= text->len && text->code[to] != 0xe8)
            to++;
        if (to + 5 > text->len)
            continue;
        *call = (struct machine_call){referred(text, to, 1), referred(text, *at, sizeof lea)};
        ++*at;
        return true;
    }
    return false;
}
