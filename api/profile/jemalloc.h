/* SPDX-License-Identifier: Apache-2.0
 *
 * jemalloc's heap dump (the text that prof.dump writes, "heap_v2/<mean bytes between samples>") as
 * a profile of estimates.
 *
 * A dump holds samples, and a sample of a small allocation stands for many: each stack's line is
 * scaled by 1 / (1 - exp(-(bytes / objects) / R)), R from the header, before anything is summed
 * (jemalloc's doc_internal/PROFILING_INTERNALS.md derives it; jeprof does the same). The header's
 * own totals are never scaled and not used. Sample types in Go's order: alloc_objects, alloc_space
 * when the dump counted them (prof_accum), then inuse_objects, inuse_space, which viewers show
 * first.
 *
 * The text is hostile: lines, depth and sizes are bounded; the diag names the line. Addresses are
 * those of the dump, leaf first, return addresses moved back into their call (minus one, but for
 * the leaf, which jemalloc's own code is). Thread safety: any thread. */
#ifndef SONDE_API_PROFILE_JEMALLOC_H
#define SONDE_API_PROFILE_JEMALLOC_H

#include "api/profile/profile.h"

/* True when bytes start as such a dump does. */
bool sonde_jemalloc_is_dump(struct sonde_slice bytes);

/* *profile is the caller's to destroy; NULL on failure. SONDE_CORRUPT, SONDE_TOO_LARGE,
 * SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err sonde_jemalloc_read(struct sonde_slice bytes, size_t limit_bytes,
                                             struct sonde_profile **profile,
                                             struct sonde_diag *diag);

#endif
