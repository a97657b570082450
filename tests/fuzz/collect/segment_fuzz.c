/* SPDX-License-Identifier: Apache-2.0
 *
 * Damaged files of the spool. */
#include "clients/collect/spool/segment.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sonde_arena arena = {0};
    struct spool_segment segment = {.number = 1};
    bool is_whole;
    (void)segment_parse((struct sonde_slice){(const char *)data, size}, &arena, &segment,
                        &is_whole);
    sonde_arena_finish(&arena);
    return 0;
}
