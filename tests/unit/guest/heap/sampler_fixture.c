/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/guest/heap/sampler_fixture.h"

#include "service/guest/heap/alloc_backtrace.h"
#include "service/guest/heap/mallctl.h"
#include "service/guest/heap/sample_table.h"
#include "service/guest/heap/sampler.h"
#include "service/guest/heap/sampler_control.h"
#include "service/guest/signal/handler_state.h"

#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static int set_rate(enum sampler_use use, uint64_t mean, double probability) {
    int error = sampler_control_set_rate(use, &(struct sampler_rate){mean, probability});
    return error ? error : sampler_control_start();
}

EXPORT int fixture_start(uint64_t mean, double probability) {
    return set_rate(SAMPLER_USE_HEAP, mean, probability);
}

EXPORT int fixture_start_window(uint64_t mean, double probability) {
    return set_rate(SAMPLER_USE_ALLOCS, mean, probability);
}

EXPORT void fixture_stop(void) {
    (void)set_rate(SAMPLER_USE_HEAP, 0, 0);
}

EXPORT void fixture_stop_window(void) {
    (void)set_rate(SAMPLER_USE_ALLOCS, 0, 0);
}

EXPORT void fixture_forget_live(void) {
    sampler_control_forget_live();
}

EXPORT void fixture_tick(void) {
    (void)sampler_control_tick(INT64_MAX);
}

/* The table as sonded maps it. */
static const uint8_t *map_table(void) {
    void *base = mmap(NULL, ALLOC_BYTES, PROT_READ, MAP_SHARED, sample_table_fd(), 0);
    return base == MAP_FAILED ? NULL : base;
}

EXPORT struct fixture_totals fixture_totals_of(const void *low, const void *high) {
    struct fixture_totals totals = {0};
    const uint8_t *base = map_table();
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

EXPORT struct fixture_totals fixture_totals(void) {
    return fixture_totals_of(NULL, (void *)UINT64_MAX);
}

EXPORT struct fixture_live fixture_find(const void *block) {
    struct fixture_live live = {0};
    const uint8_t *base = map_table();
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

EXPORT double fixture_live_objects(uint64_t size) {
    double objects = 0;
    const uint8_t *base = map_table();
    const struct alloc_entry *entries = (const struct alloc_entry *)(base + ALLOC_ENTRIES_AT);
    for (uint32_t i = 1; base && i < ((const struct alloc_header *)base)->entries_used; i++)
        if (entries[i].address && entries[i].size == size)
            objects += alloc_double(entries[i].objects);
    if (base)
        munmap((void *)base, ALLOC_BYTES);
    return objects;
}

EXPORT const char *fixture_allocator(void) {
    return got_patch_find()->allocator;
}

EXPORT uint32_t fixture_patched_words(void) {
    return got_patch_find()->words;
}

EXPORT bool fixture_find_mallctl(const void *address) {
    return mallctl_find((uint64_t)address);
}

EXPORT bool fixture_has_memory(void) {
    return sampler_control_table() != 0;
}

EXPORT void fixture_exclude_self(void) {
    sampler_exclude_self();
}

EXPORT void fixture_seed(uint64_t seed) {
    sampler_thread.tid = (uint32_t)gettid();
    sampler_thread.random = seed;
}

EXPORT void fixture_publish(const struct walk_map *map, const struct walk_stack *main_stack) {
    static struct module_map published;
    published.walk = *map;
    handler_state.main_stack = *main_stack;
    atomic_store(&handler_state.map, &published);
}

EXPORT fixture_backtrace *fixture_hook(fixture_backtrace *original) {
    alloc_backtrace_set_original(original);
    return alloc_backtrace_hook;
}

EXPORT int fixture_table_fd(void) {
    return sample_table_fd();
}

EXPORT void fixture_after_fork(void) {
    sampler_control_after_fork();
}
