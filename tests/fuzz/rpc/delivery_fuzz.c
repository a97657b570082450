/* SPDX-License-Identifier: Apache-2.0
 *
 * Hostile deliveries: what passes the checks of History.Write must be within the store's bounds. */
#include "service/rpc/core/server_state.h"
#include "service/rpc/history/delivery.h"
#include "service/store/ids.h"

#include <stdlib.h>
#include <string.h>

static void must(bool condition) {
    if (!condition)
        abort();
}

static void check_window(const struct store_window *window) {
    must(window->weight > 0 && window->length_s >= 1 && window->length_s <= STORE_MAX_LENGTH);
    must(window->label_count <= STORE_MAX_LABELS && window->thread_count <= STORE_MAX_THREADS);
    must(window->service[0] && strlen(window->service) <= STORE_MAX_TEXT);
    for (uint32_t i = 0; i < window->label_count; i++)
        must(strlen(window->labels[i].key) + strlen(window->labels[i].value) <= 2 * STORE_MAX_TEXT);
    for (uint32_t i = 0; i < window->row_count; i++)
        must(window->thread[i] < window->thread_count);
}

static void check_frame(const struct store_frame *frame) {
    must(frame->line_count <= STORE_MAX_LINES && frame->kind <= SONDE_FRAME_NOTE);
    const char *name = frame->line_count ? frame->lines[frame->line_count - 1].function : "";
    must(store_frame_id(frame->build_id, frame->module, frame->address, name) == frame->id);
    for (uint32_t i = 0; i < frame->line_count; i++)
        must(strlen(frame->lines[i].function) <= STORE_MAX_SYMBOL);
}

static void check_batch(const struct store_batch *batch) {
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sonde_arena message = {0}, arena = {0};
    struct sonde_diag diag = {0};
    struct history_delivery delivery;
    ProtobufCMessage *request = NULL;
    if (rpc_decode_bytes(data, size, &sonde__v1__write_request__descriptor, &message, &request,
                         &diag) == SONDE_OK &&
        history_delivery_read((const void *)request, &arena, &delivery, &diag) == SONDE_OK)
        check_batch(&delivery.batch);
    sonde_arena_finish(&arena);
    sonde_arena_finish(&message);
    return 0;
}
