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

/* call rel32. *target: what it calls, if its return address is `address`. */
static inline bool unwind_is_direct_call(uint64_t before, uint64_t address, uint64_t *target) {
    *target = address + (uint64_t)(int64_t)(int32_t)(before >> 32);
    return (before >> 24 & 0xff) == 0xe8;
}

/* A call through a register or memory: ff /2, in each length that its address forms have. */
static inline bool unwind_is_pointer_call(uint64_t before) {
    static const uint8_t lengths[] = {2, 3, 4, 6, 7};
    for (unsigned i = 0; i < sizeof lengths; i++) {
        uint64_t call = before >> (8 * (8 - lengths[i]));
        if ((call & 0xff) == 0xff && (call >> 11 & 7) == 2)
            return true;
    }
    return false;
}

/* Whether code that begins with these 8 bytes is jmp *n(%rip), perhaps after endbr64 or bnd: a stub
 * of the procedure linkage table. */
static inline bool unwind_is_stub(uint64_t code) {
    uint64_t at = (code & 0xff) == 0xf3 ? code >> 32 : code;
    at = (at & 0xff) == 0xf2 ? at >> 8 : at;
    return (at & 0xffff) == 0x25ff;
}

/* 1: a rule of their own marks entries of the linkage table (unwind_is_plt_rule). 0: they have the
 * rule of any function's entry, so their code must be read (unwind_is_stub). */
#define UNWIND_PLT_HAS_RULES 1

static inline bool unwind_is_plt_rule(const struct unwind_rule *rule) {
    return rule->cfa == UNWIND_CFA_PLT;
}

#endif
