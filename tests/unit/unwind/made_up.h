/* SPDX-License-Identifier: Apache-2.0
 *
 * Artificial code and stacks to walk. The module at CODE has one rule per 256 bytes of text, which
 * the test chooses; F(n) is the n-th function. The module at JIT has no table. A stack is an array
 * of words. */
#ifndef SONDE_TESTS_UNIT_UNWIND_MADE_UP_H
#define SONDE_TESTS_UNIT_UNWIND_MADE_UP_H

#include "service/guest/ring.h"
#include "service/guest/signal/walk.h"
#include "service/unwind/table/table.h"

#define CODE      0x10000000ull
#define JIT       0x20000000ull
#define FUNCTIONS 32
#define F(n)      (CODE + 256ull * (n)) /* first byte of function n */
#define IN(n)     (F(n) + 0x80)         /* an address in it */
#define WORDS     4096

extern uint64_t stack[WORDS];
extern struct walk_map map;
extern struct walk_cache cache;
extern struct walk_bounds bounds;
/* The result of the last walk. */
extern struct walk_result result;
extern uint64_t pcs[256];

extern const struct unwind_rule end_rule;
struct unwind_rule rule_of(uint8_t kind, uint8_t number, int32_t offset);
struct unwind_rule rsp_rule(int32_t offset);

/* Gives function n the rule rules[n], and the functions after them CFA = rsp + 8; a rule of kind
 * NONE makes a gap. Also starts a new generation, clears the stack and sets bounds that contain it.
 */
#define MADE_UP_WALKS 3 /* of each walk_at: once without a memo, twice with one */
void use_rules(const struct unwind_rule *rules, uint32_t count);
void walk_at(uint64_t pc, const uint64_t *sp, const uint64_t *bp, uint32_t max);

#endif
