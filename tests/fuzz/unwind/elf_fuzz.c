/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as an ELF file: building its table fails, or the image passes the check. */
#include "service/unwind/table/table_build.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sonde_buf table = {0};
    struct sonde_diag diag = {0};
    sonde_err err = unwind_table_build_memory(data, size, &table, &diag);
    if (err == SONDE_INTERNAL || (err != SONDE_OK && diag.text[0] == 0) ||
        (err == SONDE_OK && unwind_table_check(table.data, table.len) != SONDE_OK))
        abort();
    sonde_buf_finish(&table);
    return 0;
}
