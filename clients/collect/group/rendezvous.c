/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/group/rendezvous.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* FNV-1a over the text and its end. */
static uint64_t add(uint64_t hash, const char *text) {
    do
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    while (*text++);
    return hash;
}

/* MurmurHash3's finalizer: without it, the last characters hardly reach the upper bits. */
static uint64_t mix(uint64_t hash) {
    hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccdu;
    hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53u;
    return hash ^ hash >> 33;
}

size_t rendezvous_choose(const char *const *members, size_t count, const char *host) {
    size_t best = 0;
    uint64_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t hash = mix(add(add(0xcbf29ce484222325u, members[i]), host));
        bool is_better =
            hash > largest || (hash == largest && strcmp(members[i], members[best]) > 0);
        if (i > 0 && !is_better)
            continue;
        best = i;
        largest = hash;
    }
    return best;
}
