/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the functions of the unwind information there is padding, and there is code without any:
 *
 *     FDE | padding | FDE | a function of the symbol table | code without a symbol | FDE
 *           PADDING         rows by analysis, or Go's        NO_POINTER, or a gap
 *
 * A gap means "perhaps with a frame pointer". Without symbols nobody knows where functions begin,
 * so the only question is whether code of this kind sets up frame pointers at all: V8's builtins
 * do, musl does not. */
#include "service/machine/cfi_machine.h"
#include "service/machine/machine.h"
#include "service/unwind/code/analysis.h"
#include "service/unwind/code/functions.h"

#include <stdlib.h>
#include <string.h>

#define ALIGN         16u         /* linkers pad up to such addresses */
#define MAX_NAMELESS  (16u << 20) /* bytes of code without symbols that are looked at */
#define BYTES_A_FRAME 4096u       /* code with frame pointers sets one up more often */
#define LAST_BYTES    256u        /* of the last function, if its size is not known */

static const struct unwind_rule no_pointer = {.cfa = UNWIND_CFA_NONE,
                                              .cfa_add = UNWIND_NONE_NO_POINTER};
static const struct unwind_rule padding = {.cfa = UNWIND_CFA_NONE, .cfa_add = UNWIND_NONE_PADDING};
static const struct unwind_rule root = {.cfa = UNWIND_CFA_END};

/* The caller frees the result. NULL: the file does not have it all. */
static uint8_t *read_code(const struct functions *functions, uint32_t start, uint32_t size) {
    uint64_t offset, len;
    if (!elf_offset_of(functions->file, functions->origin + start, &offset, &len) || len < size)
        return NULL;
    uint8_t *code = malloc(size + 1);
    if (code && elf_read(&functions->file->input, offset, code, size))
        return code;
    free(code);
    return NULL;
}

static void add_from_to(struct unwind_rows *rows, uint32_t start, uint32_t end,
                        const struct unwind_rule *rule) {
    unwind_rows_add(rows, start, rule);
    unwind_rows_gap(rows, end);
}

/* --- Code without a symbol --------------------------------------------------------------------*/

/* The first trampoline in [start, end); end if there is none. *size: its bytes. code: that at
 * start. */
static uint32_t find_trampoline(const struct functions *functions, const uint8_t *code,
                                uint32_t start, uint32_t end, uint32_t *size) {
    const struct machine_code *machine = &functions->machine->code;
    for (uint32_t at = 0; at < end - start; at += machine->step)
        if ((*size = (uint32_t)machine->trampoline_at(code + at, end - start - at)) > 0)
            return start + at;
    return end;
}

static void add_trampolines(const struct functions *functions, const uint8_t *code, uint32_t start,
                            uint32_t end, struct unwind_rows *rows) {
    struct unwind_rule rule = functions_trampoline_rule(functions);
    uint32_t size, at = start, next;
    while ((next = find_trampoline(functions, code + (at - start), at, end, &size)) < end) {
        at = next + size;
        unwind_rows_add(rows, next, &rule);
        unwind_rows_add(rows, at, &no_pointer);
    }
}

static void add_nameless(struct functions *functions, uint32_t start, uint32_t end,
                         struct unwind_rows *rows) {
    if (start >= end)
        return;
    uint8_t *code = end - start <= MAX_NAMELESS ? read_code(functions, start, end - start) : NULL;
    if (code &&
        functions->machine->code.count_frames(code, end - start) <= (end - start) / BYTES_A_FRAME)
        unwind_rows_add(rows, start, &no_pointer);
    if (code)
        add_trampolines(functions, code, start, end, rows);
    unwind_rows_gap(rows, end);
    free(code);
}

/* --- Functions --------------------------------------------------------------------------------*/

static void add_depth(const struct functions *functions, struct unwind_rows *rows, uint32_t pc,
                      int64_t depth) {
    struct unwind_rule rule = rows->rules[0];
    if (depth < 0 || depth > INT32_MAX - 8)
        rule = no_pointer;
    else
        functions->machine->cfi->settle_go(depth, &rule);
    unwind_rows_add(rows, pc, &rule);
}

/* The depths of Go's table: what Go's linker also writes to .debug_frame. */
static void add_go(const struct functions *functions, const struct function *item, uint32_t end,
                   struct unwind_rows *rows) {
    struct go_function function = go_table_function(&functions->go, item->go - 1);
    struct go_depth depth = {.at = function.depths, .depth = -1};
    uint64_t size = end - item->start, pc = 0;
    while (pc < size && function.depths && go_table_next_depth(&functions->go, &depth)) {
        if (depth.pc > pc)
            add_depth(functions, rows, item->start + (uint32_t)pc, depth.depth);
        pc = depth.pc;
    }
    if (pc < size)
        unwind_rows_add(rows, item->start + (uint32_t)pc, &no_pointer);
}

static void analyse(const struct functions *functions, uint32_t start, uint32_t end,
                    struct unwind_rows *rows) {
    uint32_t size = end - start;
    uint8_t *code = size <= ANALYSIS_MAX_BYTES ? read_code(functions, start, size) : NULL;
    const struct machine_code *machine = &functions->machine->code;
    bool is_certain = code && machine->is_analysed && unwind_analysis_run(code, size, start, rows);
    if (code && !is_certain && machine->count_frames(code, size) == 0)
        add_from_to(rows, start, end, &no_pointer);
    free(code);
}

