/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/memory_report/alloc_table_view.h"

#include "api/os/shared_memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SEALS       (F_SEAL_SHRINK | F_SEAL_GROW)
#define MOST_WEIGHT 1e15 /* most objects that one sample may stand for */
#define MOST_SIZE   (1ull << 48)
#define TRIES       3   /* retries of an entry that changes while it is read */
#define AHEAD       16u /* how far ahead memory is prefetched */

struct alloc_view {
    _Atomic uint32_t refs;
    uint32_t number;
    const uint8_t *base;
    bool is_mapped;
};

struct alloc_view *alloc_view_over(const void *memory) {
    struct alloc_view *view = calloc(1, sizeof *view);
    if (!view)
        return NULL;
    view->refs = 1;
    view->base = memory;
    return view;
}

static const struct alloc_header *header_of(const struct alloc_view *view) {
    return (const struct alloc_header *)view->base;
}

static bool is_table(const struct alloc_view *view) {
    return header_of(view)->magic == ALLOC_MAGIC && header_of(view)->version == 1;
}

sonde_err alloc_view_open(int fd, uint32_t number, struct alloc_view **opened) {
    uint64_t bytes;
    *opened = NULL;
    if (!shared_memory_is_sealed(fd, SEALS, ALLOC_BYTES, ALLOC_BYTES, &bytes))
        return SONDE_PROTOCOL;
    void *base = mmap(NULL, ALLOC_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return SONDE_OUT_OF_MEMORY;
    struct alloc_view *view = alloc_view_over(base);
    if (!view || !is_table(view)) {
        munmap(base, ALLOC_BYTES);
        free(view);
        return view ? SONDE_PROTOCOL : SONDE_OUT_OF_MEMORY;
    }
    view->is_mapped = true;
    view->number = number;
    *opened = view;
    return SONDE_OK;
}

struct alloc_view *alloc_view_retain(struct alloc_view *view) {
    if (view)
        atomic_fetch_add_explicit(&view->refs, 1, memory_order_relaxed);
    return view;
}

void alloc_view_release(struct alloc_view *view) {
    if (!view || atomic_fetch_sub_explicit(&view->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (view->is_mapped)
        munmap((void *)view->base, ALLOC_BYTES);
    free(view);
}

uint32_t alloc_view_number(const struct alloc_view *view) {
    return view ? view->number : 0;
}

uint64_t alloc_view_dropped(const struct alloc_view *view) {
    uint64_t sum = 0;
    for (int i = 0; view && i < ALLOC_DROP_COUNT; i++)
        sum += atomic_load_explicit(&header_of(view)->drops[i], memory_order_relaxed);
    return sum;
}

uint64_t alloc_view_samples(const struct alloc_view *view) {
    return view ? atomic_load_explicit(&header_of(view)->samples, memory_order_relaxed) : 0;
}

/* ---- Stacks ---- */

/* NULL if it is not inside the memory of the stacks. */
static const struct alloc_stack *stack_at(const struct alloc_view *view, uint32_t place) {
    uint64_t at = place * 8ull;
    if (place == 0 || at + sizeof(struct alloc_stack) > ALLOC_STACK_BYTES)
        return NULL;
    return (const struct alloc_stack *)(view->base + ALLOC_STACKS_AT + at);
}

static uint32_t number_of(const struct alloc_stack *stack) {
    return __atomic_load_n(&stack->number, __ATOMIC_RELAXED);
}

uint32_t alloc_view_stack(const struct alloc_view *view, uint32_t place,
                          uint64_t pcs[ALLOC_MAX_DEPTH], struct alloc_place *where) {
    const struct alloc_stack *stack = stack_at(view, place);
    uint32_t depth = stack ? __atomic_load_n(&stack->depth, __ATOMIC_RELAXED) : 0;
    uint64_t end = place * 8ull + sizeof *stack + depth * sizeof *pcs;
    bool has_place = header_of(view)->flags & ALLOC_HAS_PLACES;
    if (depth == 0 || depth > ALLOC_MAX_DEPTH ||
        end + (has_place ? ALLOC_PLACE_BYTES : 0) > ALLOC_STACK_BYTES)
        return 0;
    *where = (struct alloc_place){.closes = ALLOC_PLACE_SETTLED};
    memcpy(pcs, stack->pcs, depth * sizeof *pcs);
    if (has_place)
        memcpy(where, &stack->pcs[depth], sizeof *where);
    return depth;
}

static double estimate(const _Atomic uint64_t *bits) {
    double value = alloc_double(atomic_load_explicit(bits, memory_order_relaxed));
    return value >= 0 && value < 1e18 ? value : 0; /* false for NaN */
}

static void read_stack(const struct alloc_view *view, uint32_t place, struct alloc_sums *sums) {
    const struct alloc_stack *stack = stack_at(view, place);
    uint32_t number = stack ? number_of(stack) : UINT32_MAX;
    if (number >= sums->count || sums->items[number].place != 0)
        return;
    struct alloc_sum *sum = &sums->items[number];
    sum->place = place;
    sum->objects = estimate(&stack->objects);
    sum->bytes = estimate(&stack->bytes);
    sum->samples = atomic_load_explicit(&stack->samples, memory_order_relaxed);
}

/* Radix sort, ascending: three passes over 11 bits each. */
static void sort_places(uint32_t *places, uint32_t *room, uint32_t count) {
    for (unsigned shift = 0; shift < 33; shift += 11) {
        uint32_t starts[2048] = {0}, sum = 0;
        for (uint32_t i = 0; i < count; i++)
            starts[places[i] >> shift & 2047]++;
        for (uint32_t i = 0; i < 2048; i++) {
            uint32_t here = starts[i];
            starts[i] = sum;
            sum += here;
        }
        for (uint32_t i = 0; i < count; i++)
            room[starts[places[i] >> shift & 2047]++] = places[i];
        uint32_t *sorted = room;
        room = places;
        places = sorted;
    }
}

static void prefetch_stack(const struct alloc_view *view, uint32_t place) {
    __builtin_prefetch(view->base + ALLOC_STACKS_AT + place % (ALLOC_STACK_BYTES / 8) * 8ull);
}

/* Visits the stacks in memory order; in slot order every access would miss the cache. */
static sonde_err read_stacks(const struct alloc_view *view, struct alloc_sums *sums) {
    const _Atomic uint32_t *slots = (const _Atomic uint32_t *)(view->base + ALLOC_SLOTS_AT);
    uint32_t *places = malloc(2 * ALLOC_STACK_SLOTS * sizeof *places), count = 0;
    if (!places)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < ALLOC_STACK_SLOTS; i++) {
        uint32_t place = atomic_load_explicit(&slots[i], memory_order_acquire);
        places[count] = place;
        count += place != 0;
    }
    uint32_t *sorted = places + ALLOC_STACK_SLOTS;
    sort_places(places, sorted, count);
    for (uint32_t i = 0; i < count; i++) {
        prefetch_stack(view, sorted[i + AHEAD < count ? i + AHEAD : i]);
        read_stack(view, sorted[i], sums);
    }
    free(places);
    return SONDE_OK;
}

/* ---- Live blocks ---- */

/* Copies word by word, ordered after the first read of the version and before the second. */
static void copy_words(const struct alloc_entry *entry, struct alloc_entry *copy) {
    const _Atomic uint64_t *from = (const _Atomic uint64_t *)entry;
    for (size_t i = 0; i < sizeof *copy / sizeof *from; i++) {
        uint64_t word = atomic_load_explicit(&from[i], memory_order_acquire);
        memcpy((char *)copy + i * sizeof word, &word, sizeof word);
    }
}

/* False if the entry is not a live block. */
static bool copy_entry(const struct alloc_entry *entry, struct alloc_entry *copy) {
    for (int i = 0; i < TRIES; i++) {
        uint64_t before = atomic_load_explicit(&entry->version, memory_order_acquire);
        if (atomic_load_explicit(&entry->address, memory_order_relaxed) == 0)
            return false;
        copy_words(entry, copy);
        uint64_t after = atomic_load_explicit(&entry->version, memory_order_relaxed);
        if (before == after && before % 2 == 0)
            return copy->address != 0;
    }
    return false;
}

static void add_entry(const struct alloc_view *view, const struct alloc_entry *entry,
                      struct alloc_sums *sums) {
    const struct alloc_stack *stack = stack_at(view, entry->stack);
    uint32_t number = stack ? number_of(stack) : UINT32_MAX;
    double objects = alloc_double(entry->objects);
    if (number >= sums->count || sums->items[number].place != entry->stack ||
        !(objects >= 1 && objects <= MOST_WEIGHT) || entry->size > MOST_SIZE)
        return;
    struct alloc_sum *sum = &sums->items[number];
    sum->live_samples++;
    sum->live_objects += objects;
    sum->live_bytes += objects * (double)entry->size;
}

static void read_live(const struct alloc_view *view, uint64_t born_before_ns,
                      struct alloc_sums *sums) {
    const struct alloc_entry *entries = (const struct alloc_entry *)(view->base + ALLOC_ENTRIES_AT);
    uint32_t used = atomic_load(&header_of(view)->entries_used);
    used = used < ALLOC_ENTRIES ? used : ALLOC_ENTRIES;
    for (uint32_t i = 1; i < used; i++) {
        struct alloc_entry entry;
        if (i + AHEAD < used)
            prefetch_stack(view, __atomic_load_n(&entries[i + AHEAD].stack, __ATOMIC_RELAXED));
        if (copy_entry(&entries[i], &entry) && entry.time_ns <= born_before_ns)
            add_entry(view, &entry, sums);
    }
}

/* ---- Sums ---- */

sonde_err alloc_view_read(const struct alloc_view *view, const struct alloc_choice *choice,
                          struct alloc_sums *sums) {
    uint32_t count = atomic_load(&header_of(view)->stack_count);
    *sums = (struct alloc_sums){.count = count < ALLOC_STACKS ? count : ALLOC_STACKS,
                                .samples = alloc_view_samples(view),
                                .dropped = alloc_view_dropped(view)};
    size_t bytes = (sums->count + 1) * sizeof *sums->items;
    sums->items = malloc(bytes);
    if (!sums->items) {
        sums->count = 0;
        return SONDE_OUT_OF_MEMORY;
    }
    memset(sums->items, 0, bytes); /* calloc would use fresh pages, which are slower */
    sonde_err err = read_stacks(view, sums);
    if (!err && choice->live)
        read_live(view, choice->born_before_ns, sums);
    if (err)
        alloc_sums_finish(sums);
    return err;
}

void alloc_sums_finish(struct alloc_sums *sums) {
    free(sums->items);
    *sums = (struct alloc_sums){0};
}

static double difference(double now, double before) {
    return now > before ? now - before : 0;
}

void alloc_sums_subtract(struct alloc_sums *sums, const struct alloc_sums *before) {
    for (uint32_t i = 0; i < sums->count && i < before->count; i++) {
        struct alloc_sum *sum = &sums->items[i];
        const struct alloc_sum *old = &before->items[i];
        if (old->place != sum->place)
            continue;
        sum->samples -= old->samples < sum->samples ? old->samples : sum->samples;
        sum->objects = difference(sum->objects, old->objects);
        sum->bytes = difference(sum->bytes, old->bytes);
    }
    sums->samples -= before->samples < sums->samples ? before->samples : sums->samples;
    sums->dropped -= before->dropped < sums->dropped ? before->dropped : sums->dropped;
}
