/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses the input as the mappings of a heap dump. The result must be sorted, without empty
 * mappings, and every mapping must be found by its addresses. */
#include "service/engine/core/target.h"
#include "service/engine/memory_report/dump_profile.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds, const char *what) {
    if (holds)
        return;
    fprintf(stderr, "not so: %s\n", what);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct generation *mapped = heap_mappings((struct sonde_slice){(const char *)data, size});
    if (!mapped)
        return 0;
    for (uint32_t i = 0; i < mapped->count; i++) {
        const struct mapping *mapping = mapped->mappings[i];
        must(mapping->start < mapping->end, "a mapping has a length");
        must(i == 0 || mapped->mappings[i - 1]->start <= mapping->start, "they are in order");
        const struct mapping *found = generation_find(mapped, mapping->start);
        must(found && found->start <= mapping->start && found->end > mapping->start,
             "an address of it is found");
    }
    generation_destroy(mapped);
    return 0;
}
