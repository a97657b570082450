/* SPDX-License-Identifier: Apache-2.0
 *
 * The controller as messages of sonde.v1.Controller. The messages are valid during the callback,
 * which runs with the controller's lock held. Thread safety: as report.h. */
#ifndef SONDE_CLIENTS_COLLECT_CONTROLLER_FLEET_H
#define SONDE_CLIENTS_COLLECT_CONTROLLER_FLEET_H

#include "clients/collect/controller/controller.h"
#include "proto/sonde/v1/controller.pb-c.h"

/* SONDE_OUT_OF_MEMORY: the callback was not called. */
SONDE_MUST_USE sonde_err fleet_describe(struct controller *controller,
                                        void (*take)(void *context, const Sonde__V1__Fleet *fleet),
                                        void *context);
/* name "" = all. SONDE_NOT_FOUND: no host has that name. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err fleet_list(struct controller *controller, const char *name,
                                    bool only_in_trouble,
                                    void (*take)(void *context,
                                                 const Sonde__V1__ListHostsResponse *hosts),
                                    void *context, struct sonde_diag *diag);
/* The kill switch; `who` is for the audit line. SONDE_INVALID_ARGUMENT (the reason), SONDE_IO. */
SONDE_MUST_USE sonde_err fleet_pause(struct controller *controller, bool is_paused,
                                     const char *reason, const char *who, struct sonde_diag *diag);

#endif
