/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of a query string or form. Decoding is that of forms: '+' is a space, a malformed
 * % sequence is left as it is. If a key is repeated the last value counts.
 *
 * The typed readers leave *value unchanged if the key is absent, so the caller presets the default.
 * A malformed or out-of-bounds value is SONDE_INVALID_ARGUMENT; the text has the parameter, the
 * value and the bounds. The process ends if memory runs out. Thread safety: one thread at a time
 * per query. */
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

/* Copies text. */
void query_parse(struct query *query, struct sonde_slice text);
void query_finish(struct query *query);

/* Stores the last value of key, borrowed from query; false if there is none. */
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
/* A share: 0.01 or 1%; low and high as shares. */
SONDE_MUST_USE sonde_err query_share(const struct query *query, const char *key, double low,
                                     double high, double *value, struct sonde_diag *diag);
/* true, false, 1, 0. */
SONDE_MUST_USE sonde_err query_flag(const struct query *query, const char *key, bool *value,
                                    struct sonde_diag *diag);

/* Makes a client's value safe for an error text: at most 64 bytes of it, with all but printable
 * ASCII, `"` and `\` as \xNN. Returns text. */
#define QUERY_QUOTED_SIZE (64 * 4 + 1)
const char *query_quote(struct sonde_slice value, char text[QUERY_QUOTED_SIZE]);

/* Hexadecimal digits, at most 16 after leading zeros, with or without "0x" in front. */
bool query_hex(struct sonde_slice text, uint64_t *number);

/* The known name that an unknown key was probably meant to be; NULL if none is near. */
const char *query_nearest(struct sonde_slice key, const char *const *names, size_t count);
/* SONDE_INVALID_ARGUMENT: unknown KIND "KEY", with the near name, or with all that OWNER has if
 * near is NULL. */
sonde_err query_refuse_unknown(const char *kind, const char *owner, struct sonde_slice key,
                               const char *near, const char *const *names, size_t count,
                               struct sonde_diag *diag);

/* Percent-decodes a segment of a path, where '+' is an ordinary character. out has in.len bytes.
 * Returns the length. */
size_t query_decode_path(struct sonde_slice in, char *out);

#endif
