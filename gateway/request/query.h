/* SPDX-License-Identifier: Apache-2.0
 *
 * The query string and its typed, bounded parameters. Form-url-decoded (`+` is a blank, a broken %
 * stays as it is); of a key given twice the last wins; unknown keys are nobody's business. The
 * typed readers leave *value alone when the key is absent, so that it holds the default; a value of
 * the wrong form or out of bounds is SONDE_INVALID_ARGUMENT with a sentence that names the
 * parameter, the value and the bounds. Memory that runs out ends the process. Thread safety: one
 * thread per query. */
#ifndef SONDE_GATEWAY_REQUEST_QUERY_H
#define SONDE_GATEWAY_REQUEST_QUERY_H

#include "api/bytes.h"
#include "api/error.h"

struct query_pair {
    struct sonde_slice key, value;
};

struct query {
    struct query_pair *pairs;
    size_t count;
    char *storage;
};

void query_parse(struct query *query, struct sonde_slice text);
void query_finish(struct query *query);

/* The last value of key; false when there is none. */
bool query_get(const struct query *query, const char *key, struct sonde_slice *value);
size_t query_occurrences(const struct query *query, const char *key);

/* Digits only. */
SONDE_MUST_USE sonde_err query_whole(const struct query *query, const char *key, uint64_t low,
                                     uint64_t high, uint64_t *value, struct sonde_diag *diag);
/* Digits, or digits with a whole exponent: 100000000 and 1e8. */
SONDE_MUST_USE sonde_err query_count(const struct query *query, const char *key, uint64_t low,
                                     uint64_t high, uint64_t *value, struct sonde_diag *diag);
/* 12, 0.5, .5, 1e-3. */
SONDE_MUST_USE sonde_err query_decimal(const struct query *query, const char *key, double low,
                                       double high, double *value, struct sonde_diag *diag);
/* A share: 0.01, or 1%. */
SONDE_MUST_USE sonde_err query_share(const struct query *query, const char *key, double low,
                                     double high, double *value, struct sonde_diag *diag);
/* true, false, 1, 0. */
SONDE_MUST_USE sonde_err query_flag(const struct query *query, const char *key, bool *value,
                                    struct sonde_diag *diag);

/* A client's bytes as they may stand in an error text: cut at 64, everything but printable ASCII,
 * and `"` and `\`, as \xNN. */
#define QUERY_QUOTED_SIZE (64 * 4 + 1)
const char *query_quote(struct sonde_slice value, char text[QUERY_QUOTED_SIZE]);

/* Percent-decoding of a path's piece, where `+` is itself; out holds in.len bytes. The length. */
size_t query_decode_path(struct sonde_slice in, char *out);

#endif
