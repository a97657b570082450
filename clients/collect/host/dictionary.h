/* SPDX-License-Identifier: Apache-2.0
 *
 * What one call of Collect has defined so far: texts, processes, frames and stacks by their
 * numbers. The definitions of frames and stacks themselves are passed on to the store when they
 * arrive; only their ids are kept.
 *
 * A host could send any numbers, so both the numbers and the memory of a dictionary are bounded.
 * Thread safety: one thread at a time. */
#ifndef SONDE_CLIENTS_COLLECT_HOST_DICTIONARY_H
#define SONDE_CLIENTS_COLLECT_HOST_DICTIONARY_H

#include "api/bytes.h"
#include "api/error.h"
#include "proto/sonde/v1/profiler.pb-c.h"

#define DICTIONARY_MAX_NUMBER (1u << 20)
#define DICTIONARY_MAX_BYTES  (48u << 20)

struct dictionary_label {
    const char *name, *value;
};

struct dictionary_process {
    const char *service, *instance;
    uint32_t pid;
    int64_t start_unix_ns;
    struct dictionary_label *labels;
    size_t label_count;
};

/* items[number]; NULL or 0 = not defined. */
struct dictionary {
    struct sonde_arena arena; /* texts and processes */
    const char **texts;
    struct dictionary_process **processes;
    uint64_t *frames, *stacks; /* ids */
    uint32_t text_capacity, process_capacity, frame_capacity, stack_capacity;
};

void dictionary_finish(struct dictionary *dictionary); /* leaves it empty and usable */

/* SONDE_PROTOCOL: a number or the memory is out of its bounds. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err dictionary_add_text(struct dictionary *dictionary,
                                             const Sonde__V1__CollectText *text,
                                             struct sonde_diag *diag);
SONDE_MUST_USE sonde_err dictionary_add_process(struct dictionary *dictionary,
                                                const Sonde__V1__CollectProcess *process,
                                                struct sonde_diag *diag);
SONDE_MUST_USE sonde_err dictionary_add_frame(struct dictionary *dictionary, uint32_t number,
                                              uint64_t id, struct sonde_diag *diag);
SONDE_MUST_USE sonde_err dictionary_add_stack(struct dictionary *dictionary, uint32_t number,
                                              uint64_t id, struct sonde_diag *diag);

/* NULL or 0 for a number that is not defined. Text 0 is "" unless it is defined. */
const char *dictionary_text(const struct dictionary *dictionary, uint32_t number);
const struct dictionary_process *dictionary_process(const struct dictionary *dictionary,
                                                    uint32_t number);
uint64_t dictionary_frame(const struct dictionary *dictionary, uint32_t number);
uint64_t dictionary_stack(const struct dictionary *dictionary, uint32_t number);

#endif
