/* SPDX-License-Identifier: Apache-2.0
 *
 * Profiles for the drawing tests. They are deterministic, so drawings can be compared with files.
 *
 *   server      a redis-like server: three threads, an inlined function, recursion, the kernel, an
 *               unnamed library frame
 *   faults      page faults, one sample for 64 of them
 *   empty       the same metadata and mappings, no samples
 *   hostile     names with markup, control characters, invalid UTF-8, quotes, "]]>", right-to-left
 *   diff        two sample types, now and before: one function grew, one shrank, one did not change
 *   memory      allocations, each of which was sampled
 *   heap        a sampled heap: four sample types, the allocator's frames at the leaves
 *   trimmed     heap without these frames
 *   grown       trimmed, later: grow_table holds three times as much, a library nothing
 *   heap_diff   inuse_space of the heap now and before
 *   empty_heap  a heap without samples
 *   version_1, version_2  a server in two builds with different file names: one function is slower,
 *               one was added and one removed
 *   large       8,000 samples over 3,000 functions */
#ifndef SONDE_TESTS_UNIT_DRAW_FIXTURE_H
#define SONDE_TESTS_UNIT_DRAW_FIXTURE_H

#include "api/draw/draw.h"

/* The caller destroys it; NULL if there is no fixture of that name. */
struct sonde_profile *fixture(const char *name);
/* The options to draw it with. */
struct sonde_draw_options fixture_options(const char *name);

#define FIXTURE_NAMES                                                                   \
    {                                                                                   \
        "server", "empty", "hostile", "diff", "memory", "heap", "trimmed", "heap_diff", \
            "empty_heap", "large", "faults"                                             \
    }

#endif
