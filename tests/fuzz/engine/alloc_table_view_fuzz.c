/* SPDX-License-Identifier: Apache-2.0
 *
 * A sampler table with hostile contents: the input's bytes are placed at the header, the entries,
 * the slots and the stacks, and the whole table is read. Sums must be finite. */
#include "service/engine/memory_report/alloc_table_view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PARTS 4

static uint8_t *memory;

static const uint64_t places[PARTS] = {0, ALLOC_ENTRIES_AT, ALLOC_SLOTS_AT, ALLOC_STACKS_AT};

static void fill(const uint8_t *data, size_t size) {
    size_t part = size / PARTS;
    for (size_t i = 0; i < PARTS; i++) {
        memset(memory + places[i], 0, 4096);
        memcpy(memory + places[i], data + i * part, part < 4096 ? part : 4096);
    }
    struct alloc_header *header = (struct alloc_header *)memory;
    header->entries_used =
        header->entries_used % 256; /* the rest is zero, and reading it takes long */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct alloc_sums sums;
    struct alloc_place where;
    uint64_t pcs[ALLOC_MAX_DEPTH];
    struct alloc_choice choice = {.live = true, .born_before_ns = UINT64_MAX};
    if (!memory)
        memory = mmap(NULL, ALLOC_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return 0;
    fill(data, size);
    struct alloc_view *view = alloc_view_over(memory);
    if (!view || alloc_view_read(view, &choice, &sums) != SONDE_OK)
        abort();
    for (uint32_t i = 0; i < sums.count; i++) {
        const struct alloc_sum *sum = &sums.items[i];
        if (!isfinite(sum->objects) || !isfinite(sum->bytes) || !isfinite(sum->live_bytes))
            abort();
        if (sum->place && alloc_view_stack(view, sum->place, pcs, &where) > ALLOC_MAX_DEPTH)
            abort();
    }
    alloc_sums_subtract(&sums, &sums);
    alloc_sums_finish(&sums);
    alloc_view_release(view);
    return 0;
}
