/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads small configuration files: keys, certificates, tokens. Thread safety: any thread. */
#ifndef SONDE_API_OS_SECRETS_SECRET_FILE_H
#define SONDE_API_OS_SECRETS_SECRET_FILE_H

#include "api/bytes.h"
#include "api/error.h"

enum sonde_file_kind { SONDE_FILE_PLAIN, SONDE_FILE_SECRET /* refused if others can read it */ };

/* Appends the file to out, up to out's limit. `what` names it in error messages: "token file". */
SONDE_MUST_USE sonde_err sonde_file_read(const char *path, const char *what,
                                         enum sonde_file_kind kind, struct sonde_buf *out,
                                         struct sonde_diag *diag);

#endif
