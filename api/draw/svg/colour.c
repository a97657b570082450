/* SPDX-License-Identifier: Apache-2.0
 *
 * Colour classes derived from names, so that captures of the same program look alike. The letter is
 * the hue of the module; the digit is one of four shades for the function. flamegraph.css defines
 * the colours. */
#include "api/draw/svg/svg.h"

#include <string.h>

/* Not seeded, so that a name has the same colour in every picture. */
static uint32_t hash(const char *text) {
    const uint64_t odd = 0xd6e8feb86659fd93u, other = 0xa5a3564e27f88a63u;
    size_t len = strlen(text);
    uint64_t state = len * odd, word;
    for (; len >= 8; len -= 8, text += 8) {
        memcpy(&word, text, 8);
        state = hash_fold(state ^ word, odd) ^ other;
    }
    word = 0;
    memcpy(&word, text, len);
    state = hash_fold(hash_fold(state ^ word, odd), other);
    return (uint32_t)(state ^ state >> 32);
}

static char hue(const struct draw_frame *frame, enum sonde_palette palette) {
    if (frame->is_thread || (frame->kind == SONDE_FRAME_NOTE && strcmp(frame->name, "all") == 0))
        return 'y';
    if (frame->kind == SONDE_FRAME_NOTE)
        return 'z';
    if (palette == SONDE_PALETTE_MEMORY)
        return (char)('q' + hash(frame->module) % 6);
    switch (frame->kind) {
    case SONDE_FRAME_APPLICATION:
        return (char)('a' + hash(frame->module) % 4);
    case SONDE_FRAME_KERNEL:
        return 'p';
    case SONDE_FRAME_JIT:
        return 'o';
    default:
        return frame->module[0] ? (char)('e' + hash(frame->module) % 10) : 'z';
    }
}

void draw_colour(const struct draw_frame *frame, enum sonde_palette palette, char colour[3]) {
    colour[0] = hue(frame, palette);
    colour[1] = (char)('0' + (strchr("yz", colour[0]) ? 0 : hash(frame->name) % 4));
    colour[2] = 0;
}

void draw_diff_colour(double share, double base_share, char colour[3]) {
    double change = share - base_share, larger = share > base_share ? share : base_share;
    double size = change < 0 ? -change : change;
    if (size < 0.0005) {
        memcpy(colour, "W0", 3);
        return;
    }
    double ratio = size / larger;
    colour[0] = change > 0 ? 'R' : 'B';
    colour[1] = ratio < 0.1 ? 'A' : ratio < 0.3 ? 'B' : ratio < 0.6 ? 'C' : 'D';
    colour[2] = 0;
}
