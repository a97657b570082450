/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns a jemalloc dump into a profile: parses it and corrects the sampling bias
 * (api/profile/heap/jemalloc.h), names every address using the files that the dump lists as mapped,
 * and removes the allocator's frames from the leaf unless they are wanted. The dump is hostile
 * text. Thread safety: a worker. */
#ifndef SONDE_SERVICE_ENGINE_MEMORY_REPORT_DUMP_PROFILE_H
#define SONDE_SERVICE_ENGINE_MEMORY_REPORT_DUMP_PROFILE_H

#include "service/engine/engine.h"
#include "service/engine/memory_report/dump_text.h"
#include "service/engine/report/address_space.h"
#include "service/engine/report/mapping_lives.h"
#include "service/process/process_identity.h"

#include "api/profile/profile.h"

/* The executable mappings of lines in the format of /proc/PID/maps, sorted; NULL when out of
 * memory. */
struct generation *heap_mappings(struct sonde_slice lines);
/* The lines of a dump that list its mappings; empty if there are none. */
struct sonde_slice heap_mapped_libraries(struct sonde_slice dump);

/* The caller destroys *profile, which is NULL on failure. The files of `process` are named; lives:
 * those of its mappings, NULL = none are known. The dump's text is freed as soon as it has been
 * parsed, so `dump` is empty afterwards. */
SONDE_MUST_USE sonde_err heap_profile_build(struct engine *engine,
                                            const struct process_identity *process,
                                            const struct mapping_lives *lives,
                                            struct heap_text *dump, bool keep_frames,
                                            struct sonde_profile **profile,
                                            struct sonde_diag *diag);

/* Names addresses without samples: `raw` has mappings, and locations with addresses inside
 * `mapped`. The new profile has the types of `raw`; its samples are added later. is_built_in:
 * stacks may start in the code of an allocator that is part of the program. */
struct heap_located {
    struct sonde_profile *profile;
    uint32_t *locations; /* id in raw → id in the new profile */
    /* By the new id: what stands for the location at the leaf, without the frames between malloc
     * and the program's code. 0 = nothing. NULL if the frames are kept. */
    uint32_t *leaves;
};
SONDE_MUST_USE sonde_err heap_profile_locate(struct engine *engine,
                                             const struct process_identity *process,
                                             const struct sonde_profile *raw,
                                             struct generation *mapped, bool is_built_in,
                                             bool keep_frames, struct heap_located *located,
                                             struct sonde_diag *diag);
void heap_located_finish(struct heap_located *located);

#endif
