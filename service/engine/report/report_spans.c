/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/report/report_spans.h"

sonde_err report_spans_init(struct report_spans *spans, const struct stacks *stacks,
                            uint32_t count) {
    *spans = (struct report_spans){.stacks = stacks};
    hash_index_init(&spans->index);
    for (uint32_t i = 1; i < count; i++) {
        const struct stack_span *span = stable_vector_at(&stacks->spans, i);
        if (!hash_index_add(&spans->index, hash_index_words(&spans->index, span->request, 0), i))
            return SONDE_OUT_OF_MEMORY;
    }
    return SONDE_OK;
}

void report_spans_finish(struct report_spans *spans) {
    hash_index_finish(&spans->index);
}

const struct stack_span *report_spans_find(const struct report_spans *spans, uint64_t request) {
    struct hash_probe probe = hash_probe(hash_index_words(&spans->index, request, 0));
    uint32_t number;
    while ((number = hash_index_next(&spans->index, &probe)) != HASH_INDEX_NONE) {
        const struct stack_span *span = stable_vector_at(&spans->stacks->spans, number);
        if (span->request == request)
            return span;
    }
    return NULL;
}