static void add_plt(const struct functions *functions, const struct function *item, uint32_t end,
                    struct unwind_rows *rows) {
    const struct machine *machine = functions->machine;
    uint32_t size = end - item->start;
    struct machine_plt plt = {.len = size, .address = functions->origin + item->start};
    struct machine_plt_entry header, first;
    struct unwind_rule entry = rows->rules[0], pushed = rows->rules[0];
    uint8_t *code = size <= MAX_NAMELESS ? read_code(functions, item->start, size) : NULL;
    if (!code)
        return;
    plt.code = code;
    machine->cfi->settle_plt(false, &entry);
    machine->cfi->settle_plt(true, &pushed);
    unwind_rows_add(rows, item->start, &entry);
    size_t push = machine->find_plt_push(&plt);
    if (push)
        unwind_rows_add(rows, item->start + (uint32_t)push, &pushed);
    if (push && machine->next_plt_entry(&plt, 0, &header) &&
        machine->next_plt_entry(&plt, header.end, &first))
        unwind_rows_add(rows, item->start + (uint32_t)first.start, &entry);
    free(code);
}

static void add_function(struct functions *functions, const struct function *item, uint32_t end,
                         struct unwind_rows *rows) {
    struct unwind_rule rule;
    if (item->go == FUNCTIONS_PLT) {
        add_plt(functions, item, end, rows);
        unwind_rows_gap(rows, end);
        return;
    }
    uint32_t from = functions_find_change(functions, item->start, end, &rule);
    if (item->start == functions->entry || functions_is_trampoline(functions, item->start)) {
        rule = item->start == functions->entry ? root : functions_trampoline_rule(functions);
        from = item->start;
    }
    if (from > item->start && item->go)
        add_go(functions, item, from, rows);
    else if (from > item->start)
        analyse(functions, item->start, from, rows);
    if (from < end)
        unwind_rows_add(rows, from, &rule);
    unwind_rows_gap(rows, end);
}

/* --- All code between two functions -----------------------------------------------------------*/

/* The first item that begins at `from` or behind it. Nearly always it is the last one's answer. */
static uint32_t find(struct functions *functions, uint32_t from) {
    uint32_t at = functions->found;
    while (at < functions->count && functions->items[at].start < from)
        at++;
    while (at > 0 && functions->items[at - 1].start >= from)
        at--;
    return functions->found = at;
}

/* Whether there is no more than what aligns the next function. */
static bool is_padding(struct functions *functions, uint32_t from, uint32_t to) {
    if (((from + ALIGN - 1) & ~(ALIGN - 1)) < to)
        return false;
    uint32_t next = find(functions, from);
    return next == functions->count || functions->items[next].start >= to;
}

/* Where a function ends: at the next one at the latest. The byte before a trampoline is left out,
 * because that is where the handler's return address is looked up. */
static uint32_t end_of(struct functions *functions, const struct function *item, uint32_t next,
                       uint32_t to) {
    uint32_t end = item->end, size;
    if (end <= item->start) {
        end = next == UINT32_MAX ? item->start + LAST_BYTES : next;
        end = end < to ? end : to;
        uint32_t bytes = end - item->start;
        uint8_t *code =
            bytes <= ANALYSIS_MAX_BYTES ? read_code(functions, item->start, bytes) : NULL;
        if (code && !functions_is_trampoline(functions, item->start)) /* musl's has no symbol */
            end = find_trampoline(functions, code, item->start, end, &size);
        free(code);
    }
    end = end < next ? end : next;
    end = end < to ? end : to;
    return end - (end > item->start + 1 && functions_begin_with_trampoline(functions, end, to));
}

bool functions_begin_with_trampoline(void *context, uint32_t from, uint32_t to) {
    struct functions *functions = context;
    return from < to && !is_padding(functions, from, to) &&
           functions_is_trampoline(functions, from);
}

static void fill_range(struct functions *functions, uint32_t from, uint32_t to,
                       struct unwind_rows *rows) {
    for (uint32_t i = find(functions, from); i < functions->count; i++) {
        const struct function *item = &functions->items[i];
        if (item->start >= to)
            break;
        uint32_t next = i + 1 < functions->count ? item[1].start : UINT32_MAX;
        uint32_t end = end_of(functions, item, next, to);
        add_nameless(functions, from, item->start, rows);
        add_function(functions, item, end, rows);
        from = end;
    }
    if (from < to)
        add_nameless(functions, from, to, rows);
}

/* The first range of the file's code that ends after pc. A file can have many. */
static uint32_t first_range(const struct functions *functions, uint32_t pc) {
    uint32_t low = 0, high = functions->range_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (functions->ranges[middle].end <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void functions_fill(void *context, uint32_t from, uint32_t to, struct unwind_rows *rows) {
    struct functions *functions = context;
    if (from < to && is_padding(functions, from, to)) {
        add_from_to(rows, from, to, &padding);
        return;
    }
    for (uint32_t i = first_range(functions, from); i < functions->range_count && from < to; i++) {
        const struct code_range *range = &functions->ranges[i];
        if (range->start >= to)
            return;
        uint32_t low = range->start > from ? (uint32_t)range->start : from;
        uint32_t high = range->end < to ? (uint32_t)range->end : to;
        high = high < UNWIND_MAX_TEXT ? high : UNWIND_MAX_TEXT;
        if (low < high)
            fill_range(functions, low, high, rows);
        from = high > from ? high : from;
    }
}
