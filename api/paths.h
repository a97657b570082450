/* SPDX-License-Identifier: Apache-2.0
 *
 * Where Sonde's programs meet when nobody says anything else. root uses /run/sonde and
 * /var/lib/sonde; everybody else $XDG_RUNTIME_DIR/sonde (when it is an absolute path, otherwise
 * /tmp/sonde-UID) and $HOME/.cache/sonde (or /tmp/sonde-UID/cache without a HOME). The guest holds
 * a copy of the rule for its socket, because it links nothing.
 *
 * The texts are static: "" when a path would be too long for a socket. Thread safety: any thread
 * after the first call returned; call them at the start of a program. */
#ifndef SONDE_API_PATHS_H
#define SONDE_API_PATHS_H

const char *sonde_default_guest_socket(void); /* /run/sonde/guest.sock */
const char *sonde_default_grpc_address(void); /* unix:/run/sonde/grpc.sock */
const char *sonde_default_data_dir(void);     /* /var/lib/sonde */

#endif
