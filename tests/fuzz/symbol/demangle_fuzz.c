/* SPDX-License-Identifier: Apache-2.0
 *
 * Arbitrary bytes as a linkage name. The result must be bounded and without control characters. */
#include "service/symbol/demangle.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sonde_buf shown = {0};
    char *name = malloc(size + 1);
    memcpy(name, data, size);
    name[size] = 0;
    symbol_demangle(name, &shown);
    if (shown.len > SYMBOL_NAME_MAX + strlen("@plt"))
        abort();
    for (size_t i = 0; i < shown.len; i++)
        if ((unsigned char)shown.data[i] < 0x20)
            abort();
    free(name);
    sonde_buf_finish(&shown);
    return 0;
}
