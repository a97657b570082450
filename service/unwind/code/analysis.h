/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the unwind rows of a function that has no unwind information, by following what its
 * instructions do to rsp: the C library musl, which Alpine and static programs use, is compiled
 * without any. Nothing is guessed: where the depth of the stack is not certain, there are no rows.
 * A function that keeps a frame pointer needs none. Any thread. */
#ifndef SONDE_SERVICE_UNWIND_CODE_ANALYSIS_H
#define SONDE_SERVICE_UNWIND_CODE_ANALYSIS_H

#include "service/unwind/table/rows.h"

#define ANALYSIS_MAX_BYTES (128u << 10) /* of one function */

/* Adds the rows of the function at [pc, pc + size), offsets from rows->origin. Adds nothing, and
 * returns false, if they are not certain. What nothing in the function reaches may be another
 * function: UNWIND_NONE_NO_POINTER. */
bool unwind_analysis_run(const uint8_t *code, uint32_t size, uint32_t pc, struct unwind_rows *rows);
/* The offset behind the first instruction that loads rsp from memory or a register other than rbp,
 * and so changes to another stack; size if there is none. */
uint32_t unwind_analysis_find_switch(const uint8_t *code, uint32_t size);

#endif
