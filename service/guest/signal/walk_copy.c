/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks of blocked threads. /proc/self/task/TID/syscall has rip and rsp of such a thread but not
 * rbp, and libc's wrappers of system calls neither use nor save rbp. So in code with frame pointers
 * the CFA of the first frame above libc is unknown.
 *
 *     rsp ─▶ | locals, spilled registers ... | saved rbp | return address | caller's frame ...
 *                                            ▲ rbp of this frame: the search looks for it
 *
 * At rbp + 8 is the return address of a call of the function that rip is in. Among the locals there
 * may be old return addresses of calls that have returned, but those called other functions: a
 * direct call names its target, which is checked. A call through a pointer is accepted only if the
 * saved rbp beside it points further up the stack or is 0, as at a root. */
#include "service/guest/signal/walk_shared.h"
#include "service/machine/own/call_site.h"

#define SEARCH_BYTES   (32u << 10)
#define FUNCTION_BYTES (64u << 10) /* the largest distance of rip from its function's entry */

/* Whether a call of `target` may be a call of the function that holds key: its entry, or a stub of
 * the procedure linkage table. Where that jumps is not known here. */
static bool may_call(const struct walk_map *map, const struct walk_copy *copy, uint64_t target,
                     uint64_t key) {
    const struct unwind_rule *there = walk_look_up(map, target).rule;
    uint64_t code;
    if (there && unwind_is_plt_rule(there))
        return true;
    if (!there || !unwind_is_entry(there))
        return false;
    return (target <= key && key - target < FUNCTION_BYTES) ||
           (copy->read(copy->context, target, &code, sizeof code) && unwind_is_stub(code));
}

enum verdict { NO_CALL, DIRECT_CALL, POINTER_CALL };

static enum verdict judge(const struct walk *walk, const struct walk_copy *copy, uint64_t pc,
                          uint64_t key) {
    uint64_t before, target;
    if (!walk_is_code(pc) || !walk_map_find(walk->map, pc - 1) ||
        !copy->read(copy->context, pc - sizeof before, &before, sizeof before))
        return NO_CALL;
    if (unwind_is_direct_call(before, pc, &target) && may_call(walk->map, copy, target, key))
        return DIRECT_CALL;
    return unwind_is_pointer_call(before) ? POINTER_CALL : NO_CALL;
}

/* Whether a saved rbp is plausible: further up the stack, or none. */
static bool is_plausible(const struct walk *walk, uint64_t place, uint64_t bp) {
    return bp <= 1 || (bp % 8 == 0 && bp > place && bp - walk->low <= walk->span);
}

/* Searches for rbp of the current frame, whose return address is at rbp + offset. */
static bool find_pointer(struct walk *walk, const struct walk_copy *copy,
                         struct unwind_registers *registers, uint64_t key, uint64_t offset) {
    uint64_t sp = registers->value[UNWIND_REG_SP];
    for (uint64_t bp = (sp + 7) & ~7ull; bp - sp < SEARCH_BYTES; bp += 8) {
        uint64_t pc, saved;
        uint64_t top = bp + offset;
        if (!walk_load_bounded(walk, top, &pc) || !walk_load_bounded(walk, top - 8, &saved))
            return false;
        enum verdict verdict = judge(walk, copy, unwind_strip(pc), key);
        if (verdict == NO_CALL || (verdict == POINTER_CALL && !is_plausible(walk, bp, saved)))
            continue;
        registers->value[UNWIND_REG_FP] = bp;
        registers->known |= 1ull << UNWIND_REG_FP;
        walk->fp_frames += walk->fp_frames < 255;
        return true;
    }
    return false;
}

static bool find_missing(struct walk *walk, const void *copy, struct unwind_registers *registers,
                         uint64_t key) {
    const struct unwind_rule *rule = walk_look_up(walk->map, key).rule;
    bool wants_rbp = !rule || rule->cfa == UNWIND_CFA_RBP;
    int64_t offset = rule ? rule->cfa_offset : 16;
    if (!wants_rbp || unwind_is_known(registers, UNWIND_REG_FP) || offset < 16 || offset > 4096)
        return false;
    return find_pointer(walk, copy, registers, key, (uint64_t)(offset + unwind_pc_offset(rule)));
}

void walk_from_copy(uint64_t pc, uint64_t sp, const struct walk_map *map,
                    const struct walk_copy *copy, uint64_t *pcs, uint32_t max_depth,
                    struct walk_result *result) {
    struct walk_bounds bounds = {.thread = {copy->low, copy->high}};
    struct walk walk = {.map = map, .bounds = &bounds, .pcs = pcs, .max = max_depth};
    struct unwind_registers registers = {.known = 1ull << UNWIND_REG_SP | 1ull << UNWIND_REG_PC};
    registers.value[UNWIND_REG_PC] = pc;
    registers.value[UNWIND_REG_SP] = sp;
    walk.delta = (uint64_t)copy->bytes - copy->low;
    walk_start(&walk, &registers);
    if (walk_is_code(pc) && copy->high - copy->low >= 8 && walk_enter_stack(&walk, sp))
        walk_slowly(&walk, &registers, find_missing, copy);
    walk_finish(&walk, result);
}
