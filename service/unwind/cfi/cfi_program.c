/* SPDX-License-Identifier: Apache-2.0
 *
 * A program moves from state to state (cfi_memo.h) and writes rows: each advance writes the row of
 * the current state and moves the pc. Nearly every sequence of instructions was seen before in the
 * same state, so it costs one comparison of its bytes. */
#include "service/unwind/cfi/cfi_program.h"

#define REMEMBERED 16 /* compilers nest 1 deep, hand-written assembler 2 or 3 */
#define MAX_ALIGN  256

struct run {
    struct cfi_memo *memo;
    const struct cfi_cie *cie;
    const struct cfi_section *section;
    struct unwind_rows *rows; /* NULL for initial instructions, which have no rows */
    struct cursor code;
    uint32_t state;                      /* ids */
    uint32_t remembered[REMEMBERED + 1]; /* ids; the last is only written */
    uint32_t remembered_count;
    uint32_t pc, end;
    bool broken;
};

/* Looks up the number of the state's rule and remembers it. Not for a state that no rule can hold:
 * each of its rows is counted. */
static __attribute__((noinline)) uint16_t number_of_rule(struct run *run, uint32_t state) {
    struct unwind_rule rule = run->rows->rules[0];
    bool held = run->cie->machine->settle(&run->memo->states[state], &rule);
    run->rows->complex_rows += !held;
    uint16_t number = unwind_rows_rule(run->rows, &rule);
    if (held)
        run->memo->numbers[state] = number;
    return number;
}

static inline void put_row(struct run *run, uint32_t state, uint32_t pc) {
    uint16_t number = run->memo->numbers[state];
    if (number == 0)
        number = number_of_rule(run, state);
    unwind_rows_put(run->rows, pc, number);
}

static void advance_to(struct run *run, uint64_t pc) {
    if (pc < run->pc) {
        run->broken = true;
        return;
    }
    if (pc > run->pc && run->rows)
        put_row(run, run->state, run->pc);
    run->pc = pc < run->end ? (uint32_t)pc : run->end;
}

static void advance(struct run *run, uint64_t delta) {
    uint64_t by = delta, align = run->cie->code_align;
    if (align != 1 && (__builtin_mul_overflow(delta, align, &by) || by > UINT32_MAX))
        by = UINT32_MAX;
    advance_to(run, run->pc + by);
}

/* The memo is full: forgets all states but the remembered ones. */
static void forget_others(struct run *run) {
    struct cfi_state kept[REMEMBERED];
    for (uint32_t i = 0; i < run->remembered_count; i++)
        kept[i] = run->memo->states[run->remembered[i]];
    unwind_memo_forget(run->memo);
    for (uint32_t i = 0; i < run->remembered_count; i++)
        run->remembered[i] = unwind_memo_id(run->memo, &kept[i]);
}

static void enter(struct run *run, const struct cfi_state *state) {
    run->state = unwind_memo_id(run->memo, state);
    if (run->state != MEMO_NO_STATE)
        return;
    forget_others(run);
    run->state = unwind_memo_id(run->memo, state);
}

static void remember(struct run *run) {
    if (run->remembered_count == REMEMBERED)
        run->broken = true;
    else
        run->remembered[run->remembered_count++] = run->state;
}

static void restore_state(struct run *run) {
    if (run->remembered_count == 0)
        run->broken = true;
    else
        run->state = run->remembered[--run->remembered_count];
}

/* Instructions that change the pc or the stack of states. False if op is not one of them. */
static bool do_location_op(struct run *run, uint8_t op) {
    struct cursor *code = &run->code;
    switch (op) {
    case OP_ADVANCE_LOC1:
        advance(run, cursor_uint(code, 1));
        return true;
    case OP_REMEMBER_STATE:
        remember(run);
        return true;
    case OP_RESTORE_STATE:
        restore_state(run);
        return true;
    case OP_SET_LOC:
        advance_to(run, unwind_cfi_pointer(code, run->cie->pointer_encoding, run->section) -
                            (run->rows ? run->rows->origin : 0));
        return true;
    case OP_ADVANCE_LOC2:
        advance(run, cursor_uint(code, 2));
        return true;
    case OP_ADVANCE_LOC4:
        advance(run, cursor_uint(code, 4));
        return true;
    case OP_ADVANCE_LOC8:
        advance(run, cursor_uint(code, 8));
        return true;
    case OP_NOP:
        return true;
    default:
        return false;
    }
}

