/* SPDX-License-Identifier: Apache-2.0
 *
 * The number of descriptors that a service may open. Call it before threads start. */
#ifndef SONDE_API_OS_FILE_LIMIT_H
#define SONDE_API_OS_FILE_LIMIT_H

#include "api/error.h"

/* Fewer do not suffice for sockets, caches and a few connections: gRPC's library would abort. */
#define FILE_LIMIT_LEAST 64u

/* Raises the limit as far as this process may. SONDE_NOT_AVAILABLE: that is too few. */
SONDE_MUST_USE sonde_err file_limit_raise(const char *program, struct sonde_diag *diag);

#endif
