/* SPDX-License-Identifier: Apache-2.0 */
#include "service/machine/x86_64/x86_64.h"

#include <string.h>

/* mov $15, %eax or %rax; syscall: rt_sigreturn. */
size_t x86_64_trampoline_at(const uint8_t *code, size_t len) {
    static const uint8_t wide[] = {0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05};
    static const uint8_t narrow[] = {0xb8, 15, 0, 0, 0, 0x0f, 0x05};
    if (len >= sizeof wide && memcmp(code, wide, sizeof wide) == 0)
        return sizeof wide;
    return len >= sizeof narrow && memcmp(code, narrow, sizeof narrow) == 0 ? sizeof narrow : 0;
}

/* How often it says push rbp; mov rbp, rsp. */
uint32_t x86_64_count_frames(const uint8_t *code, size_t len) {
    uint32_t count = 0;
    for (size_t at = 0; at + 4 <= len; at++)
        count += code[at] == 0x55 && code[at + 1] == 0x48 &&
                 (memcmp(code + at + 2, "\x89\xe5", 2) == 0 ||
                  memcmp(code + at + 2, "\x8b\xec", 2) == 0);
    return count;
}
