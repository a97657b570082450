/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/table/checksum.h"

#include <string.h>

static uint64_t mix(uint64_t hash, uint64_t word) {
    unsigned __int128 product =
        (unsigned __int128)(hash ^ word ^ 0x9e3779b97f4a7c15ull) * 0xd6e8feb86659fd93ull;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Four independent lanes keep the multiplier busy. */
static uint64_t checksum_piece(uint64_t hash, const char *at, size_t len) {
    uint64_t lanes[4] = {hash, hash + 1, hash + 2, hash + 3}, words[4];
    for (; len >= sizeof words; len -= sizeof words, at += sizeof words) {
        memcpy(words, at, sizeof words);
        for (int i = 0; i < 4; i++)
            lanes[i] = mix(lanes[i], words[i]);
    }
    memset(words, 0, sizeof words);
    memcpy(words, at, len);
    for (int i = 0; i < 4; i++)
        hash = mix(hash, mix(lanes[i], words[i] + len));
    return hash;
}

uint64_t symbol_checksum(uint64_t hash, const void *bytes, size_t len) {
    const char *at = bytes;
    while (len > 0) {
        size_t piece = len < SYMBOL_CHECKSUM_PIECE ? len : SYMBOL_CHECKSUM_PIECE;
        hash = checksum_piece(hash, at, piece);
        at += piece;
        len -= piece;
    }
    return hash;
}
