/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows in, table image out. Rows come in rising order of pc; equal neighbours melt into one, equal
 * rules are stored once. pcs here are offsets from `origin`, the lowest address a row can have. One
 * thread at a time. */
#ifndef SONDE_SERVICE_UNWIND_TABLE_ROWS_H
#define SONDE_SERVICE_UNWIND_TABLE_ROWS_H

#include "api/bytes.h"
#include "api/hash_index.h"
#include "service/unwind/table/table.h"

/* The rows are kept as the image will have them. */
struct unwind_rows {
    uint64_t origin;
    uint32_t fde_count, complex_rows;
    uint8_t build_id[UNWIND_ID_BYTES];
    uint32_t build_id_bytes;
    uint16_t *numbers; /* of each row's rule */
    uint8_t *lows;     /* the low byte of each row's pc, from `first` on */
    size_t count, capacity;
    uint32_t *page_ends; /* of each page with rows: one more than its last; 0 elsewhere */
    size_t page_capacity;
    uint32_t first, last;   /* pcs, when there are rows */
    uint32_t before;        /* pc of the row before the last, when there is one */
    uint32_t last_number;   /* more than any rule's when there are none */
    uint32_t covered_bytes; /* up to the last row */
    struct unwind_rule *rules;
    uint32_t rule_count, rule_capacity;
    struct hash_index rule_index; /* of rules */
    bool failed;                  /* out of memory */
};

/* Rule 0 is NONE, rule 1 is END. */
void unwind_rows_init(struct unwind_rows *rows);
void unwind_rows_finish(struct unwind_rows *rows);

/* From pc on this rule holds. A row at the pc of the last one replaces it. rule->reserved must be
 * 0. */
void unwind_rows_add(struct unwind_rows *rows, uint32_t pc, const struct unwind_rule *rule);
/* The number of a rule, which keeps it; 0, NONE's, when there are too many. */
uint16_t unwind_rows_rule(struct unwind_rows *rows, const struct unwind_rule *rule);
/* The two halves of unwind_rows_put: a row behind the last one when there is room, and all else. */
void unwind_rows_put_slow(struct unwind_rows *rows, uint32_t pc, uint16_t rule);
static inline void unwind_rows_append(struct unwind_rows *rows, uint32_t pc, uint16_t rule) {
    uint32_t at = pc - rows->first;
    size_t count = rows->count;
    if (rule == rows->last_number)
        return;
    rows->covered_bytes += rows->last_number ? pc - rows->last : 0;
    rows->numbers[count] = rule;
    rows->lows[count] = (uint8_t)at;
    rows->count = count + 1;
    rows->page_ends[at / UNWIND_PAGE] = (uint32_t)count + 1;
    rows->before = rows->last;
    rows->last = pc;
    rows->last_number = rule;
}

/* The same as unwind_rows_add by the rule's number. */
static inline void unwind_rows_put(struct unwind_rows *rows, uint32_t pc, uint16_t rule) {
    if (pc == rows->last || rows->count == rows->capacity ||
        (pc - rows->first) / UNWIND_PAGE >= rows->page_capacity)
        unwind_rows_put_slow(rows, pc, rule);
    else
        unwind_rows_append(rows, pc, rule);
}

/* From pc on nothing is known. */
void unwind_rows_gap(struct unwind_rows *rows, uint32_t pc);

/* Appends the image to table, which should be empty. SONDE_NOT_AVAILABLE without any row,
 * SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err unwind_rows_write(const struct unwind_rows *rows, struct sonde_buf *table);

#endif
