/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the span that a sample's request number stands for. The engine thread may add spans
 * meanwhile, so a report has an index of its own over those that were there when it was started.
 * Thread safety: one thread at a time. */
#ifndef SONDE_SERVICE_ENGINE_REPORT_REPORT_SPANS_H
#define SONDE_SERVICE_ENGINE_REPORT_REPORT_SPANS_H

#include "service/engine/report/stacks.h"

struct report_spans {
    const struct stacks *stacks;
    struct hash_index index;
};

/* count: of the stacks' spans, as the report's input has it. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err report_spans_init(struct report_spans *spans, const struct stacks *stacks,
                                           uint32_t count);
/* Zeroed memory is fine, too. */
void report_spans_finish(struct report_spans *spans);
/* NULL = the number is the program's own. */
const struct stack_span *report_spans_find(const struct report_spans *spans, uint64_t request);

#endif
