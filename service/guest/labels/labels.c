/* SPDX-License-Identifier: Apache-2.0
 *
 * Labels and extra stacks that a program declares (api/sonde.h). Each function finds a place in a
 * fixed table by compare-and-swap, or gives up: all are wait-free and signal-safe. */
#include "api/sonde.h"

#include "service/guest/held.h"
#include "service/guest/signal/handler_state.h"

#include <errno.h>
#include <string.h>

enum { FREE, WRITING, READY };

/* sonded samples a program from outside, where labels are not seen, unless it uses them. */
static void note_use(void) {
    if (!atomic_load_explicit(&handler_state.uses_labels, memory_order_relaxed) &&
        !atomic_exchange(&handler_state.uses_labels, true) && !held_from_calls())
        handler_wake_control();
}

void sonde_label_request(uint64_t id) {
    if (id)
        note_use();
    thread_tags.request = id;
}

static bool holds_text(const struct thread_label *label, const char *text, size_t len) {
    return memcmp(label->text, text, len) == 0 && label->text[len] == 0;
}

/* Hashed by the text, so that equal texts share a row. A row that another thread is writing is
 * skipped: at worst, a text takes two rows. */
static uint32_t label_of(const char *text, size_t len) {
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (uint8_t)text[i]) * 16777619u;
    for (uint32_t i = 0; i < THREAD_LABELS_MAX; i++) {
        uint32_t row = (hash + i) % THREAD_LABELS_MAX, state = FREE;
        struct thread_label *label = &handler_state.labels[row];
        if (atomic_compare_exchange_strong(&label->state, &state, WRITING)) {
            memcpy(label->text, text, len);
            label->text[len] = 0;
            atomic_store_explicit(&label->state, READY, memory_order_release);
            return row + 1;
        }
        if (state == READY && holds_text(label, text, len))
            return row + 1;
    }
    return 0;
}

void sonde_label_thread(const char *text) {
    size_t len = text ? strnlen(text, THREAD_LABEL_BYTES - 1) : 0;
    if (len)
        note_use();
    thread_tags.label = len ? label_of(text, len) : 0;
}

int sonde_stack_add(const void *low, size_t size) {
    uint64_t start = (uint64_t)low;
    if (!start || size < 64 || start + size < start)
        return EINVAL;
    for (uint32_t i = 0; i < EXTRA_STACKS_MAX; i++) {
        uint64_t none = 0;
        if (!atomic_compare_exchange_strong(&handler_state.stacks[i].low, &none, UINT64_MAX))
            continue;
        atomic_store_explicit(&handler_state.stacks[i].high, start + size, memory_order_relaxed);
        atomic_store_explicit(&handler_state.stacks[i].low, start, memory_order_release);
        uint32_t count = atomic_load(&handler_state.stack_count);
        while (count < i + 1 &&
               !atomic_compare_exchange_weak(&handler_state.stack_count, &count, i + 1))
            continue;
        return 0;
    }
    return ENOSPC;
}

void sonde_stack_remove(const void *low) {
    uint32_t count = atomic_load(&handler_state.stack_count);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t start = (uint64_t)low;
        if (start && atomic_compare_exchange_strong(&handler_state.stacks[i].low, &start, 0))
            return;
    }
}
