/* SPDX-License-Identifier: Apache-2.0
 *
 * Finishes an hour, one stream at a time, for maintain. Call it within a transaction of the
 * writer. */
#ifndef SONDE_SERVICE_STORE_SQLITE_FINISH_H
#define SONDE_SERVICE_STORE_SQLITE_FINISH_H

#include "service/store/sqlite/db/db.h"

/* Merges the chunks of an hour that is over, and stores its rollup. */
void finish_hour(struct db *db, uint32_t stream, int64_t hour);
/* Moves the windows of some mixed chunks before this minute to chunks of their streams. Returns
 * whether there are more. */
bool finish_split(struct db *db, int64_t minute);
/* Deletes an hour. */
void finish_delete(struct db *db, uint32_t stream, int64_t hour);

#endif
