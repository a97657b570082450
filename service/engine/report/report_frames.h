/* SPDX-License-Identifier: Apache-2.0
 *
 * The different frames of a report: every (mapping, pc) once, with its location in the profile. A
 * private part of report.c. Thread safety: one thread. */
#ifndef SONDE_SERVICE_ENGINE_REPORT_REPORT_FRAMES_H
#define SONDE_SERVICE_ENGINE_REPORT_REPORT_FRAMES_H

#include "service/engine/report/report.h"

struct report_frame {
    uint64_t pc; /* with RING_PC_EXACT; a note's number when is_note */
    struct mapping *mapping;
    bool is_note;
    uint32_t location; /* id in the profile */
    uint32_t query;    /* its symbol query + 1, 0 = none */
};

struct report_frames {
    struct report_frame *items;
    uint32_t count, capacity;
    struct hash_index index;     /* of items */
    struct sonde_buf shortfalls; /* sentences: which modules lack lines, and why; "" = none does */
};

void report_frames_init(struct report_frames *frames);
void report_frames_finish(struct report_frames *frames);
/* Sets *number to the frame of a node, and adds the frame if it is new. */
SONDE_MUST_USE sonde_err report_frames_add(struct report_frames *frames,
                                           const struct stacks *stacks,
                                           const struct stack_node *node, uint32_t *number);
/* Names them all and adds their mappings, functions and locations to the profile. symbols NULL: no
 * names. */
SONDE_MUST_USE sonde_err report_frames_locate(struct report_frames *frames,
                                              struct symbol_store *symbols,
                                              struct sonde_profile *profile);

#endif
