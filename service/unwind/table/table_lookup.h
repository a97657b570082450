/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds a table's rule for a pc. The image must have passed unwind_table_check. The signal handler
 * has a faster look-up of its own (service/guest/signal/walk.c). Signal-safe; any thread. */
#ifndef SONDE_SERVICE_UNWIND_TABLE_TABLE_LOOKUP_H
#define SONDE_SERVICE_UNWIND_TABLE_TABLE_LOOKUP_H

#include "service/unwind/table/table.h"

/* The row that applies at vaddr; UINT32_MAX outside of the text. */
static inline uint32_t unwind_table_row(const void *image, uint64_t vaddr) {
    const struct unwind_header *header = image;
    const uint8_t *bytes = image, *pcs = bytes + header->pcs_offset;
    const uint32_t *pages = (const uint32_t *)(bytes + header->pages_offset);
    uint64_t at = vaddr - header->base;
    if (vaddr < header->base || at >= header->text_bytes)
        return UINT32_MAX;
    uint32_t row = pages[at / UNWIND_PAGE], end = pages[at / UNWIND_PAGE + 1];
    while (row < end && pcs[row] <= (uint8_t)at)
        row++;
    return row - 1;
}

static inline const struct unwind_rule *unwind_table_rule_of(const void *image, uint32_t row) {
    static const struct unwind_rule none = {.cfa = UNWIND_CFA_NONE};
    const struct unwind_header *header = image;
    const uint8_t *bytes = image;
    const uint16_t *rows = (const uint16_t *)(bytes + header->rows_offset);
    return row >= header->row_count
               ? &none
               : (const struct unwind_rule *)(bytes + header->rules_offset) + rows[row];
}

/* Never NULL: outside of the text the rule is NONE. */
static inline const struct unwind_rule *unwind_table_rule(const void *image, uint64_t vaddr) {
    return unwind_table_rule_of(image, unwind_table_row(image, vaddr));
}

#endif
