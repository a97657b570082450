/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges of addresses in the order of time: a later one overrides what it overlaps, because that
 * code was compiled again. Painting gives the disjoint stretches that are left, by rising address.
 * Thread safety: one thread per list. */
#ifndef SONDE_SERVICE_SYMBOL_JIT_INTERVAL_OVERLAY_H
#define SONDE_SERVICE_SYMBOL_JIT_INTERVAL_OVERLAY_H

#include "api/error.h"

#define SYMBOL_RANGES_MAX (1u << 20) /* further ones are left out */

struct symbol_range {
    uint64_t start, end;
    uint32_t name, name_len; /* the owner's: where its name is. No length: what was there is gone */
    uint32_t load;           /* the owner's */
};

struct symbol_ranges {
    struct symbol_range *items;
    uint32_t count, capacity;
};

/* start < end. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err symbol_ranges_add(struct symbol_ranges *ranges,
                                           const struct symbol_range *range);
void symbol_ranges_finish(struct symbol_ranges *ranges);

/* [start, end) shows that range. */
typedef void symbol_on_stretch(void *context, const struct symbol_range *range, uint64_t start,
                               uint64_t end);
/* SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err symbol_ranges_paint(const struct symbol_ranges *ranges,
                                             symbol_on_stretch *on_stretch, void *context);

#endif
