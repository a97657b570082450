/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of copy_fuzz.c that each machine has. */
#ifndef SONDE_TESTS_FUZZ_UNWIND_COPY_RULES_H
#define SONDE_TESTS_FUZZ_UNWIND_COPY_RULES_H

#include "service/unwind/table/table.h"

extern const uint32_t fuzz_machine; /* EM_* */
/* Sets where rule i has the registers of the caller. */
void fuzz_set_saved(uint32_t i, struct unwind_rule *rule);

#endif
