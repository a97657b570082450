/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that libsonde.so cannot be loaded into runs all the same. What is left are profiles
 * from outside, if the kernel allows them. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_RUN_WITHOUT_GUEST_H
#define SONDE_CLIENTS_CLI_RUN_WITHOUT_GUEST_H

#include "api/error.h"

#include <stdbool.h>

/* Writes one line to stderr: what is missing, and why. `obstacle` is what executable_check
 * returned, and `reason` its text. */
void without_guest_explain(sonde_err obstacle, const char *reason, bool is_recorded);

#endif
