/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds a table image from rows, which must be added in rising order of pc. Neighbours with equal
 * rules become one row, and equal rules are stored once. pcs here are offsets from `origin`, the
 * lowest address a row can have. One thread at a time. */
#ifndef SONDE_SERVICE_UNWIND_TABLE_ROWS_H
#define SONDE_SERVICE_UNWIND_TABLE_ROWS_H

#include "api/bytes.h"
#include "api/hash_index.h"
#include "service/unwind/table/table.h"

/* The rows have the same form as in the image. */
struct unwind_rows {
    uint32_t machine; /* EM_*: this program's, unless it is set */
    uint64_t origin;
    uint32_t fde_count, complex_rows;
    uint8_t build_id[UNWIND_ID_BYTES];
    uint32_t build_id_bytes;
    uint16_t *numbers; /* the number of each row's rule */
    uint8_t *lows;     /* the low byte of each row's pc - first */
    size_t count, capacity;
    uint32_t *page_ends; /* of each page with rows: its last row + 1; 0 elsewhere */
    size_t page_capacity;
    uint32_t first, last;   /* pcs of the first and last row */
    uint32_t before;        /* pc of the row before the last */
    uint32_t last_number;   /* the last row's rule; above all rules if there is no row */
    uint32_t covered_bytes; /* up to the last row */
    struct unwind_rule *rules;
    uint32_t rule_count, rule_capacity;
    struct hash_index rule_index; /* of rules */
    bool failed;                  /* out of memory */
};

/* Rule 0 is NONE, rule 1 is END. */
void unwind_rows_init(struct unwind_rows *rows);
void unwind_rows_finish(struct unwind_rows *rows);

/* The rule applies from pc on. A row with the pc of the last row replaces it. rule->reserved must
 * be 0. */
void unwind_rows_add(struct unwind_rows *rows, uint32_t pc, const struct unwind_rule *rule);
/* The number of a rule, which is stored if it is new. 0, the number of NONE, if there are too many.
 */
uint16_t unwind_rows_rule(struct unwind_rows *rows, const struct unwind_rule *rule);
/* The two halves of unwind_rows_put: append adds a row after the last one if there is room,
 * put_slow does the rest. */
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

/* The same as unwind_rows_add, with the rule's number. */
static inline void unwind_rows_put(struct unwind_rows *rows, uint32_t pc, uint16_t rule) {
    if (pc == rows->last || rows->count == rows->capacity ||
        (pc - rows->first) / UNWIND_PAGE >= rows->page_capacity)
        unwind_rows_put_slow(rows, pc, rule);
    else
        unwind_rows_append(rows, pc, rule);
}

/* No rule applies from pc on. */
void unwind_rows_gap(struct unwind_rows *rows, uint32_t pc);

/* Appends the image to table, which should be empty. SONDE_NOT_AVAILABLE without any row,
 * SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err unwind_rows_write(const struct unwind_rows *rows, struct sonde_buf *table);

#endif
