/* SPDX-License-Identifier: Apache-2.0
 *
 * Made-up records for tests of the exporter. */
#ifndef SONDE_TESTS_EXPORT_RECORDS_H
#define SONDE_TESTS_EXPORT_RECORDS_H

#include "service/engine/record/heap_delta.h"
#include "service/engine/record/record.h"

/* Of process "shop", pid 4711, which has the labels team=blue and zone=a/1.
 *
 * CPU time: row i has the stack main ◀ work_i of the thread "worker" (tid 4712), or of the main
 * thread if i is even, and (i + 1) ms; the functions' names have at least name_bytes bytes. Row 0
 * also exists in the other thread, with 1 ms. number shifts the time by 10 s. */
struct record make_cpu_record(uint64_t number, uint64_t rows, uint64_t name_bytes);
/* The records of a snapshot of a heap: 100 objects of 10 bytes in use and (snapshot + 1) * 1000
 * bytes allocated by grow, and 70 bytes that hold allocated before the first snapshot. Returns 1,
 * or 2 with what was allocated since the snapshot before. The caller destroys their profiles. */
size_t make_heap_records(struct heap_delta *delta, int snapshot, uint64_t epoch,
                         struct record records[2]);
/* CPU time with labels trace_id and span_id: two stacks of one span, one of another, and one whose
 * span_id is not an id. */
struct record make_span_record(void);

#endif
