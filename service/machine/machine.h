/* SPDX-License-Identifier: Apache-2.0
 *
 * What differs between the machines whose files Sonde reads: relocations, linkage tables, veneers,
 * signal trampolines, call frame information. A file's machine is chosen at run time, because an
 * x86-64 process also reads files for arm64. There is one folder per machine. Any thread. */
#ifndef SONDE_SERVICE_MACHINE_MACHINE_H
#define SONDE_SERVICE_MACHINE_MACHINE_H

#include "service/machine/relocations.h"

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The code of a section with entries of the procedure linkage table. */
struct machine_plt {
    const uint8_t *code;
    size_t len;
    uint64_t address;
    uint64_t entry_bytes; /* as the section header has it; 0 = unknown */
};

struct machine_plt_entry {
    size_t start, end; /* offsets in the code */
    uint64_t slot;     /* address of the slot that it jumps through */
};

struct machine_text {
    const uint8_t *code;
    size_t len;
    uint64_t address;
};

/* A call, and the address, relative to its own, that the code loads before for the third
 * argument. */
struct machine_call {
    uint64_t target, argument;
};

struct machine_code {
    /* Bytes of the trampoline that a signal's handler returns to, if one begins here; else 0. */
    size_t (*trampoline_at)(const uint8_t *code, size_t len);
    int16_t ucontext_at; /* where it finds the ucontext, from the stack pointer */
    /* Where instructions begin: at multiples of this. */
    uint8_t step;
    /* How often the code sets up a frame pointer. */
    uint32_t (*count_frames)(const uint8_t *code, size_t len);
    /* Whether service/unwind/code finds the rows of a function by its instructions. */
    bool is_analysed;
};

struct cfi_machine; /* service/machine/cfi_machine.h */

struct machine {
    uint16_t elf;          /* EM_* */
    uint32_t largest_page; /* of its kernels: 4096, or 4, 16 or 64 KiB */
    const struct machine_relocations *relocations;
    /* Finds the first entry at or after the offset `from`; false if there is none. */
    bool (*next_plt_entry)(const struct machine_plt *plt, size_t from,
                           struct machine_plt_entry *entry);
    /* Where the header in front of the entries has stored what the linker's resolver needs: the
     * offset behind that instruction; 0 = no header. NULL if linkers write call frame information
     * of the section. */
    size_t (*find_plt_push)(const struct machine_plt *plt);
    /* The part of a local function's name that names the target of a veneer, which the linker has
     * put between a call and its function; false if the name is not that of a veneer. */
    bool (*find_veneer_target)(const char *name, const char **target, size_t *len);
    /* Finds the next such call at or after the offset *at, and moves *at behind what it has
     * read. */
    bool (*next_call)(const struct machine_text *text, size_t *at, struct machine_call *call);
    struct machine_code code;
    const struct cfi_machine *cfi;
};

extern const struct machine machine_x86_64, machine_aarch64;

/* NULL if Sonde does not read files of that machine. */
const struct machine *machine_of(uint16_t elf_machine);

#endif
