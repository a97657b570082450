/* SPDX-License-Identifier: Apache-2.0
 *
 * Arbitrary bytes as a compressed section, for each of the three methods. Output must be
 * bounded. */
#include "service/elf/inflate.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { LIMIT = 1 << 20, EXACT = 4096 };
    static char exact[EXACT];
    struct sonde_buf out = {0};
    sonde_err err = inflate_xz(data, size, LIMIT, &out);
    if (out.len > LIMIT || (err == SONDE_TOO_LARGE && out.len > LIMIT))
        abort();
    sonde_buf_finish(&out);
    err = inflate_zlib(data, size, exact, EXACT);
    err = inflate_zstd(data, size, exact, EXACT);
    (void)err;
    return 0;
}
