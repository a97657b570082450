/* SPDX-License-Identifier: Apache-2.0
 *
 * Short-lived programs whose output a verb reads. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_VERBS_SOURCE_RUN_PROGRAM_H
#define SONDE_CLIENTS_CLI_VERBS_SOURCE_RUN_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

/* Runs argv (found in PATH) without stdin and stderr, and writes its output, cut to the size. False
 * if it could not be started or failed, or was killed because it ran longer than limit_s. */
bool run_program(const char *const *argv, unsigned limit_s, char *text, size_t size);

#endif
