/* SPDX-License-Identifier: Apache-2.0
 *
 * What periodic dumps leave behind when their process has ended: a directory "<pid>-<uuid>" a
 * process, which somebody may still want to look at (heap_ended.c), just after a crash. The
 * newest are kept, within three bounds. That a process lives is taken from the kernel and not from
 * who is attached: after a restart of sonded its guest may not be back yet. */
#ifndef SONDE_SERVICE_ENGINE_HEAP_DUMP_RETENTION_H
#define SONDE_SERVICE_ENGINE_HEAP_DUMP_RETENTION_H

#include <stdbool.h>
#include <stdint.h>

#define HEAP_SWEEP_AGE_NS (7ll * 86400 * 1000000000) /* since the last change */
#define HEAP_SWEEP_COUNT  32u
#define HEAP_SWEEP_BYTES  (1ull << 30)

struct heap_sweep_limits {
    int64_t age_ns;
    uint32_t count; /* directories */
    uint64_t bytes; /* of all of them */
};

/* Removes what is past the limits of `dir`, where the directories lie; of each only the files that
 * are ours. Worker: one at a time, beside whoever writes dumps of living processes. Returns how
 * many directories are gone. */
uint32_t heap_sweep(const char *dir, const struct heap_sweep_limits *limits);

/* When the process of that pid began, in ticks since boot; 0 = there is none. The state file keeps
 * it, to tell a process from a later one with its pid. */
uint64_t heap_sweep_ticks(int32_t pid);
/* Whether the process lives whose directory `name` of `dir` is. */
bool heap_sweep_is_alive(int dir, const char *name, int32_t pid);
/* "<digits>-<hexadecimal>". */
bool heap_sweep_parse_name(const char *name, int32_t *pid);

#endif
