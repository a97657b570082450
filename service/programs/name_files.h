/* SPDX-License-Identifier: Apache-2.0
 *
 * Names for the frames of a history without an engine, from files by build-id: debug files of this
 * machine (/usr/lib/debug), and those that debuginfod servers have. One thread does the work.
 * Thread safety: any thread, except create and destroy. */
#ifndef SONDE_SERVICE_PROGRAMS_NAME_FILES_H
#define SONDE_SERVICE_PROGRAMS_NAME_FILES_H

#include "service/rpc/history/names.h"

struct name_files;

/* dir: for tables and fetched files; created if it is missing. NULL = they are not kept.
 * debuginfod: URLs separated by blanks; NULL or "" = none. SONDE_IO, SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err name_files_create(const char *dir, const char *debuginfod,
                                           struct name_files **files, struct sonde_diag *diag);
struct history_namer name_files_namer(struct name_files *files);
/* Ends what would keep rpc_server_destroy waiting for answers. NULL is fine. */
void name_files_end(struct name_files *files);
/* After rpc_server_destroy. NULL is fine. */
void name_files_destroy(struct name_files *files);

#endif
