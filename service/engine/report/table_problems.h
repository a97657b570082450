/* SPDX-License-Identifier: Apache-2.0
 *
 * The sentence for unwind tables that could not be loaded. Without it a profile of leaves looks
 * like a program without callers. */
#ifndef SONDE_SERVICE_ENGINE_REPORT_TABLE_PROBLEMS_H
#define SONDE_SERVICE_ENGINE_REPORT_TABLE_PROBLEMS_H

#include "service/engine/report/address_space.h"

/* Collects the mappings that have a problem: adds each of them, then describes. */
struct table_problems {
    const struct mapping *first;
    uint32_t count; /* of mappings */
};

/* Ignores mappings without a problem. */
void table_problems_add(struct table_problems *problems, const struct mapping *mapping);
/* "no unwind table of libc.so.6 and 2 more files, so callers are missing: cannot map an unwind
 * table: Operation not permitted"; "" = there is no problem. */
void table_problems_describe(const struct table_problems *problems, char *text, size_t size);

#endif
