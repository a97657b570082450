/* SPDX-License-Identifier: Apache-2.0
 *
 * What sonded's program does instead of serving: it is also its own confined workers, and the
 * processes that read files for one command. Main thread only. */
#ifndef SONDE_SERVICE_SONDED_JOBS_H
#define SONDE_SERVICE_SONDED_JOBS_H

/* Call it first in main, before any thread is started. Does the job that the arguments ask for and
 * exits; returns if they ask for none. */
void sonded_jobs(int argc, char **argv);

#endif
