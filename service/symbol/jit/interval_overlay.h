/* SPDX-License-Identifier: Apache-2.0
 *
 * Intervals of addresses in the order of time. A later interval overrides those that it overlaps,
 * because the code there was compiled again. Overlaying them all leaves disjoint pieces. Thread
 * safety: one thread per overlay. */
#ifndef SONDE_SERVICE_SYMBOL_JIT_INTERVAL_OVERLAY_H
#define SONDE_SERVICE_SYMBOL_JIT_INTERVAL_OVERLAY_H

#include "api/error.h"

#define SYMBOL_OVERLAY_MAX (1u << 20) /* further intervals are ignored */

struct symbol_interval {
    uint64_t start, end;
    uint32_t name, name_len; /* where the caller has its name; name_len 0: the code is gone */
    uint32_t load;           /* for the caller */
};

struct symbol_overlay {
    struct symbol_interval *items;
    uint32_t count, capacity;
};

/* Ignores an empty interval. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err symbol_overlay_add(struct symbol_overlay *overlay,
                                            const struct symbol_interval *interval);
void symbol_overlay_finish(struct symbol_overlay *overlay);

/* [start, end) belongs to that interval. */
typedef void symbol_on_piece(void *context, const struct symbol_interval *interval, uint64_t start,
                             uint64_t end);
/* Calls on_piece for each piece, in the order of addresses. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err symbol_overlay_each(const struct symbol_overlay *overlay,
                                             symbol_on_piece *on_piece, void *context);

#endif
