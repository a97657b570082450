/* SPDX-License-Identifier: Apache-2.0
 *
 * The path under which a program runs, where its file has several. redis-server is a link to
 * redis-check-rdb on Debian; the kernel's maps have the file's own name, but users know the one
 * that ps shows. Thread safety: any thread, between process_rights_take and _drop. */
#ifndef SONDE_SERVICE_ENGINE_REPORT_PROGRAM_NAME_H
#define SONDE_SERVICE_ENGINE_REPORT_PROGRAM_NAME_H

#include "service/process/process_identity.h"

/* `path` with the base name of the process's argv[0] instead of its own, if that is the same file
 * in the same directory. NULL if the name is the file's own anyway, or out of memory; otherwise the
 * caller frees it. */
char *program_name_path(const struct process_identity *process, const char *path);

#endif
