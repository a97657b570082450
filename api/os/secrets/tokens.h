/* SPDX-License-Identifier: Apache-2.0
 *
 * Access tokens and their scopes, from a file with lines `TOKEN`, `TOKEN read`,
 * `TOKEN read,control` or `TOKEN register`; '#' starts a comment line. Comparison takes constant
 * time. Thread safety: any thread once parsed. */
#ifndef SONDE_API_OS_SECRETS_TOKENS_H
#define SONDE_API_OS_SECRETS_TOKENS_H

#include "api/bytes.h"
#include "api/error.h"

#define SONDE_TOKENS_MAX_FILE (64u << 10)

/* read: view and capture; control: start, stop and switch; register: be a host of a fleet
 * controller. */
enum sonde_scope { SONDE_SCOPE_READ = 1, SONDE_SCOPE_CONTROL = 2, SONDE_SCOPE_REGISTER = 4 };

struct sonde_tokens;

/* Parses a token file: 1 to 64 tokens of min_len to 256 characters. A line without scopes has all.
 * SONDE_INVALID_ARGUMENT: diag names the line. */
SONDE_MUST_USE sonde_err sonde_tokens_parse(struct sonde_slice text, size_t min_len,
                                            struct sonde_tokens **tokens, struct sonde_diag *diag);
void sonde_tokens_destroy(struct sonde_tokens *tokens); /* also overwrites them */

/* The rights that an "authorization" header's value, "Bearer TOKEN", grants. */
struct sonde_token_match {
    unsigned scopes; /* enum sonde_scope; 0 = the token is unknown */
    int line;        /* of the file, from 1: names the token in logs; 0 = unknown */
};
struct sonde_token_match sonde_tokens_find(const struct sonde_tokens *tokens,
                                           struct sonde_slice authorization);
/* Whether both files allow the same, line by line. */
bool sonde_tokens_equal(const struct sonde_tokens *a, const struct sonde_tokens *b);
/* The file's first token, NUL-terminated; borrowed from tokens. */
struct sonde_slice sonde_tokens_first(const struct sonde_tokens *tokens);

#endif
