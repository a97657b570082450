/* SPDX-License-Identifier: Apache-2.0
 *
 * Pieces of ClickHouse's SQL. Every text from outside becomes a literal here and nowhere else.
 * Thread safety: any thread. */
#ifndef SONDE_SERVICE_STORE_CLICKHOUSE_WIRE_SQL_H
#define SONDE_SERVICE_STORE_CLICKHOUSE_WIRE_SQL_H

#include "api/bytes.h"
#include "service/store/selector/selector.h"
#include "service/store/store.h"

/* The columns that tell processes apart. A sonded that restarts has another source, but a process
 * that it records again is the same. */
#define SQL_PROCESS "host, instance, pid, start"

/* A quoted string. Bytes outside printable ASCII are written as \xHH, so that the statement is
 * ASCII whatever the text. */
void sql_text(struct sonde_buf *sql, struct sonde_slice text);
/* A quoted identifier: the name of a database, cluster or table. */
void sql_name(struct sonde_buf *sql, const char *name);

/* Where the names of a selector are found. */
enum sql_level {
    SQL_WINDOW, /* a row of samples; "thread" matches if one of the window's threads does */
    SQL_ROW,    /* after ARRAY JOIN: the thread of one value */
    SQL_LAST,   /* the same of the last window of a process, with labels in columns k and v */
    SQL_TOTAL,  /* a row of host_totals after ARRAY JOIN */
};

/* The expression of a label's value: a column or an entry of the labels, "" if there is none. At
 * SQL_WINDOW "thread" is the lambda variable thread_name. */
void sql_label(struct sonde_buf *sql, const char *name, enum sql_level level);
/* A condition; "1" for a selector that matches everything. */
void sql_condition(struct sonde_buf *sql, const struct selector *selector, enum sql_level level);
/* Begins in the range, which may be empty. */
void sql_times(struct sonde_buf *sql, int64_t from_unix_s, int64_t until_unix_s);
/* Event, service (if there is one) and range, as a condition on samples. */
void sql_range(struct sonde_buf *sql, const struct store_query *query);
/* " WHERE " sql_range and the selector at SQL_WINDOW. */
void sql_where(struct sonde_buf *sql, const struct store_query *query);

/* SipHash-2-4 of the text with a zero key: the same as sipHash64(text) in SQL. Stored instead of
 * the thread's name: sums by one integer are four times as fast as by a string. */
uint64_t sql_thread_key(const char *name);

#endif
