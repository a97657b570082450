/* SPDX-License-Identifier: Apache-2.0
 *
 * From an allocator's dump to a profile for renderers: read and unbiased (api/profile/jemalloc.h),
 * every address named by the files that the dump says were mapped, and the allocator's own frames
 * taken off the leaf. The dump is hostile text. Thread safety: a worker. */
#ifndef SONDE_SERVICE_ENGINE_HEAP_PROFILE_H
#define SONDE_SERVICE_ENGINE_HEAP_PROFILE_H

#include "service/engine/engine.h"
#include "service/engine/maps.h"

#include "api/profile/profile.h"

#include <sys/types.h>

/* The executable ones of lines as in /proc/PID/maps, sorted; NULL when out of memory. */
struct generation *heap_mappings(struct sonde_slice lines);

/* *profile is the caller's to destroy, NULL on failure. pid: whose files they are. The dump's text,
 * 70 MB for 100,000 stacks, is freed as soon as it is read: dump is empty afterwards. */
SONDE_MUST_USE sonde_err heap_profile_build(struct engine *engine, pid_t pid,
                                            struct sonde_buf *dump, struct sonde_profile **profile,
                                            struct sonde_diag *diag);

/* The same for a profile whose locations have addresses only, which lie inside `mapped`. */
SONDE_MUST_USE sonde_err heap_profile_name(struct engine *engine, pid_t pid,
                                           const struct sonde_profile *raw,
                                           struct generation *mapped,
                                           struct sonde_profile **profile, struct sonde_diag *diag);

#endif
