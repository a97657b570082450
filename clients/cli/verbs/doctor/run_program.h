/* SPDX-License-Identifier: Apache-2.0
 *
 * Short-lived programs whose output a check reads. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_VERBS_DOCTOR_RUN_PROGRAM_H
#define SONDE_CLIENTS_CLI_VERBS_DOCTOR_RUN_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

#define RUN_PROGRAM_S 10 /* then it is killed */

/* Runs argv (found in PATH) without stdin and stderr, and writes its output, cut to the size. False
 * if it could not be started, did not end in time or failed. */
bool run_program(const char *const *argv, char *text, size_t size);

#endif
