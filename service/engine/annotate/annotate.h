/* SPDX-License-Identifier: Apache-2.0
 *
 * A function as code: its instructions, each with the source line and the chain of inlined calls it
 * belongs to, and the same for the sampled addresses of a profile. The client adds the counts.
 * Thread safety: any thread. */
#ifndef SONDE_SERVICE_ENGINE_ANNOTATE_ANNOTATE_H
#define SONDE_SERVICE_ENGINE_ANNOTATE_ANNOTATE_H

#include "service/engine/engine.h"

#include <sys/types.h>

struct symbol_store;
struct symbol_module;

#define ANNOTATE_FUNCTIONS 256u
#define ANNOTATE_NONE      UINT32_MAX

/* A line of a function. With a parent, the function is inlined there: the parent is the call. */
struct annotate_place {
    uint32_t parent; /* ANNOTATE_NONE = this is the function whose code it is */
    const char *function, *file;
    uint32_t line; /* 0 = unknown */
};

/* ELF virtual addresses. */
struct annotate_function {
    uint64_t start, end;
    const char *name, *system_name, *file;
    uint32_t line;
    bool is_part; /* the compiler has split it off another function (".cold") */
};

struct annotate_address {
    uint64_t vaddr;    /* 0 = in none of the mappings */
    uint32_t function; /* index; ANNOTATE_NONE = unknown */
    uint32_t place;    /* index; ANNOTATE_NONE = of another function than the chosen */
};

struct annotate_instruction {
    uint64_t vaddr, target;
    const char *text, *target_name; /* target_name: of a call or jump to another function; "" */
    uint64_t target_offset;
    uint32_t place;
    uint8_t size, kind; /* enum symbol_code_kind */
    bool is_after_gap;
};

struct annotate_answer {
    struct sonde_arena arena; /* owns everything */
    const char *path, *build_id;
    int64_t modified_unix_ns; /* of the file; 0 = unknown */
    struct annotate_function *functions;
    uint32_t function_count;
    struct annotate_place *places; /* parents come first */
    uint32_t place_count, place_capacity;
    struct annotate_address *addresses; /* one per address of the request */
    size_t address_count;
    struct annotate_instruction *instructions;
    uint32_t instruction_count;
    bool is_cut; /* only the first instructions are here */
    /* Why there are no instructions; "" = there are, or no function was chosen. */
    char without_code[256];
    const char *without_lines; /* symbol_module_shortfall */
};

struct annotate_request {
    const struct engine_symbol_mapping *mappings; /* NULL: the addresses are ELF addresses */
    size_t mapping_count;
    const uint64_t *addresses;
    size_t count;
    /* Start of the function to show. 0: the function that contains the addresses, with its
     * split-off parts. If they are in several functions, the answer lists those and has no code. */
    uint64_t function;
    uint32_t wait_ms; /* for the line table */
};

/* Fills the answer, which the caller finishes, also after an error. Blocks; a worker process
 * disassembles. SONDE_NOT_FOUND: no function at `function`. SONDE_TOO_LARGE: more than 65,536
 * addresses. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err annotate_module(struct symbol_store *store, struct symbol_module *module,
                                         const struct annotate_request *request,
                                         struct annotate_answer *answer, struct sonde_diag *diag);
void annotate_finish(struct annotate_answer *answer);

/* The same for a file that the engine's store knows by its build-id. SONDE_NOT_FOUND,
 * SONDE_INVALID_ARGUMENT. */
SONDE_MUST_USE sonde_err engine_annotate(struct engine *engine, const char *build_id,
                                         const struct annotate_request *request,
                                         struct annotate_answer *answer, struct sonde_diag *diag);

/* Opens the file that a profile names: with a pid where that process has it, else at its path, else
 * by build-id. If only tables of it are found, *why is the reason. SONDE_NOT_FOUND: so is *diag.
 * The caller releases *module. */
SONDE_MUST_USE sonde_err annotate_open(struct symbol_store *store, const char *path,
                                       const char *build_id, pid_t pid,
                                       struct symbol_module **module, struct sonde_diag *why,
                                       struct sonde_diag *diag);

#endif
