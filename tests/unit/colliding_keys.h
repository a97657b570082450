/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys that a hostile target could compute for the fixed mixer of earlier tables (issue 11): all of
 * them shared one slot, and 60,000 kept the engine thread busy for 8 s. The mixer can be inverted:
 * shifts by half a word undo themselves, and an odd factor has an inverse modulo 2^64. */
#ifndef SONDE_TESTS_UNIT_COLLIDING_KEYS_H
#define SONDE_TESTS_UNIT_COLLIDING_KEYS_H

#include <stdint.h>

#define COLLIDING_FACTOR 0xd6e8feb86659fd93ull

static inline uint64_t colliding_mix(uint64_t word) {
    word = (word ^ word >> 32) * COLLIDING_FACTOR;
    word = (word ^ word >> 32) * COLLIDING_FACTOR;
    return word ^ word >> 32;
}

static inline uint64_t colliding_unmix(uint64_t word) {
    uint64_t inverse = COLLIDING_FACTOR; /* each of Newton's steps doubles the correct bits */
    for (int i = 0; i < 6; i++)
        inverse *= 2 - COLLIDING_FACTOR * inverse;
    word = (word ^ word >> 32) * inverse;
    word = (word ^ word >> 32) * inverse;
    return word ^ word >> 32;
}

/* The i-th word for which colliding_mix(word + colliding_mix(rest)) has the same low 32 bits. */
static inline uint64_t colliding_word(uint64_t rest, uint32_t i) {
    return colliding_unmix((uint64_t)i << 32 | 0x1234) - colliding_mix(rest);
}

#endif
