/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/sqlite/delivery.h"

void delivery_flush(struct delivery *delivery, struct db *db) {
    struct delivery *d = delivery;
    if (!d->is_open || !d->is_changed)
        return;
    if (d->high != INT64_MAX && d->high + 1 == d->next) {
        sqlite3_stmt *row =
            db_start(db, DELIVERY_AFTER, "iiii", d->source, d->epoch, d->kind, d->high);
        if (db_row(db, row))
            d->high = sqlite3_column_int64(row, 1);
        db_stop(row);
        db_run(db, DELIVERY_DELETE, "iiii", d->source, d->epoch, d->kind, d->next);
    }
    db_run(db, DELIVERY_SET, "iiiiii", d->source, d->epoch, d->kind, d->low, d->high,
           d->last_unix_s);
    d->is_open = d->is_changed = false;
}

/* Loads the range that has seq or ends before it; false if there is none. */
static bool load(struct delivery *d, struct db *db, int64_t seq) {
    sqlite3_stmt *row = db_start(db, DELIVERY_BEFORE, "iiii", d->source, d->epoch, d->kind, seq);
    bool is_found = db_row(db, row);
    if (is_found) {
        d->low = sqlite3_column_int64(row, 0);
        d->high = sqlite3_column_int64(row, 1);
    }
    db_stop(row);
    d->next = db_number(db, INT64_MAX, DELIVERY_AFTER, "iiii", d->source, d->epoch, d->kind, seq);
    return is_found;
}

/* Extends the open range by seq, if it fits. */
static bool extend(struct delivery *d, int64_t seq) {
    if (d->high == INT64_MAX || seq != d->high + 1 || seq == d->next)
        return false;
    d->high = seq;
    d->is_changed = true;
    return true;
}

bool delivery_is_new(struct delivery *delivery, struct db *db, enum delivery_kind kind,
                     uint64_t source, uint32_t epoch, uint64_t seq_unsigned, int64_t unix_s) {
    struct delivery *d = delivery;
    int64_t seq = (int64_t)(seq_unsigned ^ UINT64_C(1) << 63);
    bool is_same =
        d->is_open && d->source == (int64_t)source && d->epoch == epoch && d->kind == (int64_t)kind;
    if (is_same && d->last_unix_s < unix_s)
        d->last_unix_s = unix_s;
    if (is_same && seq >= d->low && seq <= d->high)
        return false;
    if (is_same && extend(d, seq))
        return true;
    delivery_flush(d, db);
    *d = (struct delivery){.is_open = true,
                           .source = (int64_t)source,
                           .epoch = epoch,
                           .kind = (int64_t)kind,
                           .last_unix_s = unix_s};
    bool is_found = load(d, db, seq);
    if (is_found && seq <= d->high)
        return false;
    if (is_found && extend(d, seq))
        return true;
    d->low = d->high = seq;
    d->is_changed = true;
    return true;
}
