/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a private sonded, such as that of a `sonde run`, saves captures: in DATA/captures-of-PID,
 * apart from those of other services of the same data directory. PID is the process that started
 * it, so that a sonded that is restarted finds them. They are deleted at its exit. Main thread
 * only. */
#ifndef SONDE_SERVICE_PROGRAMS_PRIVATE_CAPTURES_H
#define SONDE_SERVICE_PROGRAMS_PRIVATE_CAPTURES_H

#define PRIVATE_CAPTURES_PATH 4096

/* Writes the path, and deletes the folders of processes that have ended. */
void private_captures_open(const char *data_dir, char path[PRIVATE_CAPTURES_PATH]);
/* Deletes the folder and its files. */
void private_captures_remove(const char *path);

#endif
