/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/guest/heap/sampler_fixture.h"

#include "service/guest/heap/alloc_backtrace.h"
#include "service/guest/heap/sample_table.h"
#include "service/guest/heap/sampler.h"
#include "service/guest/heap/sampler_control.h"
#include "service/guest/signal/handler_state.h"

#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static int want(enum interposer_use use, uint64_t mean, double probability) {
    int error = interposer_want(use, &(struct interposer_wish){mean, probability});
    return error ? error : interposer_begin();
}

EXPORT int door_open(uint64_t mean, double probability) {
    return want(INTERPOSER_HEAP, mean, probability);
}

EXPORT int door_open_windows(uint64_t mean, double probability) {
    return want(INTERPOSER_ALLOCS, mean, probability);
}

EXPORT void door_close(void) {
    (void)want(INTERPOSER_HEAP, 0, 0);
}

EXPORT void door_close_windows(void) {
    (void)want(INTERPOSER_ALLOCS, 0, 0);
}

EXPORT void door_forget(void) {
    interposer_forget();
}

EXPORT void door_look(void) {
    (void)interposer_tick(INT64_MAX);
}

/* As sonded sees it. */
static const uint8_t *map(void) {
    void *base = mmap(NULL, ALLOC_BYTES, PROT_READ, MAP_SHARED, samples_fd(), 0);
    return base == MAP_FAILED ? NULL : base;
}

EXPORT struct door_totals door_totals_of(const void *low, const void *high) {
    struct door_totals totals = {0};
    const uint8_t *base = map();
    if (!base)
        return totals;
    const struct alloc_header *header = (const struct alloc_header *)base;
    const _Atomic uint32_t *slots = (const _Atomic uint32_t *)(base + ALLOC_SLOTS_AT);
    totals.samples = header->samples;
    for (int i = 0; i < ALLOC_DROP_COUNT; i++)
        totals.drops[i] = header->drops[i];
    for (uint32_t i = 0; i < ALLOC_STACK_SLOTS; i++) {
        const struct alloc_stack *stack =
            (const struct alloc_stack *)(base + ALLOC_STACKS_AT + slots[i] * 8ull);
        if (!slots[i] || stack->pcs[0] < (uint64_t)low || stack->pcs[0] >= (uint64_t)high)
            continue;
        totals.stacks++;
        totals.objects += alloc_double(stack->objects);
        totals.bytes += alloc_double(stack->bytes);
    }
    const struct alloc_entry *entries = (const struct alloc_entry *)(base + ALLOC_ENTRIES_AT);
    for (uint32_t i = 1; i < header->entries_used; i++)
        totals.live += entries[i].address != 0;
    munmap((void *)base, ALLOC_BYTES);
    return totals;
}

EXPORT struct door_totals door_totals(void) {
    return door_totals_of(NULL, (void *)UINT64_MAX);
}

EXPORT struct door_live door_find(const void *block) {
    struct door_live live = {0};
    const uint8_t *base = map();
    const struct alloc_entry *entries = (const struct alloc_entry *)(base + ALLOC_ENTRIES_AT);
    for (uint32_t i = 1; base && i < ((const struct alloc_header *)base)->entries_used; i++) {
        if (entries[i].address != (uint64_t)block)
            continue;
        live.found++;
        live.size = entries[i].size;
        live.objects = alloc_double(entries[i].objects);
        live.tid = entries[i].tid;
        live.time_ns = entries[i].time_ns;
    }
    if (base)
        munmap((void *)base, ALLOC_BYTES);
    return live;
}

EXPORT double door_live_objects(uint64_t size) {
    double objects = 0;
    const uint8_t *base = map();
    const struct alloc_entry *entries = (const struct alloc_entry *)(base + ALLOC_ENTRIES_AT);
    for (uint32_t i = 1; base && i < ((const struct alloc_header *)base)->entries_used; i++)
        if (entries[i].address && entries[i].size == size)
            objects += alloc_double(entries[i].objects);
    if (base)
        munmap((void *)base, ALLOC_BYTES);
    return objects;
}

EXPORT const char *door_allocator(void) {
    return patch_find()->allocator;
}

EXPORT uint32_t door_words(void) {
    return patch_find()->words;
}

EXPORT bool door_has_memory(void) {
    return interposer_table() != 0;
}

EXPORT void door_mute(void) {
    sampler_mute();
}

EXPORT void door_seed(uint64_t seed) {
    sampler_thread.tid = (uint32_t)gettid();
    sampler_thread.random = seed;
}

EXPORT void door_publish(const struct walk_map *map, const struct walk_stack *main_stack) {
    static struct module_map published;
    published.walk = *map;
    handler_state.main_stack = *main_stack;
    atomic_store(&handler_state.map, &published);
}

EXPORT door_backtrace *door_hook(door_backtrace *original) {
    alloc_backtrace_set_original(original);
    return alloc_backtrace_hook;
}

EXPORT int door_table_fd(void) {
    return samples_fd();
}

EXPORT void door_after_fork(void) {
    interposer_after_fork();
}
