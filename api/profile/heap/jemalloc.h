/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads jemalloc's heap dump (the text that prof.dump writes, "heap_v2/<mean bytes between
 * samples>").
 *
 * A dump has samples; the profile has estimates of the totals. Each stack's numbers are scaled by
 * 1 / (1 - exp(-(bytes / objects) / R)) before they are added, where R is the mean distance from
 * the header (derived in jemalloc's doc_internal/PROFILING_INTERNALS.md; jeprof does the same). The
 * header's totals are not used. The sample types are in Go's order: alloc_objects and alloc_space
 * if the dump has them (prof_accum), then inuse_objects and inuse_space, the default.
 *
 * The input is hostile: lines, depth and sizes are bounded. Stacks are leaf first. Return addresses
 * are decremented into their call, except the leaf, which is in jemalloc. Thread safety: any
 * thread. */
#ifndef SONDE_API_PROFILE_HEAP_JEMALLOC_H
#define SONDE_API_PROFILE_HEAP_JEMALLOC_H

#include "api/profile/profile.h"

/* Whether bytes begin like a dump. */
bool sonde_jemalloc_is_dump(struct sonde_slice bytes);

/* The caller destroys *profile, which is NULL on failure. Errors: SONDE_CORRUPT (diag has the
 * line), SONDE_TOO_LARGE, SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err sonde_jemalloc_read(struct sonde_slice bytes, size_t limit_bytes,
                                             struct sonde_profile **profile,
                                             struct sonde_diag *diag);

#endif
