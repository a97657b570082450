/* SPDX-License-Identifier: Apache-2.0
 *
 * Recognises a call by the 8 bytes before its return address, which are in a word with the last
 * byte highest. Each machine has this header, and Bazel chooses one as
 * service/machine/own/call_site.h. Signal-safe. */
#ifndef SONDE_SERVICE_MACHINE_OWN_CALL_SITE_H
#define SONDE_SERVICE_MACHINE_OWN_CALL_SITE_H

#include "service/unwind/table/table.h"

#include <stdbool.h>
#include <stdint.h>

/* bl target. *target: what it calls, if its return address is `address`. */
static inline bool unwind_is_direct_call(uint64_t before, uint64_t address, uint64_t *target) {
    uint64_t call = before >> 32, words = call & 0x3ffffff;
    words = (words ^ 1u << 25) - (1u << 25); /* 26 bits with a sign */
    *target = address - 4 + (words << 2);
    return call >> 26 == 0x25;
}

/* blr, and blraa, blrab, blraaz and blrabz, which check a signature first. */
static inline bool unwind_is_pointer_call(uint64_t before) {
    return (before >> 32 & 0xfefff000) == 0xd63f0000;
}

/* Whether code that begins with these 8 bytes is adrp x16, perhaps behind bti c: a stub of the
 * procedure linkage table. */
static inline bool unwind_is_stub(uint64_t code) {
    uint32_t first = (uint32_t)code == 0xd503245f ? (uint32_t)(code >> 32) : (uint32_t)code;
    return (first & 0x9f00001f) == 0x90000010;
}

/* 1: a rule of their own marks entries of the linkage table (unwind_is_plt_rule). 0: they have the
 * rule of any function's entry, so their code must be read (unwind_is_stub). */
#define UNWIND_PLT_HAS_RULES 0

static inline bool unwind_is_plt_rule(const struct unwind_rule *rule) {
    return false;
}

#endif
