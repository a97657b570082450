/* SPDX-License-Identifier: Apache-2.0
 *
 * Arbitrary contents of /proc/self/maps. */
#include "service/guest/maps/maps.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct maps maps;
    if (maps_init(&maps) != 0)
        return 0;
    maps.module_count = 0;
    maps.areas->count = 0;
    char *copy =
        malloc(size + 1); /* of the exact size, so that sanitizers see a read past the end */
    for (size_t at = 0; at < size;) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        size_t len = end ? (size_t)(end - data) - at : size - at;
        memcpy(copy, data + at, len);
        maps_add_line(&maps, copy, len);
        at += len + 1;
    }
    for (uint32_t i = 0; i < maps.module_count; i++)
        if (maps.modules[i].end <= maps.modules[i].start ||
            strnlen(maps.modules[i].path, MAPS_PATH) == MAPS_PATH)
            abort();
    free(copy);
    return 0;
}
