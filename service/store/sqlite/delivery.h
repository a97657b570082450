/* SPDX-License-Identifier: Apache-2.0
 *
 * Which deliveries are stored: ranges of seq per (source, epoch). A sender counts, so there is
 * usually one range, and a put changes one row. Used within one transaction. */
#ifndef SONDE_SERVICE_STORE_SQLITE_DELIVERY_H
#define SONDE_SERVICE_STORE_SQLITE_DELIVERY_H

#include "service/store/sqlite/db/db.h"

enum delivery_kind { DELIVERY_WINDOW, DELIVERY_TOTAL };

/* The range that is being extended; seqs are order-preserving signed numbers. Zeroed is none. */
struct delivery {
    bool is_open, is_changed;
    int64_t source, epoch, kind;
    int64_t low, high,
        next; /* next: the begin of the following range, INT64_MAX if there is none */
    int64_t last_unix_s;
};

/* Whether the delivery is new; it is then stored. */
bool delivery_is_new(struct delivery *delivery, struct db *db, enum delivery_kind kind,
                     uint64_t source, uint32_t epoch, uint64_t seq, int64_t unix_s);
/* Writes what has changed. Call at the end of the transaction. */
void delivery_flush(struct delivery *delivery, struct db *db);

#endif
