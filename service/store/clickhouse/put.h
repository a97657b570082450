/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows that are inserted once, whatever happens to a request: put_once.c does it for anything that
 * has a delivery identity, put.c knows what windows and totals look like. */
#ifndef SONDE_SERVICE_STORE_CLICKHOUSE_PUT_H
#define SONDE_SERVICE_STORE_CLICKHOUSE_PUT_H

#include "service/store/clickhouse/fleet.h"

struct delivery {
    uint64_t source, seq;
    uint32_t epoch, shard;
    const void *item;
    bool is_stored;
};

struct deliveries {
    const char *table;
    const struct native_column *columns;
    size_t column_count;
    /* A condition that every delivery's row fulfils, so that the question whether they exist reads
     * few rows. */
    struct sonde_buf condition;
    struct delivery *rows;
    size_t count;
    const struct store_stop *stop; /* of the batch */
    const void **items;            /* count of them, scratch space */
    size_t duplicates;             /* out: existed already, or are in the batch twice */
};

/* Returns when all rows are stored. SONDE_UNAVAILABLE: some may be; a repetition finds them. */
SONDE_MUST_USE sonde_err put_once(struct fleet *fleet, struct deliveries *deliveries,
                                  struct sonde_diag *diag);

/* Appends " AND name IN ('a', 'b')", nothing if there are too many. Sorts the texts. */
void put_in(struct sonde_buf *sql, const char *name, const char **texts, size_t count);

#endif
