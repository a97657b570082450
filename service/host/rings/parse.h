/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses one record of a perf ring. Nothing is read outside of its bytes, and no system call is
 * made. Thread safety: any thread. */
#ifndef SONDE_SERVICE_HOST_RINGS_PARSE_H
#define SONDE_SERVICE_HOST_RINGS_PARSE_H

#include "service/host/record.h"

#include <linux/perf_event.h>

/* What the events of perf_event.c put into their samples. PERF_SAMPLE_CALLCHAIN is added if they
 * sample the kernel, PERF_SAMPLE_ADDR with PARSE_ADDRESS, and PERF_SAMPLE_PERIOD is left out with
 * PARSE_NO_PERIOD. */
#define PARSE_SAMPLE_TYPE                                                        \
    (PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD | \
     PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER)

/* How the events of a ring write their samples. */
#define PARSE_KERNEL    1u /* with frames of the kernel */
#define PARSE_NO_PERIOD 2u /* without a weight, which the caller knows */
#define PARSE_ADDRESS   4u /* with the address of a page fault */

#define PARSE_MAX_BYTES 65536u /* of a record; its size has 16 bits */

enum parsed {
    PARSED_RECORD = 0,
    PARSED_NOTHING, /* a kind that nobody needs; `record` is undefined */
    PARSED_INVALID  /* breaks a rule of the format */
};

/* `bytes` is aligned to 8 and has `size` bytes, which are the record with its header. The record
 * that is returned points into them. The weight of a sample is the period that its event was
 * created with, or, at a rate, had then; 0 with PARSE_NO_PERIOD. `how`: bits PARSE_*. */
enum parsed parse_record(const uint8_t *bytes, size_t size, unsigned how,
                         struct host_record *record);
/* The time of a record of any kind; false if it is too short to have one. */
bool parse_time(const uint8_t *bytes, size_t size, uint64_t *time_ns);

#endif
