/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads small configuration files: keys, certificates, tokens. Thread safety: any thread. */
#ifndef SONDE_SERVICE_RPC_CORE_SECRET_FILES_H
#define SONDE_SERVICE_RPC_CORE_SECRET_FILES_H

#include "api/bytes.h"
#include "api/error.h"

enum rpc_file_kind { RPC_FILE_PLAIN, RPC_FILE_SECRET /* refused if others can read it */ };

/* Appends the file to out, up to out's limit. `what` names it in error messages: "token file". */
SONDE_MUST_USE sonde_err rpc_file_read(const char *path, const char *what, enum rpc_file_kind kind,
                                       struct sonde_buf *out, struct sonde_diag *diag);

#endif
