/* SPDX-License-Identifier: Apache-2.0
 *
 * The default paths by which Sonde's programs find each other. root uses /run/sonde and
 * /var/lib/sonde. Other users use $XDG_RUNTIME_DIR/sonde (/tmp/sonde-UID if that is not an absolute
 * path) and $HOME/.cache/sonde (/tmp/sonde-UID/cache without HOME). The guest has its own copy of
 * the rule for its socket, because it links no library.
 *
 * The texts are static; "" if a path is too long for a socket. Thread safety: call each function
 * once at the start of a program; then any thread. */
#ifndef SONDE_API_OS_PATHS_H
#define SONDE_API_OS_PATHS_H

const char *sonde_default_guest_socket(void);    /* /run/sonde/guest.sock */
const char *sonde_default_grpc_address(void);    /* unix:/run/sonde/grpc.sock */
const char *sonde_default_history_address(void); /* unix:/run/sonde/history.sock */
const char *sonde_default_data_dir(void);        /* /var/lib/sonde */

#endif
