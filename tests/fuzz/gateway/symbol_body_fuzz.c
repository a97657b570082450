/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/request/symbol_body.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every call shortens the body, and no address is zero. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sonde_slice body = {(const char *)data, size};
    uint64_t address;
    for (size_t before = body.len; symbol_body_next(&body, &address); before = body.len)
        if (address == 0 || body.len >= before)
            __builtin_trap();
    return body.len ? (__builtin_trap(), 0) : 0;
}
