/* SPDX-License-Identifier: Apache-2.0
 *
 * The directory where the processes that read files for one command (`sonded --perf-data`) find and
 * leave tables. Main thread only. */
#ifndef SONDE_API_SETTINGS_OWN_DATA_DIR_H
#define SONDE_API_SETTINGS_OWN_DATA_DIR_H

/* SONDE_DATA_DIR, else this user's default (paths.h); made if it is missing. NULL: it cannot be
 * used, so tables are made again for each file. Static. */
const char *own_data_dir(void);

#endif
