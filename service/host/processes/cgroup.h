/* SPDX-License-Identifier: Apache-2.0
 *
 * The cgroup of a process: the longest path in /proc/PID/cgroup. On cgroup v2 there is one; on v1
 * the longest is that of the controllers which the container runtime uses.
 *
 * A reader in a cgroup namespace of its own, as containers have, sees paths relative to its own
 * cgroup: "/../../system.slice/redis.service". Any thread. */
#ifndef SONDE_SERVICE_HOST_PROCESSES_CGROUP_H
#define SONDE_SERVICE_HOST_PROCESSES_CGROUP_H

#include <sys/types.h>

#define CGROUP_BYTES           512
#define CGROUP_CONTAINER_BYTES 65

/* "" if the process is gone or in the root cgroup, or if the path is longer. */
void cgroup_read(pid_t pid, char path[CGROUP_BYTES]);
/* The same from the contents of the file. */
void cgroup_parse(const char *text, char path[CGROUP_BYTES]);
/* The path without the ".." of a relative one; what those stand for is unknown. */
const char *cgroup_without_parents(const char *path);
/* The innermost container in a path: the 64 hexadecimal digits with which Docker, Podman,
 * containerd and CRI-O name one, or the name of an LXC or systemd-nspawn container in plain ASCII.
 * "" = none. */
void cgroup_container(const char *path, char id[CGROUP_CONTAINER_BYTES]);

#endif
