/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounds what periodic dumps leave behind when their process has ended: one directory
 * "<pid>-<uuid>" per process, which users may still want to read (ended_dumps.c), above all after a
 * crash. Three limits apply, and the newest directories are kept. Whether a process lives is asked
 * of the kernel, because after a restart of sonded its guest may not have attached again yet. */
#ifndef SONDE_SERVICE_ENGINE_HEAP_DUMP_RETENTION_H
#define SONDE_SERVICE_ENGINE_HEAP_DUMP_RETENTION_H

#include <stdbool.h>
#include <stdint.h>

#define HEAP_SWEEP_AGE_NS (7ll * 86400 * 1000000000) /* age since the last change */
#define HEAP_SWEEP_COUNT  32u
#define HEAP_SWEEP_BYTES  (1ull << 30)

struct heap_sweep_limits {
    int64_t age_ns;
    uint32_t count; /* number of directories */
    uint64_t bytes; /* in all directories together */
};

/* Removes directories in `dir` past the limits, deleting only files that are ours. Returns how many
 * it removed. Worker, one at a time; others may write dumps of living processes meanwhile. */
uint32_t heap_sweep(const char *dir, const struct heap_sweep_limits *limits);

/* The start time of the process in ticks since boot; 0 = no such process. The state file stores it
 * to distinguish the process from a later one with the same pid. */
uint64_t heap_sweep_ticks(int32_t pid);
/* Whether the process of directory `name` in `dir` is alive. */
bool heap_sweep_is_alive(int dir, const char *name, int32_t pid);
/* "<digits>-<hexadecimal>". */
bool heap_sweep_parse_name(const char *name, int32_t *pid);

#endif
