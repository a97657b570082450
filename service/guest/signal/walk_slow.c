/* SPDX-License-Identifier: Apache-2.0
 *
 * The slow half of the walker: one frame by its whole rule, with all registers; changes of stack;
 * the table of faults. A walk of ordinary frames takes one step here, for its root. */
#include "service/guest/signal/walk_shared.h"

static bool holds(const struct walk_stack *stack, uint64_t address) {
    return address >= stack->low && address < stack->high && stack->high - address >= 8;
}

static const struct walk_stack *stack_of(const struct walk *walk, uint64_t address) {
    const struct walk_bounds *bounds = walk->bounds;
    if (holds(&walk->alternate, address))
        return &walk->alternate;
    if (holds(&bounds->thread, address))
        return &bounds->thread;
    for (uint32_t i = 0; i < bounds->extra_count; i++)
        if (holds(&bounds->extra[i], address))
            return &bounds->extra[i];
    return NULL;
}

/* Of the bytes below sp only the red zone is in use. */
static void use_stack(struct walk *walk, const struct walk_stack *stack, uint64_t sp) {
    walk->low = sp - stack->low > UNWIND_RED_ZONE ? sp - UNWIND_RED_ZONE : stack->low;
    walk->span = stack->high - 8 - walk->low;
}

bool walk_enter_stack(struct walk *walk, uint64_t sp) {
    const struct walk_stack *stack = stack_of(walk, sp);
    if (stack) {
        use_stack(walk, stack, sp);
        return true;
    }
    if (!walk->bounds->faults_resume || sp < WALK_UNKNOWN_STACK || sp >= UNWIND_USER_END)
        return false;
    struct walk_stack unknown = {sp - UNWIND_RED_ZONE, sp + WALK_UNKNOWN_STACK};
    use_stack(walk, &unknown, sp);
    return true;
}

bool walk_change_stack(struct walk *walk, uint64_t address) {
    const struct walk_stack *stack = stack_of(walk, address);
    if (!stack || ++walk->switches > WALK_MAX_SWITCH)
        return false;
    if (address - walk->low <= walk->span || stack->high - 8 == walk->low + walk->span)
        return false; /* backwards in the same stack */
    use_stack(walk, stack, address);
    return true;
}

/* --- What the interpreter of rules (service/unwind/step) asks. --- */

/* Never false: a pc in no module may be in code that was mapped after the map was made, so its
 * frame pointer is tried. */
static bool find_rule(void *walk, uint64_t pc, const struct unwind_rule **rule) {
    *rule = walk_look_up(((struct walk *)walk)->map, pc).rule;
    return true;
}

static bool is_code(void *walk, uint64_t pc) {
    return walk_map_find(((struct walk *)walk)->map, pc) != NULL;
}

static bool load(void *walk, uint64_t address, uint64_t *word) {
    return walk_load_bounded(walk, address, word);
}

static bool may_follow(void *walk, uint64_t sp, uint64_t place, enum unwind_link link) {
    if (link == UNWIND_BY_POINTER)
        return walk_holds(walk, sp, place) && walk_holds(walk, sp, place + 8);
    return walk_holds(walk, sp, place) || walk_change_stack(walk, place);
}

static const struct unwind_access access_of_walk = {find_rule, is_code, load, may_follow,
                                                    unwind_is_owned};

static const uint8_t ends[] = {
    [UNWIND_STEP_ROOT] = RING_END_ROOT,           [UNWIND_STEP_ENTRY] = RING_END_ROOT,
    [UNWIND_STEP_NEEDS] = RING_END_RULE,          [UNWIND_STEP_NO_CODE] = RING_END_NO_TABLE,
    [UNWIND_STEP_NO_TABLE] = RING_END_NO_TABLE,   [UNWIND_STEP_RULE] = RING_END_RULE,
    [UNWIND_STEP_BAD_STACK] = RING_END_BAD_STACK,
};

enum unwind_step walk_step(struct walk *walk, struct unwind_registers *registers, uint64_t key) {
    uint32_t wanted;
    bool had_rbp = unwind_is_known(registers, UNWIND_REG_FP);
    enum unwind_step step = unwind_step(&access_of_walk, walk, registers, key, &wanted);
    walk->end = ends[step]; /* for other steps it is not read */
    bool is_entry = step == UNWIND_STEP_EXACT || step == UNWIND_STEP_ENTRY;
    if (is_entry && (walk->at > 1 || walk->laps > 0)) { /* nothing called this frame */
        walk->pcs[walk->at - 1] |= RING_PC_EXACT;
        walk->has_exact = true;
    }
    walk->fp_frames += step == UNWIND_STEP_POINTER && walk->fp_frames < 255;
    if (had_rbp && !unwind_is_known(registers, UNWIND_REG_FP)) {
        registers->value[UNWIND_REG_FP] = WALK_LOST;
        registers->known |= 1ull << UNWIND_REG_FP;
    }
    return step;
}

void walk_slowly(struct walk *walk, const struct unwind_registers *first, walk_on_need *on_need,
                 const void *context) {
    struct unwind_registers registers = *first;
    uint64_t key = registers.value[UNWIND_REG_PC], mark;
    do {
        enum unwind_step step = walk_step(walk, &registers, key);
        if (step == UNWIND_STEP_NEEDS && on_need && on_need(walk, context, &registers, key))
            step = walk_step(walk, &registers, key);
        if (step == UNWIND_STEP_NEEDS || unwind_step_is_end(step))
            return;
        mark = step == UNWIND_STEP_EXACT ? RING_PC_EXACT : 0;
        key = registers.value[UNWIND_REG_PC] - (mark ? 0 : 1);
    } while (walk_has_room(walk) && walk_push(walk, registers.value[UNWIND_REG_PC], mark));
}

/* The entries that walk_load makes. The linker defines the bounds of a section whose name is a C
 * identifier. */
struct walk_fault {
    int32_t load;   /* offset from this field to the load */
    int32_t resume; /* offset from this field to the code that runs after a fault */
};
extern WALK_HIDDEN const struct walk_fault __start_walk_faults[], __stop_walk_faults[];

uint64_t walk_fault_resume(uint64_t rip) {
    for (const struct walk_fault *fault = __start_walk_faults; fault < __stop_walk_faults; fault++)
        if ((uint64_t)&fault->load + (uint64_t)(int64_t)fault->load == rip)
            return (uint64_t)&fault->resume + (uint64_t)(int64_t)fault->resume;
    return 0;
}
