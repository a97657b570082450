/* SPDX-License-Identifier: Apache-2.0
 *
 * A Host header that matches a configured name is neither loopback nor an address. */
#include "gateway/request/host.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"profiler.corp"};
    struct sonde_slice authority = {(const char *)data, size};
    bool is_loopback = host_is_loopback(authority), is_address = host_is_address(authority);
    if (host_is_listed(authority, names, 1) && (is_loopback || is_address))
        abort();
    return 0;
}
