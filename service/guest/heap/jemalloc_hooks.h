/* SPDX-License-Identifier: Apache-2.0
 *
 * Sonde's sampler in jemalloc's hooks (experimental.hooks.install, since jemalloc 5.2), for a
 * jemalloc whose calls cannot be patched: it is linked into the program, or it has a prefix and is
 * not what malloc is bound to. The hooks see every allocation with its size, so estimates are as
 * unbiased as those of the malloc wrappers; neither prof:true nor prof_accum is needed.
 *
 * While hooks are installed, jemalloc leaves its fast path in all threads: a malloc and its free
 * take about 40 ns more. So hooks are for windows of limited length only. They see no frees, hence
 * no live blocks. A hook may still be called shortly after its removal; the sampler is disabled by
 * then. Control thread only. */
#ifndef SONDE_SERVICE_GUEST_HEAP_JEMALLOC_HOOKS_H
#define SONDE_SERVICE_GUEST_HEAP_JEMALLOC_HOOKS_H

#include <stdbool.h>

#pragma GCC visibility push(hidden)

/* Whether there is such a jemalloc. Its mallctl must have been searched for (mallctl_find). */
bool jemalloc_hooks_are_possible(void);
bool jemalloc_hooks_are_on(void);
/* 0 or an errno: EAGAIN when the program uses all of jemalloc's hooks itself. */
int jemalloc_hooks_switch(bool on);

#pragma GCC visibility pop

#endif
