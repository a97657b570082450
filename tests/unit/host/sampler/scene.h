/* SPDX-License-Identifier: Apache-2.0
 *
 * The real sonde-sampler, in a folder that other users can reach. */
#ifndef SONDE_TESTS_UNIT_HOST_SAMPLER_SCENE_H
#define SONDE_TESTS_UNIT_HOST_SAMPLER_SCENE_H

#include "service/host/sampler/sampler.h"

#define NOBODY 65534

/* Copies the program, with this mode and group, and with file capabilities. Returns its path. Skips
 * the test if this is not root, or the file system takes no capabilities. */
const char *scene_program(unsigned mode, gid_t group, bool has_capabilities);
/* Runs a function in a child, as nobody if asked for. Returns its result, 0 to 99. */
int scene_in_child(bool as_nobody, int (*run)(const char *program), const char *program);
/* The processes that the sampler's program has forked; 0 = none. */
pid_t scene_worker(pid_t program);
pid_t scene_opener(pid_t program);
uint64_t scene_status(pid_t pid, const char *field); /* of /proc/PID/status, in hex */

#endif
