/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/request/path.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Prefix and rest must make up the path, and an encoded name must decode to itself. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sonde_slice path = {(const char *)data, size};
    struct path_parts parts, again;
    bool good = path_split(path, &parts);
    if (parts.prefix.len > size || (!parts.named && parts.rest.len != size))
        __builtin_trap();
    if (!good || !parts.name[0])
        return 0;
    struct sonde_buf encoded = {0};
    sonde_buf_puts(&encoded, "/t/");
    path_append_encoded(&encoded, sonde_slice_of(parts.name));
    if (!path_split(sonde_buf_slice(&encoded), &again) || strcmp(again.name, parts.name) != 0)
        __builtin_trap();
    sonde_buf_finish(&encoded);
    return 0;
}
