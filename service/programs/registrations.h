/* SPDX-License-Identifier: Apache-2.0
 *
 * `sonded --register`, for each fleet controller that is given. Thread safety: one thread at a
 * time. */
#ifndef SONDE_SERVICE_PROGRAMS_REGISTRATIONS_H
#define SONDE_SERVICE_PROGRAMS_REGISTRATIONS_H

#include "api/error.h"
#include "api/settings/options.h"
#include "service/rpc/registration/registration.h"

#define REGISTRATIONS_MAX 4

struct registrations {
    struct registration *items[REGISTRATIONS_MAX];
    size_t count;
};

/* options: without the address. Starts one for each address; registrations_stop also after an
 * error. SONDE_INVALID_ARGUMENT, SONDE_IO, SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err registrations_start(const struct sonde_option_list *addresses,
                                             const struct registration_options *options,
                                             struct registrations *registrations,
                                             struct sonde_diag *diag);
void registrations_stop(struct registrations *registrations); /* zeroed is fine */

#endif
