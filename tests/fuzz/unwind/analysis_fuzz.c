/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a function. What the analysis finds must make a table that passes its check. */
#include "service/unwind/code/analysis.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct unwind_rows rows;
    struct sonde_buf table = {0};
    uint8_t *code = malloc(size + 1); /* exactly its bytes */
    memcpy(code, data, size);
    unwind_rows_init(&rows);
    rows.origin = 0x1000;
    if (unwind_analysis_run(code, (uint32_t)size, 16, &rows) &&
        unwind_rows_write(&rows, &table) == SONDE_OK &&
        unwind_table_check(table.data, table.len) != SONDE_OK)
        abort();
    unwind_rows_finish(&rows);
    sonde_buf_finish(&table);
    free(code);
    return 0;
}
