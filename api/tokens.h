/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens and what each allows: lines `TOKEN`, `TOKEN read` or `TOKEN read,control`, '#' comments.
 * Comparing takes the same time whatever was sent. Thread safety: any thread once parsed. */
#ifndef SONDE_API_TOKENS_H
#define SONDE_API_TOKENS_H

#include "api/bytes.h"
#include "api/error.h"

#define SONDE_TOKENS_MAX_FILE (64u << 10)

/* read: look and capture; control: also switch, start and stop. */
enum sonde_scope { SONDE_SCOPE_READ = 1, SONDE_SCOPE_CONTROL = 2 };

struct sonde_tokens;

/* A line without scopes has all. At most 64 tokens of min_len to 256 characters.
 * SONDE_INVALID_ARGUMENT names the line. */
SONDE_MUST_USE sonde_err sonde_tokens_parse(struct sonde_slice text, size_t min_len,
                                            struct sonde_tokens **tokens, struct sonde_diag *diag);
void sonde_tokens_destroy(struct sonde_tokens *tokens); /* and wipe */

/* The scopes (enum sonde_scope) of the value of an "authorization" header: "Bearer TOKEN". 0 = no
 * such token. */
unsigned sonde_tokens_scopes(const struct sonde_tokens *tokens, struct sonde_slice authorization);
/* The first one, NUL-terminated; as long as tokens. */
struct sonde_slice sonde_tokens_first(const struct sonde_tokens *tokens);

#endif
