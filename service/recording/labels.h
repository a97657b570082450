/* SPDX-License-Identifier: Apache-2.0
 *
 * The labels of a process in history: "executable", "cgroup", "container" and "pod" as far as they
 * are known, and those that the process has in its environment, SONDE_LABELS=name=value,...
 *
 * Containers are found by the cgroup's path (service/host/processes/cgroup.h), and pods, too: the
 * kubelet's "pod" and a UID. Thread safety: any thread. */
#ifndef SONDE_SERVICE_RECORDING_LABELS_H
#define SONDE_SERVICE_RECORDING_LABELS_H

#include "api/bytes.h"
#include "service/store/store.h"

#define LABELS_OF_PROCESS 32 /* pairs in SONDE_LABELS */
#define LABELS_NAME       64 /* bytes of a name; it consists of letters, digits, and _ . - / */
#define LABELS_VALUE      256
#define LABELS_MAX        (LABELS_OF_PROCESS + 4)

struct labels {
    struct store_label items[LABELS_MAX];
    uint32_t count;
    uint32_t refused; /* pairs of SONDE_LABELS that are malformed, reserved or too many */
};

/* declared: the value of SONDE_LABELS. If it has as many bytes as fit (limit), its last pair may be
 * cut and is refused. The texts are in the arena. */
void labels_of(const char *executable, const char *cgroup, const char *declared, size_t limit,
               struct sonde_arena *arena, struct labels *labels);

#endif