/* Executes any instruction; run->code is after op. */
static void do_op(struct run *run, uint8_t op) {
    if (op >> 6 == OP_ADVANCE_LOC >> 6) {
        advance(run, op & 0x3f);
        return;
    }
    if (do_location_op(run, op))
        return;
    struct cfi_state state = run->memo->states[run->state];
    if (unwind_cfi_apply(&state, run->cie, op, &run->code))
        enter(run, &state);
    else
        run->broken = true;
}

/* The next 8 bytes of a program, lowest first, with 0 after its end. The section is readable up to
 * `readable`. */
static inline uint64_t peek(const uint8_t *at, const uint8_t *end, const uint8_t *readable) {
    uint64_t word = 0;
    if (readable - at >= 8) {
        memcpy(&word, at, 8);
        return end - at >= 8 ? word : word & ((1ull << 8 * (end - at)) - 1);
    }
    for (size_t i = 0; at + i < end && i < 8; i++)
        word |= (uint64_t)at[i] << 8 * i;
    return word;
}

static const uint8_t *readable_end(const struct run *run) {
    return run->section->data + run->section->size;
}

/* Whether an instruction is never in a sequence. (remember_state may be the first of one.) */
static bool ends_sequence(uint8_t op) {
    return op == OP_NOP || op >> 6 == OP_ADVANCE_LOC >> 6 || op == OP_REMEMBER_STATE ||
           op == OP_RESTORE_STATE || (op >= OP_SET_LOC && op <= OP_ADVANCE_LOC4) ||
           op == OP_ADVANCE_LOC8;
}

/* Executes a sequence of instructions and stores it, or as much of it as 8 bytes hold. */
static void learn_sequence(struct run *run, struct memo_sequence sequence) {
    const uint8_t *from = run->code.at;
    uint32_t epoch = run->memo->epoch;
    uint64_t word = peek(from, run->code.end, readable_end(run));
    struct memo_sequence *slot = unwind_memo_slot(run->memo, run->state, word);
    do {
        do_op(run, *run->code.at++);
        if (run->broken || run->code.failed || run->memo->epoch != epoch)
            return;
        if (run->code.at - from > 8)
            break;
        sequence.to = (uint16_t)run->state;
        sequence.len = (uint8_t)(run->code.at - from);
    } while (cursor_left(&run->code) > 0 && !ends_sequence(*run->code.at));
    if (sequence.len == 0)
        return;
    sequence.unused = (uint8_t)(64 - 8 * sequence.len);
    sequence.bytes = word & UINT64_MAX >> sequence.unused;
    *slot = sequence;
}

static __attribute__((noinline)) void do_slow(struct run *run) {
    uint8_t op = *run->code.at;
    if (ends_sequence(op) && op != OP_REMEMBER_STATE)
        do_op(run, *run->code.at++);
    else
        learn_sequence(run, (struct memo_sequence){.from = (uint16_t)(run->state + 1),
                                                   .remembers = op == OP_REMEMBER_STATE});
}

/* What the hot loop keeps in registers. Its functions are inlined so that it stays there. */
struct hot {
    const uint8_t *at, *end, *readable;
    const uint16_t *numbers;
    uint32_t state, pc;
    uint32_t align; /* 0: advances are left to do_slow */
};

#define HOT static inline __attribute__((always_inline))

/* Takes a sequence that was seen before in this state. */
HOT bool take_sequence(struct run *run, struct hot *hot) {
    uint64_t word = peek(hot->at, hot->end, hot->readable);
    const struct memo_sequence *sequence = unwind_memo_slot(run->memo, hot->state, word);
    if (sequence->from != hot->state + 1 ||
        (word & UINT64_MAX >> (sequence->unused & 63)) != sequence->bytes ||
        sequence->len > hot->end - hot->at ||
        run->remembered_count + sequence->remembers > REMEMBERED)
        return false;
    run->remembered[run->remembered_count] = hot->state; /* counts only if it is remembered */
    run->remembered_count += sequence->remembers;
    hot->state = sequence->to;
    hot->at += sequence->len;
    return true;
}

