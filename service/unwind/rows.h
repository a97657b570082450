/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows in, table image out. Rows come in rising order of pc; equal neighbours melt into one, equal
 * rules are stored once. pcs here are offsets from `origin`, the lowest address a row can have. One
 * thread at a time. */
#ifndef SONDE_SERVICE_UNWIND_ROWS_H
#define SONDE_SERVICE_UNWIND_ROWS_H

#include "api/bytes.h"
#include "service/unwind/table.h"

struct unwind_row {
    uint32_t pc;
    uint16_t rule;
};

struct unwind_rows {
    uint64_t origin;
    uint32_t fde_count, complex_rows;
    uint8_t build_id[UNWIND_ID_BYTES];
    uint32_t build_id_bytes;
    struct unwind_row *items;
    size_t item_count, item_capacity;
    struct unwind_rule *rules;
    uint32_t rule_count, rule_capacity;
    uint16_t *slots; /* open addressing: rule number + 1 */
    uint32_t slot_count;
    uint32_t slot_shift; /* from the upper half of a hash to a slot */
    bool failed;         /* out of memory */
};

/* Rule 0 is NONE, rule 1 is END. */
void unwind_rows_init(struct unwind_rows *rows);
void unwind_rows_finish(struct unwind_rows *rows);

/* From pc on this rule holds. A row at the pc of the last one replaces it. rule->reserved must be
 * 0. */
void unwind_rows_add(struct unwind_rows *rows, uint32_t pc, const struct unwind_rule *rule);
/* The number of a rule, which keeps it; 0, NONE's, when there are too many. */
uint16_t unwind_rows_rule(struct unwind_rows *rows, const struct unwind_rule *rule);
/* The same as unwind_rows_add by the rule's number. */
void unwind_rows_put(struct unwind_rows *rows, uint32_t pc, uint16_t rule);
/* From pc on nothing is known. */
void unwind_rows_gap(struct unwind_rows *rows, uint32_t pc);

/* Appends the image to table, which should be empty. SONDE_NOT_AVAILABLE without any row,
 * SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err unwind_rows_write(const struct unwind_rows *rows, struct sonde_buf *table);

#endif
