/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/request/path.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Prefix and rest must make up the path, and an encoded target must decode to itself. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sonde_slice path = {(const char *)data, size};
    struct path_parts parts, again;
    bool good = path_split(path, &parts);
    if (parts.prefix.len > size || (!parts.named && parts.rest.len != size))
        __builtin_trap();
    if (!good || !parts.named)
        return 0;
    struct sonde_buf encoded = {0};
    sonde_buf_puts(&encoded, "/t/");
    path_append_target(&encoded, &parts.target);
    if (!path_split(sonde_buf_slice(&encoded), &again) || again.target.all != parts.target.all ||
        again.target.pid != parts.target.pid || strcmp(again.target.name, parts.target.name) != 0)
        __builtin_trap();
    sonde_buf_finish(&encoded);
    return 0;
}
