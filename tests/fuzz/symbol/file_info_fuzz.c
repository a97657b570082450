/* SPDX-License-Identifier: Apache-2.0
 *
 * Arbitrary bytes as a file info. The result must be bounded, and the same after writing and
 * reading it again. */
#include "service/symbol/files/file_info.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds) {
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct symbol_file_info first, second;
    struct sonde_buf text = {0};
    must(symbol_file_info_read((struct sonde_slice){(const char *)data, size}, &first));
    must(first.load_count <= ELF_MAX_SEGMENTS);
    symbol_file_info_write(first.path, first.loads, first.load_count, &text);
    must(symbol_file_info_read(sonde_buf_slice(&text), &second));
    must(strcmp(first.path, second.path) == 0 && first.load_count == second.load_count);
    for (uint32_t i = 0; i < first.load_count; i++)
        must(first.loads[i].p_vaddr == second.loads[i].p_vaddr &&
             first.loads[i].p_offset == second.loads[i].p_offset &&
             first.loads[i].p_filesz == second.loads[i].p_filesz);
    symbol_file_info_finish(&first);
    symbol_file_info_finish(&second);
    sonde_buf_finish(&text);
    return 0;
}
