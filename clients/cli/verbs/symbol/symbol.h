/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by symbol.c, which resolves addresses, and symbol_files.c, which manages sonded's symbol
 * files. */
#ifndef SONDE_CLIENTS_CLI_VERBS_SYMBOL_SYMBOL_H
#define SONDE_CLIENTS_CLI_VERBS_SYMBOL_SYMBOL_H

#include "clients/cli/service.h"

struct symbol_settings {
    struct service_settings service;
    bool json, returns, list;
    const char *build_id, *evict, *upload;
    uint64_t wait_ms;
};

/* Each makes one call and prints the answer. */
typedef sonde_err symbol_action(struct service *service, const struct symbol_settings *settings,
                                struct sonde_diag *diag);
symbol_action symbol_list, symbol_evict, symbol_upload;

#endif
