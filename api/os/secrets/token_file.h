/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of access tokens (api/os/secrets/tokens.h) that is read again when it changes
 * (file_watch.h), so a token works as soon as it is added, and stops working when it is removed.
 *
 * Thread safety: any thread. */
#ifndef SONDE_API_OS_SECRETS_TOKEN_FILE_H
#define SONDE_API_OS_SECRETS_TOKEN_FILE_H

#include "api/os/secrets/tokens.h"

struct token_file;

/* Reads the file, which others must not be able to read. log: as in tls_files.h. Errors: those of
 * sonde_tokens_parse and sonde_file_read. */
SONDE_MUST_USE sonde_err token_file_create(const char *path, size_t min_len,
                                           void (*log)(const char *line),
                                           struct token_file **created, struct sonde_diag *diag);
void token_file_destroy(struct token_file *file); /* NULL is fine */

/* As sonde_tokens_find, in the newest version of the file that could be used. */
struct sonde_token_match token_file_find(struct token_file *file, struct sonde_slice authorization);
/* A copy of the first token, NUL-terminated, cut to size. The caller overwrites it after use. */
void token_file_first(struct token_file *file, char *out, size_t size);

#endif
