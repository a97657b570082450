/* SPDX-License-Identifier: Apache-2.0
 *
 * A function's lines and instructions with their counts, of one profile or of two. Lines are places
 * (CodePlace in profiler.proto): an inlined line has the call as its parent. Thread safety: any
 * thread. */
#ifndef SONDE_CLIENTS_ANNOTATE_VIEW_H
#define SONDE_CLIENTS_ANNOTATE_VIEW_H

#include "api/hash_index.h"
#include "clients/annotate/subject.h"
#include "proto/sonde/v1/profiler.pb-c.h"

#define VIEW_NONE UINT32_MAX

enum view_side { VIEW_NOW, VIEW_BASE, VIEW_SIDES };

/* Shares of a profile's total, 0 to 1. */
struct view_counts {
    double self, total;
};

struct view_place {
    uint32_t parent; /* VIEW_NONE = the function itself */
    const char *function, *file;
    uint32_t line;
    struct view_counts counts[VIEW_SIDES];
};

struct view_instruction {
    const Sonde__V1__CodeInstruction *code;
    uint32_t place; /* VIEW_NONE = unknown */
    struct view_counts counts[VIEW_SIDES];
    int64_t self[VIEW_SIDES]; /* in the profile's unit */
};

struct view {
    const Sonde__V1__Code *code;
    const char *function;
    struct view_place *places; /* parents come first */
    uint32_t place_count, place_capacity;
    struct hash_index place_index;
    struct view_instruction *instructions;
    uint32_t instruction_count;
    struct view_counts counts[VIEW_SIDES]; /* of the whole function */
    bool has_base;
};

/* A string of the answer; "" if there is none with that number. */
static inline const char *view_text(const Sonde__V1__Code *code, uint32_t number) {
    return number < code->n_strings ? code->strings[number] : "";
}

/* `code` outlives the view. NULL: there is none, and the places are those that the profiles
 * know. */
SONDE_MUST_USE sonde_err view_init(struct view *view, const Sonde__V1__Code *code,
                                   const char *function);
void view_finish(struct view *view);

/* Counts a subject's samples. Its addresses begin at `first` in the code's; VIEW_NONE: the code is
 * another one's, so that only lines are counted, as the profile knows them. `function`: only
 * addresses in the function that starts there count; 0 = all. */
SONDE_MUST_USE sonde_err view_count(struct view *view, enum view_side side,
                                    const struct subject *subject, uint32_t first,
                                    uint64_t function);

#endif
