/* SPDX-License-Identifier: Apache-2.0
 *
 * `sonded --register`: opens a call of Controller.RegisterHost to a fleet controller that cannot
 * reach this machine, and answers it as Collect would. If the call ends, another is opened after a
 * pause that grows to a minute; windows are kept meanwhile. Each call uses the files as they are
 * then.
 *
 * One thread per controller. Thread safety: one thread at a time. */
#ifndef SONDE_SERVICE_RPC_REGISTRATION_REGISTRATION_H
#define SONDE_SERVICE_RPC_REGISTRATION_REGISTRATION_H

#include "api/error.h"

struct collect;
struct registration;

struct registration_options {
    const char *address;                        /* HOST:PORT or unix:PATH */
    const char *name;                           /* NULL = this machine's */
    const char *token_file;                     /* its first token is sent; NULL = none */
    const char *ca_file, *cert_file, *key_file; /* PEM. TLS if ca_file is set */
    struct collect *collect;                    /* must outlive it */
    void (*log)(const char *line);
};

/* Does not wait for the controller. SONDE_INVALID_ARGUMENT (a file, the address), SONDE_IO,
 * SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err registration_start(const struct registration_options *options,
                                            struct registration **registration,
                                            struct sonde_diag *diag);
/* Ends the call. Before collect_finish. NULL is fine. */
void registration_stop(struct registration *registration);

#endif
