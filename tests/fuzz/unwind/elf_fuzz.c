/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as an ELF file of any machine: building its table fails, or the image passes the
 * check. */
#include "service/unwind/table/table_build.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sonde_buf table = {0};
    struct sonde_diag diag = {0};
    struct elf_input input = {.bytes = data, .fd = -1, .size = size};
    sonde_err err = unwind_table_build_any(&input, &table, &diag);
    const struct unwind_header *header = (const struct unwind_header *)table.data;
    if (err == SONDE_INTERNAL || (err != SONDE_OK && diag.text[0] == 0) ||
        (err == SONDE_OK &&
         unwind_table_check_for(header->machine, table.data, table.len) != SONDE_OK))
        abort();
    sonde_buf_finish(&table);
    return 0;
}
