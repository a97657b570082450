/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of a Kubernetes container, which its cgroup does not have. The kubelet makes
 *
 *     /var/log/pods/NAMESPACE_POD_UID/                          a directory for each pod
 *     /var/log/containers/POD_NAMESPACE_CONTAINER-ID.log        a link for each container
 *
 * and removes them with the pod. Only the names in these two directories are read, once after each
 * change. Thread safety: any thread. */
#ifndef SONDE_SERVICE_HOST_PROCESSES_POD_NAMES_H
#define SONDE_SERVICE_HOST_PROCESSES_POD_NAMES_H

#define POD_NAMESPACE_BYTES 64 /* with the zero byte; Kubernetes allows 63 */
#define POD_NAME_BYTES      254
#define POD_MAX_ENTRIES     4096 /* that are read of a directory; a node has about 110 pods */

struct pod_names {
    char namespace_name[POD_NAMESPACE_BYTES];
    char pod[POD_NAME_BYTES];
    char container[POD_NAMESPACE_BYTES];
};

struct pod_directories; /* the two directories as they were last read */

/* Of this machine. */
extern struct pod_directories pod_directories_of_node;

/* Names of a pod by its UID, and of a container by its id. "" = unknown. */
void pod_names_find(struct pod_directories *directories, const char *uid, const char *container_id,
                    struct pod_names *names);

/* For tests: the same with other directories. They must outlive it. */
struct pod_directories *pod_directories_create(const char *pods, const char *containers);
void pod_directories_destroy(struct pod_directories *directories);

#endif
