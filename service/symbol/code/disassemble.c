/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/code/disassemble.h"

#include <capstone/capstone.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct library {
    __typeof__(cs_open) *open;
    __typeof__(cs_close) *close;
    __typeof__(cs_option) *option;
    __typeof__(cs_malloc) *allocate;
    __typeof__(cs_free) *release;
    __typeof__(cs_disasm_iter) *next;
};

static const struct {
    size_t at;
    const char *name;
} functions[] = {
    {offsetof(struct library, open), "cs_open"},
    {offsetof(struct library, close), "cs_close"},
    {offsetof(struct library, option), "cs_option"},
    {offsetof(struct library, allocate), "cs_malloc"},
    {offsetof(struct library, release), "cs_free"},
    {offsetof(struct library, next), "cs_disasm_iter"},
};

struct disassembler {
    struct library library;
    csh handle;
    bool is_open, is_arm64;
    cs_insn *instruction;
    size_t step; /* bytes to skip where nothing can be decoded */
};

static void *open_library(void) {
    return dlopen("libcapstone.so.4", RTLD_NOW | RTLD_LOCAL);
}

/* The handle is never closed, so the library stays. */
void disassembler_preload(void) {
    (void)open_library();
}

static bool load(struct library *library) {
    void *handle = open_library();
    for (size_t i = 0; handle && i < sizeof functions / sizeof *functions; i++) {
        void *address = dlsym(handle, functions[i].name);
        if (!address)
            return false;
        memcpy((char *)library + functions[i].at, &address, sizeof address);
    }
    return handle != NULL;
}

static bool open_for(struct disassembler *to, bool is_arm64) {
    cs_err err = to->library.open(is_arm64 ? CS_ARCH_ARM64 : CS_ARCH_X86,
                                  is_arm64 ? CS_MODE_ARM : CS_MODE_64, &to->handle);
    to->is_open = err == CS_ERR_OK;
    if (!to->is_open || to->library.option(to->handle, CS_OPT_DETAIL, CS_OPT_ON) != CS_ERR_OK)
        return false;
    if (!is_arm64)
        to->library.option(to->handle, CS_OPT_SYNTAX, CS_OPT_SYNTAX_ATT);
    to->instruction = to->library.allocate(to->handle);
    return to->instruction != NULL;
}

struct disassembler *disassembler_create(const struct machine *machine) {
    struct disassembler *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->is_arm64 = machine == &machine_aarch64;
    made->step = machine->code.step;
    if (load(&made->library) && open_for(made, made->is_arm64))
        return made;
    disassembler_destroy(made);
    return NULL;
}

void disassembler_destroy(struct disassembler *disassembler) {
    if (!disassembler)
        return;
    if (disassembler->instruction)
        disassembler->library.release(disassembler->instruction, 1);
    if (disassembler->is_open)
        disassembler->library.close(&disassembler->handle);
    free(disassembler);
}

/* ---- one instruction ---- */

static bool is_in(const cs_detail *detail, unsigned group) {
    for (uint8_t i = 0; i < detail->groups_count; i++)
        if (detail->groups[i] == group)
            return true;
    return false;
}

static uint64_t x86_target(const cs_x86 *x86) {
    return x86->op_count == 1 && x86->operands[0].type == X86_OP_IMM
               ? (uint64_t)x86->operands[0].imm
               : 0;
}

static enum symbol_code_kind x86_kind(const cs_insn *from) {
    if (is_in(from->detail, CS_GRP_CALL))
        return SYMBOL_CODE_CALL;
    if (is_in(from->detail, CS_GRP_RET))
        return SYMBOL_CODE_RETURN;
    if (!is_in(from->detail, CS_GRP_JUMP))
        return SYMBOL_CODE_PLAIN;
    return from->id == X86_INS_JMP || from->id == X86_INS_LJMP ? SYMBOL_CODE_JUMP
                                                               : SYMBOL_CODE_BRANCH;
}

/* The target is the last operand: "b.ne", "cbz x0", "tbz w0, #3". */
static uint64_t arm64_target(const cs_arm64 *arm64) {
    const cs_arm64_op *last = arm64->op_count > 0 ? &arm64->operands[arm64->op_count - 1] : NULL;
    return last && last->type == ARM64_OP_IMM ? (uint64_t)last->imm : 0;
}

static enum symbol_code_kind arm64_kind(const cs_insn *from) {
    switch (from->id) {
    case ARM64_INS_BL:
    case ARM64_INS_BLR:
        return SYMBOL_CODE_CALL;
    case ARM64_INS_RET:
        return SYMBOL_CODE_RETURN;
    case ARM64_INS_BR:
        return SYMBOL_CODE_JUMP;
    case ARM64_INS_B: {
        arm64_cc condition = from->detail->arm64.cc;
        bool always =
            condition == ARM64_CC_INVALID || condition == ARM64_CC_AL || condition == ARM64_CC_NV;
        return always ? SYMBOL_CODE_JUMP : SYMBOL_CODE_BRANCH;
    }
    case ARM64_INS_CBZ:
    case ARM64_INS_CBNZ:
    case ARM64_INS_TBZ:
    case ARM64_INS_TBNZ:
        return SYMBOL_CODE_BRANCH;
    default:
        return SYMBOL_CODE_PLAIN;
    }
}

static void put(const struct disassembler *from, on_instruction *on_each, void *context) {
    const cs_insn *decoded = from->instruction;
    struct symbol_instruction made = {.vaddr = decoded->address, .size = (uint8_t)decoded->size};
    char text[sizeof decoded->mnemonic + sizeof decoded->op_str + 4];
    made.kind = (uint8_t)(from->is_arm64 ? arm64_kind(decoded) : x86_kind(decoded));
    if (made.kind == SYMBOL_CODE_CALL || made.kind == SYMBOL_CODE_JUMP ||
        made.kind == SYMBOL_CODE_BRANCH)
        made.target = from->is_arm64 ? arm64_target(&decoded->detail->arm64)
                                     : x86_target(&decoded->detail->x86);
    if (decoded->op_str[0])
        snprintf(text, sizeof text, "%-7s %s", decoded->mnemonic, decoded->op_str);
    else
        snprintf(text, sizeof text, "%s", decoded->mnemonic);
    on_each(context, &made, text);
}

static void put_data(const uint8_t *bytes, size_t len, uint64_t vaddr, on_instruction *on_each,
                     void *context) {
    char text[32] = ".byte  ";
    const struct symbol_instruction made = {
        .vaddr = vaddr, .size = (uint8_t)len, .kind = SYMBOL_CODE_DATA};
    for (size_t i = 0, at = strlen(text); i < len && at < sizeof text; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, " %02x", bytes[i]);
    on_each(context, &made, text);
}

void disassemble(struct disassembler *disassembler, const uint8_t *bytes, size_t len,
                 uint64_t vaddr, on_instruction *on_each, void *context) {
    while (len > 0) {
        if (disassembler->library.next(disassembler->handle, &bytes, &len, &vaddr,
                                       disassembler->instruction)) {
            put(disassembler, on_each, context);
            continue;
        }
        size_t skipped = len < disassembler->step ? len : disassembler->step;
        put_data(bytes, skipped, vaddr, on_each, context);
        bytes += skipped;
        len -= skipped;
        vaddr += skipped;
    }
}
