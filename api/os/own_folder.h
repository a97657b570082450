/* SPDX-License-Identifier: Apache-2.0
 *
 * Folders that anybody could have made first. /tmp/sonde-UID is where users without XDG_RUNTIME_DIR
 * have their sockets, and every user may make it, or a symbolic link of that name. Whoever owns it
 * could put a socket of their own there and pose as Sonde. Any thread. */
#ifndef SONDE_API_OS_OWN_FOLDER_H
#define SONDE_API_OS_OWN_FOLDER_H

#include "api/error.h"

/* Checks the folder of a file that Sonde makes or connects to. If everybody may write to the
 * folder's parent, the folder must be a directory of this user or of root, to which nobody else may
 * write; if it is missing, it is made with mode 0700. Other folders are the caller's matter.
 * `option` is what chooses another path, for the message. SONDE_PERMISSION_DENIED, SONDE_IO. */
SONDE_MUST_USE sonde_err own_folder_check(const char *file, const char *option,
                                          struct sonde_diag *diag);

#endif
