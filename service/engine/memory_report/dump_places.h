/* SPDX-License-Identifier: Apache-2.0
 *
 * Rewrites a jemalloc dump of the guest's so that each of its addresses means one thing
 * (heap_places.h), and takes the tags of our backtrace out (alloc_table.h). The result is a dump
 * like any other and needs nothing that sonded remembers. Thread safety: a worker. */
#ifndef SONDE_SERVICE_ENGINE_MEMORY_REPORT_DUMP_PLACES_H
#define SONDE_SERVICE_ENGINE_MEMORY_REPORT_DUMP_PLACES_H

#include "service/engine/memory_report/dump_text.h"
#include "service/engine/report/mapping_lives.h"

/* Leaves the text as it is if there is nothing to do. lives: NULL = none are known.
 * SONDE_OUT_OF_MEMORY, SONDE_TOO_LARGE past HEAP_TEXT_MAX. */
SONDE_MUST_USE sonde_err heap_dump_settle(struct heap_text *text, const struct mapping_lives *lives,
                                          struct sonde_diag *diag);

#endif
