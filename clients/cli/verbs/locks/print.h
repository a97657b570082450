/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of `sonde locks`, on stdout, and its notes. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_VERBS_LOCKS_PRINT_H
#define SONDE_CLIENTS_CLI_VERBS_LOCKS_PRINT_H

#include "api/profile/select/locks.h"
#include "clients/cli/capture.h"

/* rows 0 = all. */
void locks_print_text(const struct sonde_lock_table *table, const struct capture_result *result,
                      uint64_t rows);
/* All locks, in one line. The profile is the table's. */
void locks_print_json(const struct sonde_lock_table *table, const struct sonde_profile *profile,
                      const struct capture_result *result);
/* Prints on stderr, a line each, why the table may be incomplete. */
void locks_print_notes(const struct sonde_profile *profile, const struct capture_result *result);

#endif
