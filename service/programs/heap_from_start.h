/* SPDX-License-Identifier: Apache-2.0
 *
 * The setting enable-heap-profiling: jemalloc's profiling of each target that attaches is switched
 * on as soon as it is there, if it was started with prof:true. Where that cannot be there is one
 * line, and the target runs on. Thread safety: one thread begins and ends it. */
#ifndef SONDE_SERVICE_PROGRAMS_HEAP_FROM_START_H
#define SONDE_SERVICE_PROGRAMS_HEAP_FROM_START_H

#include "service/engine/engine.h"

/* *watch is given back to engine_unwatch. log gets a line without its end, on threads of the
 * engine. */
SONDE_MUST_USE sonde_err heap_from_start(struct engine *engine, void (*log)(const char *line),
                                         struct engine_watch **watch);

#endif
