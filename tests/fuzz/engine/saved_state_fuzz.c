/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the input as a state file. The result must be within its bounds, and equal after it is
 * written and read again. */
#include "service/engine/heap/saved_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds, const char *what) {
    if (holds)
        return;
    fprintf(stderr, "not so: %s\n", what);
    abort();
}

static struct heap_saved_state read_bytes(const void *data, size_t size, struct heap_dumps *dumps) {
    struct heap_saved_state memory = {.keep_dumps = 100, .keep_bytes = 1 << 30, .epoch = 1};
    FILE *file = fmemopen((void *)data, size, "r");
    if (file) {
        heap_saved_state_read(&memory, dumps, file);
        fclose(file);
    }
    return memory;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct heap_dump items[] = {{.number = 1}, {.number = 999999}};
    struct heap_dumps dumps = {.items = items, .count = 2};
    if (size == 0)
        return 0;
    struct heap_saved_state memory = read_bytes(data, size, &dumps), again;
    must(memory.interval_s <= HEAP_MEMORY_MAX_INTERVAL_S && memory.keep_dumps > 0 &&
             memory.keep_bytes > 0 && memory.epoch > 0 && memory.since_unix_ns >= 0,
         "the bounds");
    must(strnlen(memory.owner, sizeof memory.owner) < sizeof memory.owner, "the owner ends");
    char *text = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&text, &len);
    heap_saved_state_write(&memory, &dumps, file);
    must(fclose(file) == 0, "it is written");
    again = read_bytes(text, len, &dumps);
    bool is_same = again.active == memory.active && again.epoch == memory.epoch &&
                   again.ticks == memory.ticks && again.interval_s == memory.interval_s &&
                   again.keep_bytes == memory.keep_bytes && strcmp(again.owner, memory.owner) == 0;
    must(is_same, "read again it is the same");
    free(text);
    return 0;
}
