/* SPDX-License-Identifier: Apache-2.0
 *
 * The call tree as DeepFlow's ProfileTracing names it, for both of its formats.
 *
 * The root is the service: the title, or the program if there is none. The second layer is the
 * thread, "[t] name", or the process, "[p] name", if the thread is the main thread. Below are the
 * frames: "[k] name" in the kernel, "[l] name" in a shared object, "name" in the program,
 * "[/path/file]" for an unnamed address of a known file, "[unknown] 0x%016x", and
 * "[unknown start_thread?]" for an unknown address that starts a thread. A ';' in a name is a ':'.
 *
 * Values are microseconds or bytes, rounded so that every total is exactly the node's own value
 * plus the totals of its children, and at most one unit from the truth. Frames of the tree are
 * equal if their names are. Internal to api/draw/formats. */
#ifndef SONDE_API_DRAW_FORMATS_DEEPFLOW_H
#define SONDE_API_DRAW_FORMATS_DEEPFLOW_H

#include "api/draw/tree.h"

/* What begins a name. */
#define DEEPFLOW_PROCESS "[p] "
#define DEEPFLOW_THREAD  "[t] "
#define DEEPFLOW_KERNEL  "[k] "
#define DEEPFLOW_LIBRARY "[l] "

/* The root's total is 0 if there are no samples. */
SONDE_MUST_USE sonde_err deepflow_tree_build(const struct sonde_profile *profile,
                                             const struct sonde_draw_options *options,
                                             struct draw_tree **tree, struct sonde_diag *diag);
/* Whether the tree has bytes, not times. */
bool deepflow_is_memory(const struct sonde_profile *profile,
                        const struct sonde_draw_options *options);

#endif
