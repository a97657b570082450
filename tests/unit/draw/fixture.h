/* SPDX-License-Identifier: Apache-2.0
 *
 * Profiles the drawing tests share. Every one is built the same each time, so its drawings can be
 * compared to files.
 *
 *   server      a redis-like server: three threads, an inlined function, recursion, the kernel, an
 *               unnamed library frame
 *   empty       the same facts and mappings, no samples
 *   hostile     names with markup, control characters, broken UTF-8, quotes, "]]>", right-to-left
 *   diff        two sample types, now and before: one function grew, one shrank, one is as before
 *   memory      allocation sizes, every one counted
 *   heap        a sampled heap: four sample types, the allocator's frames at the leaves
 *   trimmed     the same without them
 *   heap_diff   the heap's inuse_space now and before
 *   empty_heap  a heap nobody allocated in
 *   large       8,000 samples over 3,000 functions */
#ifndef SONDE_TESTS_UNIT_DRAW_FIXTURE_H
#define SONDE_TESTS_UNIT_DRAW_FIXTURE_H

#include "api/draw/draw.h"

/* The caller destroys it; NULL when there is no fixture of that name. */
struct sonde_profile *fixture(const char *name);
/* The options its drawings are made with. */
struct sonde_draw_options fixture_options(const char *name);

#define FIXTURE_NAMES                                                                   \
    {                                                                                   \
        "server", "empty", "hostile", "diff", "memory", "heap", "trimmed", "heap_diff", \
            "empty_heap", "large"                                                       \
    }

#endif
