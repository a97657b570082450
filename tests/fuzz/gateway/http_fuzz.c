/* SPDX-License-Identifier: Apache-2.0
 *
 * Raw bytes, HTTP/1 or HTTP/2, through h2o to the handlers. The input is the length of the script,
 * the script, and the bytes. */
#include "tests/fuzz/gateway/gateway_fixture.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    size_t script = data[0] < size - 1 ? data[0] : size - 1;
    const char *bytes = (const char *)data + 1;
    fixture_play((struct sonde_slice){bytes + script, size - 1 - script},
                 (struct sonde_slice){bytes, script}, NULL);
    return 0;
}
