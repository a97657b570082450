/* SPDX-License-Identifier: Apache-2.0
 *
 * The distinct frames of a report: each (mapping, pc) once, with its location in the profile. For
 * report.c and service/engine/perf_data. Thread safety: one thread. */
#ifndef SONDE_SERVICE_ENGINE_REPORT_REPORT_FRAMES_H
#define SONDE_SERVICE_ENGINE_REPORT_REPORT_FRAMES_H

#include "service/engine/report/report.h"

struct report_frame {
    uint64_t pc; /* including RING_PC_EXACT; 0 when text is set */
    struct mapping *mapping;
    const char *text;  /* of a note or a process; NULL: code. In the stacks, or static */
    uint32_t location; /* id in the profile */
    uint32_t query;    /* number of its symbol query + 1, 0 = none */
};

struct report_frames {
    struct report_frame *items;
    uint32_t count, capacity;
    struct hash_index index;     /* of items */
    struct sonde_buf shortfalls; /* which modules lack line numbers, and why; empty = none does */
    struct sonde_buf advice;     /* what would name functions without names, a line each */
    const char *executable;      /* of the only process; "" = several */
};

void report_frames_init(struct report_frames *frames);
void report_frames_finish(struct report_frames *frames);
/* Sets *number to the frame of a node, and adds the frame if it is new. */
SONDE_MUST_USE sonde_err report_frames_add(struct report_frames *frames,
                                           const struct stacks *stacks,
                                           const struct stack_node *node, uint32_t *number);
/* Names all frames and adds their mappings, functions and locations to the profile. Without names
 * when symbols is NULL. */
SONDE_MUST_USE sonde_err report_frames_locate(struct report_frames *frames,
                                              struct symbol_store *symbols,
                                              struct sonde_profile *profile);

#endif
