/* SPDX-License-Identifier: Apache-2.0 */
#include "service/programs/registrations.h"

sonde_err registrations_start(const struct sonde_option_list *addresses,
                              const struct registration_options *options,
                              struct registrations *registrations, struct sonde_diag *diag) {
    sonde_err err = SONDE_OK;
    if (addresses->count > REGISTRATIONS_MAX)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "--register can be given %d times",
                          REGISTRATIONS_MAX);
    if (addresses->count && !options->collect)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "--register does not go with --no-collect, and needs a data directory "
                          "that can be written");
    for (size_t i = 0; i < addresses->count && !err; i++) {
        struct registration_options one = *options;
        one.address = addresses->items[i];
        err = registration_start(&one, &registrations->items[i], diag);
        registrations->count += !err;
    }
    return err;
}

void registrations_stop(struct registrations *registrations) {
    for (size_t i = 0; i < registrations->count; i++)
        registration_stop(registrations->items[i]);
    registrations->count = 0;
}
