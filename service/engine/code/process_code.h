/* SPDX-License-Identifier: Apache-2.0
 *
 * The code of a process as /proc shows it now, and the memory of a stack, for walks from outside.
 * Thread safety: a worker; one thread at a time per struct. */
#ifndef SONDE_SERVICE_ENGINE_CODE_PROCESS_CODE_H
#define SONDE_SERVICE_ENGINE_CODE_PROCESS_CODE_H

#include "service/engine/core/engine_state.h"
#include "service/engine/report/address_space.h"
#include "service/process/process_identity.h"
#include "service/unwind/remote/remote.h"

#define PROCESS_CODE_STACK (1u << 20) /* of a blocked thread, read on demand */

/* One executable mapping with its unwind table. */
struct code_region {
    struct mapping *mapping;
    const void *image; /* NULL = none */
    size_t bytes;
    bool is_open;
};

/* The code of a process, and the stack memory of the current thread. */
struct process_code {
    struct engine *engine;
    const struct process_identity *process;
    struct generation *generation;
    struct code_region *regions;
    uint32_t last;      /* the mapping found last */
    uint8_t *stack;     /* PROCESS_CODE_STACK bytes */
    uint64_t stack_at;  /* address of the first byte */
    size_t stack_bytes; /* number of bytes read so far */
    bool is_live;       /* more may be read from the live process */
};
SONDE_MUST_USE sonde_err process_code_init(struct process_code *code, struct engine *engine,
                                           const struct process_identity *process);
void process_code_finish(struct process_code *code);
/* Uses the memory of a blocked thread, read on demand. */
void process_code_live(struct process_code *code, uint64_t sp);
/* The callbacks of service/unwind/remote/remote.h. */
struct unwind_remote process_code_remote(struct process_code *code);
/* The mapping that contains pc, or NULL. */
struct code_region *process_code_at(struct process_code *code, uint64_t pc);

#endif
