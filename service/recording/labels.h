/* SPDX-License-Identifier: Apache-2.0
 *
 * The labels of a process in history, as far as they are known:
 *
 *     executable
 *     cgroup, unit, container    its path, and the innermost service of systemd and container in it
 *     pod                        the UID, which the kubelet writes into the path behind "pod"
 *     namespace, pod_name, container_name    of that pod (service/host/processes/pod_names.h)
 *
 * and those that the process has in its environment, SONDE_LABELS=name=value,...
 *
 * Thread safety: any thread. */
#ifndef SONDE_SERVICE_RECORDING_LABELS_H
#define SONDE_SERVICE_RECORDING_LABELS_H

#include "api/bytes.h"
#include "service/engine/record/record.h"
#include "service/host/processes/pod_names.h"
#include "service/store/store.h"

#define LABELS_OF_PROCESS 32 /* pairs in SONDE_LABELS */
#define LABELS_NAME       64 /* bytes of a name; it consists of letters, digits, and _ . - / */
#define LABELS_VALUE      256
#define LABELS_MAX        (LABELS_OF_PROCESS + 8)

struct labels {
    struct store_label items[LABELS_MAX];
    uint32_t count;
    uint32_t refused; /* pairs of SONDE_LABELS that are malformed, reserved or too many */
};

struct labels_source {
    const char *executable;
    const char *cgroup;   /* its path */
    const char *declared; /* the value of SONDE_LABELS */
    size_t limit;         /* if declared has as many bytes, its last pair may be cut: refused */
    struct pod_directories *pods; /* NULL = the names of pods are unknown */
};

/* The texts are in the arena. */
void labels_of(const struct labels_source *source, struct sonde_arena *arena,
               struct labels *labels);
void labels_of_record(const struct record *record, struct sonde_arena *arena,
                      struct labels *labels);

#endif
