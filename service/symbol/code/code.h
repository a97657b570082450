/* SPDX-License-Identifier: Apache-2.0
 *
 * The instructions of functions, disassembled from the file that has them. The file may be hostile,
 * so a confined worker process reads it and runs the disassembler (worker/worker.h); this process
 * checks what the worker has written. Thread safety: any thread. */
#ifndef SONDE_SERVICE_SYMBOL_CODE_CODE_H
#define SONDE_SERVICE_SYMBOL_CODE_CODE_H

#include "api/bytes.h"
#include "api/error.h"
#include "service/symbol/symbol.h"

#define SYMBOL_CODE_RANGES       64u          /* of one request */
#define SYMBOL_CODE_WANTED       65536u       /* addresses of one request */
#define SYMBOL_CODE_BYTES        (16u << 20)  /* of all ranges of one request */
#define SYMBOL_CODE_WHOLE        (128u << 10) /* bytes; larger code is shortened */
#define SYMBOL_CODE_INSTRUCTIONS 131072u      /* of one answer */
#define SYMBOL_CODE_AROUND       24u          /* instructions before and after a wanted one */

enum symbol_code_kind {
    SYMBOL_CODE_PLAIN = 0,
    SYMBOL_CODE_JUMP,   /* always taken */
    SYMBOL_CODE_BRANCH, /* taken or not */
    SYMBOL_CODE_CALL,
    SYMBOL_CODE_RETURN,
    SYMBOL_CODE_DATA, /* bytes that are not an instruction */
    SYMBOL_CODE_KINDS,
};

/* ELF virtual addresses. */
struct symbol_code_range {
    uint64_t start, end;
};

/* Ranges of more than SYMBOL_CODE_WHOLE bytes together are shortened to the instructions around the
 * wanted addresses. Both arrays are sorted. */
struct symbol_code_request {
    const struct symbol_code_range *ranges;
    uint32_t range_count;
    const uint64_t *wanted;
    uint32_t wanted_count;
};

struct symbol_instruction {
    uint64_t vaddr;
    uint64_t target;      /* of a direct jump or call; 0 = none */
    uint32_t text;        /* offset into texts: "movl  %eax, (%rdi)" */
    uint8_t size;         /* bytes */
    uint8_t kind;         /* enum symbol_code_kind */
    uint8_t is_after_gap; /* instructions in front of it were left out */
    uint8_t reserved;
};

struct symbol_code {
    struct sonde_buf bytes;                        /* owns what the others point to */
    const struct symbol_instruction *instructions; /* sorted by vaddr */
    uint32_t count;
    const char *texts;
    bool is_cut; /* at SYMBOL_CODE_INSTRUCTIONS */
};

/* Finds the function that contains vaddr; false if the module has no symbol there. Builds the
 * symbol table if needed. */
bool symbol_code_function(struct symbol_module *module, uint64_t vaddr,
                          struct symbol_code_range *range);

/* Disassembles the ranges. The caller finishes *code, also after an error. SONDE_NOT_AVAILABLE: the
 * module has no file, its file has no code (a debug file), or the disassembler is not installed.
 * SONDE_TOO_LARGE past the limits above. SONDE_CORRUPT: the worker failed. Blocks. */
SONDE_MUST_USE sonde_err symbol_code_read(struct symbol_module *module,
                                          const struct symbol_code_request *request,
                                          struct symbol_code *code, struct sonde_diag *diag);
void symbol_code_finish(struct symbol_code *code);

#endif
