/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/request/forwarded.h"

#include <stdbool.h>
#include <string.h>

/* Whether each segment has at least one character, and none that means something in an address, in
 * HTML or in JSON. "//host" would be an address of another host. */
static bool is_plain(struct sonde_slice path) {
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~";
    char before = 0;
    for (size_t i = 0; i < path.len; i++) {
        char c = path.data[i];
        if (c == '/' ? before == '/' : i == 0 || c == 0 || !strchr(allowed, c))
            return false;
        before = c;
    }
    return path.len > 1;
}

void forwarded_prefix(struct sonde_slice header, char prefix[FORWARDED_PREFIX_SIZE]) {
    prefix[0] = 0;
    if (!header.data)
        return;
    while (header.len > 0 && header.data[header.len - 1] == '/')
        header.len--;
    if (header.len >= FORWARDED_PREFIX_SIZE || !is_plain(header))
        return;
    memcpy(prefix, header.data, header.len);
    prefix[header.len] = 0;
}
