/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrows beside a listing, from jumps to their targets. Short ones are nearest to the code; those
 * for which there is no lane are left out. Any thread. */
#ifndef SONDE_CLIENTS_CLI_VERBS_ANNOTATE_ARROWS_H
#define SONDE_CLIENTS_CLI_VERBS_ANNOTATE_ARROWS_H

#include <stdbool.h>
#include <stdint.h>

#define ARROWS_LANES 6

struct arrow {
    uint32_t from, to; /* rows */
};

struct arrows {
    uint8_t *lanes; /* per row: what ARROWS_LANES columns have */
    bool *is_head;  /* per row: a jump further down comes back to it */
    uint32_t lane_count;
};

/* Reorders the arrows. False: out of memory; finish then, too. */
bool arrows_init(struct arrows *arrows, uint32_t row_count, struct arrow *items, uint32_t count);
void arrows_finish(struct arrows *arrows);
/* Prints the lanes of a row, and two columns of arrow head or line. */
void arrows_put(const struct arrows *arrows, uint32_t row);

#endif
