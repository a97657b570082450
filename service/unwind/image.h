/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows in, table image out. Rows come in rising order of pc; equal neighbours melt into one, equal
 * rules are stored once. pcs here are offsets from `origin`, the lowest address a row can have. One
 * thread at a time. */
#ifndef SONDE_SERVICE_UNWIND_IMAGE_H
#define SONDE_SERVICE_UNWIND_IMAGE_H

#include "api/bytes.h"
#include "service/unwind/table.h"

struct image_row {
    uint32_t pc;
    uint16_t rule;
};

struct image {
    uint64_t origin;
    uint32_t fde_count, complex_rows;
    uint8_t build_id[UNWIND_ID_BYTES];
    uint32_t build_id_bytes;
    struct image_row *rows;
    size_t row_count, row_capacity;
    struct unwind_rule *rules;
    uint32_t rule_count, rule_capacity;
    uint16_t *slots; /* open addressing: rule number + 1 */
    uint32_t slot_count;
    bool failed; /* out of memory */
};

/* Rule 0 is NONE, rule 1 is END. */
void image_init(struct image *image);
void image_finish(struct image *image);

/* From pc on this rule holds. A row at the pc of the last one replaces it. rule->reserved must be
 * 0. */
void image_row(struct image *image, uint32_t pc, const struct unwind_rule *rule);
/* From pc on nothing is known. */
void image_gap(struct image *image, uint32_t pc);

/* Appends the image to table, which should be empty. SONDE_NOT_AVAILABLE without any row,
 * SONDE_TOO_LARGE, SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err image_write(const struct image *image, struct sonde_buf *table);

#endif
