/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a table image, with a correct checksum so that the rest of the check runs. Walks
 * with an image that passes must not read outside of it, whatever its rules are. */
#include "service/guest/signal/walk_shared.h"

#include <stdlib.h>
#include <string.h>

#define TEXT  0x40000000ull
#define WORDS 256

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t stack[WORDS];
static struct walk_cache cache;
static struct walk_memo memo;

static void walk_with(const struct unwind_header *header, size_t size) {
    static uint64_t generation;
    struct walk_module module;
    struct walk_map map = {.generation = ++generation, .count = 1, .modules = &module};
    struct walk_bounds bounds = {.thread = {(uint64_t)stack, (uint64_t)(stack + WORDS)}};
    struct unwind_registers start = {.known = (1u << UNWIND_REGISTERS) - 1};
    struct walk_result result, again;
    uint64_t pcs[32], same[32];
    walk_module_init(&module, TEXT, TEXT + header->text_bytes + 4096, TEXT - header->base, header);
    for (uint64_t i = 0; i < 64; i++) {
        uint64_t mix = (i + size) * 0x9e3779b97f4a7c15ull;
        for (int word = 0; word < WORDS; word++)
            stack[word] = mix >> word % 32 & 1
                              ? TEXT + (mix ^ (uint64_t)word * 7919) % header->text_bytes
                              : (uint64_t)(stack + (mix >> 7 ^ (uint64_t)word) % WORDS);
        for (uint32_t number = 0; number < UNWIND_REGISTERS; number++)
            start.value[number] = (uint64_t)(stack + (mix >> number) % WORDS);
        start.value[UNWIND_REG_PC] = TEXT + mix % (header->text_bytes + 64);
        walk_from_registers(&start, &map, &cache, &bounds, pcs, 32, &result);
        walk_from_call(&start, &map, &cache, &memo, &bounds, same, 32, &again);
        if (memcmp(&result, &again, sizeof again) != 0 || memcmp(pcs, same, result.depth * 8) != 0)
            abort();
        if (result.depth == 0 || result.depth > 32 || result.end >= RING_END_COUNT)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct unwind_header *image = malloc(size ? size : 1);
    memcpy(image, data, size);
    if (size >= sizeof *image)
        image->checksum = unwind_table_checksum(image, size);
    if (unwind_table_check(image, size) == SONDE_OK)
        walk_with(image, size);
    free(image);
    return 0;
}
