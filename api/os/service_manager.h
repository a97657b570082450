/* SPDX-License-Identifier: Apache-2.0
 *
 * What the programs say to the service manager that started them, systemd or one that speaks its
 * protocol: one datagram per message to the socket NOTIFY_SOCKET (sd_notify(3)). Without that
 * variable nothing is sent. Thread safety: any thread, after the environment is complete. */
#ifndef SONDE_API_OS_SERVICE_MANAGER_H
#define SONDE_API_OS_SERVICE_MANAGER_H

#include <stdbool.h>

void service_manager_ready(void);     /* it serves, or it has finished reloading */
void service_manager_reloading(void); /* service_manager_ready follows */
void service_manager_stopping(void);

/* Whether SIGHUP means that the terminal is gone, and not a request to reload. A daemon has no
 * terminal. Call it before confine_process, which can refuse to open one. */
bool service_manager_has_terminal(void);

#endif