/* Writes the row of the current state and moves the pc, for the two common kinds of advance. */
HOT bool take_advance(struct run *run, struct hot *hot) {
    uint8_t op = *hot->at;
    bool wide = op == OP_ADVANCE_LOC1;
    if ((!wide && op >> 6 != OP_ADVANCE_LOC >> 6) || hot->end - hot->at <= wide || !hot->align)
        return false;
    uint32_t by = (wide ? hot->at[1] : op & 0x3fu) * hot->align;
    uint16_t number = hot->numbers[hot->state];
    hot->at += 1 + wide;
    if (by == 0)
        return true;
    unwind_rows_put(run->rows, hot->pc, number ? number : number_of_rule(run, hot->state));
    hot->pc = by < run->end - hot->pc ? hot->pc + by : run->end;
    return true;
}

/* Takes a restore_state and nops. */
HOT bool take_restore_or_nops(struct run *run, struct hot *hot) {
    const uint8_t *from = hot->at;
    if (*from == OP_RESTORE_STATE && run->remembered_count > 0) {
        hot->state = run->remembered[--run->remembered_count];
        hot->at++;
    }
    while (hot->at < hot->end && *hot->at == OP_NOP)
        hot->at++;
    return hot->at != from;
}

/* Nearly all programs are "advance, sequence, advance, sequence, ...". */
static void run_all(struct run *run) {
    struct hot hot = {.at = run->code.at,
                      .end = run->code.end,
                      .readable = readable_end(run),
                      .numbers = run->memo->numbers,
                      .state = run->state,
                      .pc = run->pc,
                      .align = run->cie->code_align <= MAX_ALIGN ? run->cie->code_align : 0};
    while (hot.at < hot.end && hot.pc < run->end && !run->broken) {
        if (take_advance(run, &hot) && (hot.at == hot.end || hot.pc >= run->end))
            break;
        if (take_restore_or_nops(run, &hot) || take_sequence(run, &hot))
            continue;
        run->code.at = hot.at;
        run->state = hot.state;
        run->pc = hot.pc;
        do_slow(run);
        hot.at = run->code.at;
        hot.state = run->state;
        hot.pc = run->pc;
    }
    run->state = hot.state;
    run->pc = hot.pc;
    run->broken |= run->code.failed;
}

void unwind_program_run_initial(struct cfi_memo *memo, struct cfi_cie *cie,
                                struct cursor instructions, const struct cfi_section *section) {
    struct run run = {.memo = memo, .cie = cie, .section = section, .code = instructions, .end = 1};
    unwind_cfi_state_init(&cie->initial, cie->machine, cie->kind);
    enter(&run, &cie->initial);
    while (cursor_left(&run.code) > 0 && run.pc < run.end && !run.broken)
        do_op(&run, *run.code.at++);
    cie->initial = memo->states[run.state];
    cie->bad |= run.broken || run.code.failed;
}

static void enter_initial(struct run *run, struct cfi_cie *cie) {
    if (cie->epoch == run->memo->epoch) {
        run->state = cie->id;
        return;
    }
    enter(run, &cie->initial);
    cie->id = run->state;
    cie->epoch = run->memo->epoch;
}

void unwind_program_run(struct cfi_memo *memo, struct cfi_cie *cie, struct cursor instructions,
                        const struct cfi_section *section, uint32_t start, uint32_t end,
                        struct unwind_rows *rows) {
    struct run run;
    run.memo = memo;
    run.cie = cie;
    run.section = section;
    run.rows = rows;
    run.code = instructions;
    run.remembered_count = 0;
    run.pc = start;
    run.end = end;
    run.broken = false;
    enter_initial(&run, cie);
    run_all(&run);
    if (run.broken) {
        rows->complex_rows++;
        unwind_rows_gap(rows, run.pc);
    } else if (run.pc < end) {
        put_row(&run, run.state, run.pc);
    }
}
