/* SPDX-License-Identifier: Apache-2.0
 *
 * Layouts differ (.plt with a header, .plt.sec with endbr64, .plt.got with 8 or 16 bytes per entry,
 * lld's own), so entries are not counted. Instead, each entry is searched for its indirect jump:
 *
 *     [f3 0f 1e fa]  [f2]  ff 25 <disp32>        jmp *slot(%rip) */
#include "service/machine/x86_64/x86_64.h"

#include <string.h>

/* The address of the slot that the entry jumps through; 0 = no such jump. */
static uint64_t jump_slot(const uint8_t *entry, size_t len, uint64_t address) {
    for (size_t i = 0; i + 6 <= len; i++) {
        if (entry[i] != 0xff || entry[i + 1] != 0x25)
            continue;
        int32_t displacement;
        memcpy(&displacement, entry + i + 2, sizeof displacement);
        return address + i + 6 + (uint64_t)(int64_t)displacement;
    }
    return 0;
}

bool x86_64_next_plt_entry(const struct machine_plt *plt, size_t from,
                           struct machine_plt_entry *entry) {
    size_t step = plt->entry_bytes == 8 ? 8 : 16;
    for (size_t at = from; at < plt->len; at += step) {
        size_t len = plt->len - at < step ? plt->len - at : step;
        uint64_t slot = jump_slot(plt->code + at, len, plt->address + at);
        *entry = (struct machine_plt_entry){at, at + len, slot};
        if (slot)
            return true;
    }
    return false;
}
