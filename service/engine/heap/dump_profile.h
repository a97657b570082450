/* SPDX-License-Identifier: Apache-2.0
 *
 * From an allocator's dump to a profile for renderers: read and unbiased (api/profile/jemalloc.h),
 * every address named by the files that the dump says were mapped, and the allocator's own frames
 * taken off the leaf. The dump is hostile text. Thread safety: a worker. */
#ifndef SONDE_SERVICE_ENGINE_HEAP_DUMP_PROFILE_H
#define SONDE_SERVICE_ENGINE_HEAP_DUMP_PROFILE_H

#include "service/engine/engine.h"
#include "service/engine/heap/dump_text.h"
#include "service/engine/report/address_space.h"

#include "api/profile/profile.h"

#include <sys/types.h>

/* The executable ones of lines as in /proc/PID/maps, sorted; NULL when out of memory. */
struct generation *heap_mappings(struct sonde_slice lines);

/* *profile is the caller's to destroy, NULL on failure. pid: whose files they are. The dump's text
 * is let go as soon as it is read: dump is empty afterwards. */
SONDE_MUST_USE sonde_err heap_profile_build(struct engine *engine, pid_t pid,
                                            struct heap_text *dump, struct sonde_profile **profile,
                                            struct sonde_diag *diag);

/* Addresses named without their samples: raw has mappings and locations with addresses that lie
 * inside `mapped`. The profile has raw's types, and room for the samples. */
struct heap_located {
    struct sonde_profile *profile;
    uint32_t *locations; /* raw's id → its id there */
    bool *is_allocator;  /* by its id there: between malloc and the program's code */
};
SONDE_MUST_USE sonde_err heap_profile_locate(struct engine *engine, pid_t pid,
                                             const struct sonde_profile *raw,
                                             struct generation *mapped,
                                             struct heap_located *located, struct sonde_diag *diag);
void heap_located_finish(struct heap_located *located);

#endif
