/* SPDX-License-Identifier: Apache-2.0
 *
 * What a batch made from a message of another machine must hold. */
#ifndef SONDE_TESTS_FUZZ_RPC_CHECK_BATCH_H
#define SONDE_TESTS_FUZZ_RPC_CHECK_BATCH_H

#include "service/store/ids.h"
#include "service/store/store.h"

#include <stdlib.h>
#include <string.h>

static inline void must(bool condition) {
    if (!condition)
        abort();
}

static inline void check_window(const struct store_window *window) {
    must(window->weight > 0 && window->length_s >= 1 && window->length_s <= STORE_MAX_LENGTH);
    must(window->label_count <= STORE_MAX_LABELS && window->thread_count <= STORE_MAX_THREADS);
    must(window->service[0] && strlen(window->service) <= STORE_MAX_TEXT);
    for (uint32_t i = 0; i < window->label_count; i++)
        must(strlen(window->labels[i].key) + strlen(window->labels[i].value) <= 2 * STORE_MAX_TEXT);
    for (uint32_t i = 0; i < window->row_count; i++)
        must(window->thread[i] < window->thread_count);
}

static inline void check_frame(const struct store_frame *frame) {
    must(frame->line_count <= STORE_MAX_LINES && frame->kind <= SONDE_FRAME_NOTE);
    const char *name = frame->line_count ? frame->lines[frame->line_count - 1].function : "";
    must(store_frame_id(frame->build_id, frame->module, frame->address, name) == frame->id);
    for (uint32_t i = 0; i < frame->line_count; i++)
        must(strlen(frame->lines[i].function) <= STORE_MAX_SYMBOL);
}

static inline void check_batch(const struct store_batch *batch) {
    for (size_t i = 0; i < batch->window_count; i++)
        check_window(&batch->windows[i]);
    for (size_t i = 0; i < batch->stack_count; i++) {
        const struct store_stack *stack = &batch->stacks[i];
        must(stack->frame_count <= STORE_MAX_DEPTH);
        must(store_stack_id(stack->service, stack->frames, stack->frame_count) == stack->id);
    }
    for (size_t i = 0; i < batch->frame_count; i++)
        check_frame(&batch->frames[i]);
    for (size_t i = 0; i < batch->total_count; i++)
        must(strlen(batch->totals[i].process) <= STORE_MAX_TEXT && batch->totals[i].length_s);
}

#endif
