/* SPDX-License-Identifier: Apache-2.0
 *
 * Intel's manual, volume 2, appendix A, as a table of what follows each opcode. */
#include "service/unwind/code/instruction.h"

#include <string.h>

/* What follows an opcode. */
enum {
    X = 1 << 7, /* not an instruction in 64-bit mode */
    M = 1 << 0, /* a ModRM byte */
    B = 1 << 1, /* 1 byte */
    D = 1 << 2, /* 4 bytes; 2 with the prefix 66 */
    W = 1 << 3, /* 2 bytes */
    Q = 1 << 4, /* 4 bytes; 8 with REX.W */
    A = 1 << 5, /* an address of 8 bytes */
    J = 1 << 6, /* 4 bytes always */
};

static const uint8_t one_byte[256] = {
    M,     M,     M, M,     B, D, X,     X,
    M,     M,     M, M,     B, D, X,     X, /* 00: 0f is another map */
    M,     M,     M, M,     B, D, X,     X,
    M,     M,     M, M,     B, D, X,     X, /* 10 */
    M,     M,     M, M,     B, D, X,     X,
    M,     M,     M, M,     B, D, X,     X, /* 20 */
    M,     M,     M, M,     B, D, X,     X,
    M,     M,     M, M,     B, D, X,     X, /* 30 */
    X,     X,     X, X,     X, X, X,     X,
    X,     X,     X, X,     X, X, X,     X, /* 40: REX */
    0,     0,     0, 0,     0, 0, 0,     0,
    0,     0,     0, 0,     0, 0, 0,     0, /* 50 */
    X,     X,     X, M,     X, X, X,     X,
    D,     M | D, B, M | B, 0, 0, 0,     0, /* 60 */
    B,     B,     B, B,     B, B, B,     B,
    B,     B,     B, B,     B, B, B,     B, /* 70 */
    M | B, M | D, X, M | B, M, M, M,     M,
    M,     M,     M, M,     M, M, M,     M, /* 80 */
    0,     0,     0, 0,     0, 0, 0,     0,
    0,     0,     X, 0,     0, 0, 0,     0, /* 90 */
    A,     A,     A, A,     0, 0, 0,     0,
    B,     D,     0, 0,     0, 0, 0,     0, /* a0 */
    B,     B,     B, B,     B, B, B,     B,
    Q,     Q,     Q, Q,     Q, Q, Q,     Q, /* b0 */
    M | B, M | B, W, 0,     X, X, M | B, M | D,
    W | B, 0,     W, 0,     0, B, X,     0, /* c0 */
    M,     M,     M, M,     X, X, X,     0,
    M,     M,     M, M,     M, M, M,     M, /* d0 */
    B,     B,     B, B,     B, B, B,     B,
    J,     J,     X, B,     0, 0, 0,     0, /* e0 */
    X,     0,     X, X,     0, 0, M,     M,
    0,     0,     0, 0,     0, 0, M,     M, /* f0 */
};

static const uint8_t two_bytes[256] = {
    M,     M,     M,     M,     X,     0,     0,     0,
    0,     0,     X,     0,     X,     M,     0,     X, /* 00 */
    M,     M,     M,     M,     M,     M,     M,     M,
    M,     M,     M,     M,     M,     M,     M,     M, /* 10 */
    M,     M,     M,     M,     X,     X,     X,     X,
    M,     M,     M,     M,     M,     M,     M,     M, /* 20 */
    0,     0,     0,     0,     0,     0,     X,     0,
    X,     X,     X,     X,     X,     X,     X,     X, /* 30: 38 and 3a are other maps */
    M,     M,     M,     M,     M,     M,     M,     M,
    M,     M,     M,     M,     M,     M,     M,     M, /* 40 */
    M,     M,     M,     M,     M,     M,     M,     M,
    M,     M,     M,     M,     M,     M,     M,     M, /* 50 */
    M,     M,     M,     M,     M,     M,     M,     M,
    M,     M,     M,     M,     M,     M,     M,     M, /* 60 */
    M | B, M | B, M | B, M | B, M,     M,     M,     0,
    M,     M,     X,     X,     M,     M,     M,     M, /* 70 */
    J,     J,     J,     J,     J,     J,     J,     J,
    J,     J,     J,     J,     J,     J,     J,     J, /* 80 */
    M,     M,     M,     M,     M,     M,     M,     M,
    M,     M,     M,     M,     M,     M,     M,     M, /* 90 */
    0,     0,     0,     M,     M | B, M,     X,     X,
    0,     0,     0,     M,     M | B, M,     M,     M, /* a0 */
    M,     M,     M,     M,     M,     M,     M,     M,
    M,     M,     M | B, M,     M,     M,     M,     M, /* b0 */
    M,     M,     M | B, M,     M | B, M | B, M | B, M,
    0,     0,     0,     0,     0,     0,     0,     0, /* c0 */
    M,     M,     M,     M,     M,     M,     M,     M,
    M,     M,     M,     M,     M,     M,     M,     M, /* d0 */
    M,     M,     M,     M,     M,     M,     M,     M,
    M,     M,     M,     M,     M,     M,     M,     M, /* e0 */
    M,     M,     M,     M,     M,     M,     M,     M,
    M,     M,     M,     M,     M,     M,     M,     M, /* f0 */
};

struct reader {
    const uint8_t *at, *end;
    uint8_t rex;
    bool is_short; /* prefix 66 */
    bool failed;
};

static uint8_t next(struct reader *reader) {
    if (reader->at < reader->end)
        return *reader->at++;
    reader->failed = true;
    return 0;
}

static int64_t number(struct reader *reader, uint32_t bytes) {
    uint64_t value = 0;
    for (uint32_t i = 0; i < bytes; i++)
        value |= (uint64_t)next(reader) << 8 * i;
    uint32_t unused = bytes ? 64 - 8 * bytes : 0;
    return (int64_t)(value << unused) >> unused;
}

/* Prefixes, REX last. Returns the byte after them. */
static uint8_t skip_prefixes(struct reader *reader) {
    for (;;) {
        uint8_t byte = next(reader);
        switch (byte) {
        case 0x66:
            reader->is_short = true;
            break;
        case 0x26:
        case 0x2e:
        case 0x36:
        case 0x3e:
        case 0x64:
        case 0x65:
        case 0xf0:
        case 0xf2:
        case 0xf3:
            break;
        default:
            if (byte >> 4 != 4)
                return byte;
            reader->rex = byte;
            return next(reader);
        }
    }
}

/* The opcode behind a VEX or EVEX prefix; *what: what follows it. */
static uint8_t read_vector(struct reader *reader, uint8_t prefix, uint8_t *what) {
    uint8_t map = 1, first = next(reader);
    if (prefix == 0xc4)
        map = first & 0x1f, next(reader);
    else if (prefix == 0x62)
        map = first & 7, next(reader), next(reader);
    uint8_t opcode = next(reader);
    bool has_number =
        map == 3 || (map == 1 && ((opcode >= 0x70 && opcode <= 0x73) || opcode == 0xc2 ||
                                  (opcode >= 0xc4 && opcode <= 0xc6)));
    *what = (uint8_t)((map == 1 && opcode == 0x77 ? 0 : M) | (has_number ? B : 0));
    reader->failed |= map == 0 || (map > 3 && prefix != 0x62);
    return opcode;
}

static uint8_t read_opcode(struct reader *reader, struct instruction *out) {
    uint8_t what, byte = skip_prefixes(reader);
    out->opcode = byte;
    if (byte == 0xc4 || byte == 0xc5 || byte == 0x62) {
        out->map = INSTRUCTION_VECTOR;
        out->opcode = read_vector(reader, byte, &what);
        return what;
    }
    if (byte != 0x0f)
        return one_byte[byte];
    out->map = INSTRUCTION_TWO_BYTES;
    out->opcode = next(reader);
    if (out->opcode != 0x38 && out->opcode != 0x3a)
        return two_bytes[out->opcode];
    out->map = INSTRUCTION_VECTOR;
    what = out->opcode == 0x38 ? M : M | B;
    out->opcode = next(reader);
    return what;
}

static void read_sib(struct reader *reader, struct instruction *out) {
    uint8_t sib = next(reader);
    out->index = (uint8_t)((sib >> 3 & 7) | (reader->rex & 2) << 2);
    out->base = (uint8_t)((sib & 7) | (reader->rex & 1) << 3);
    if (out->index == INSTRUCTION_RSP)
        out->index = INSTRUCTION_NONE;
    if ((sib & 7) == INSTRUCTION_RBP && out->mod == 0) {
        out->base = INSTRUCTION_NONE;
        out->disp = (int32_t)number(reader, 4);
    }
}

static void read_modrm(struct reader *reader, struct instruction *out) {
    uint8_t modrm = next(reader);
    out->has_modrm = true;
    out->mod = modrm >> 6;
    out->reg = (uint8_t)((modrm >> 3 & 7) | (reader->rex & 4) << 1);
    out->rm = (uint8_t)((modrm & 7) | (reader->rex & 1) << 3);
    if (out->mod == 3)
        return;
    out->base = out->rm;
    if ((modrm & 7) == INSTRUCTION_RSP)
        read_sib(reader, out);
    else if ((modrm & 7) == INSTRUCTION_RBP && out->mod == 0) {
        out->base = INSTRUCTION_NONE; /* relative to rip */
        out->disp = (int32_t)number(reader, 4);
    }
    if (out->mod == 1)
        out->disp = (int32_t)number(reader, 1);
    else if (out->mod == 2)
        out->disp = (int32_t)number(reader, 4);
}

static void read_number(struct reader *reader, uint8_t what, struct instruction *out) {
    /* The group f6/f7 has a number only for "test". */
    if (out->map == INSTRUCTION_ONE_BYTE && (out->opcode | 1) == 0xf7 && (out->reg & 7) < 2)
        what |= out->opcode == 0xf6 ? B : D;
    if (what & W)
        out->imm = number(reader, 2);
    if (what & D)
        out->imm = number(reader, reader->is_short ? 2 : 4);
    if (what & J)
        out->imm = number(reader, 4);
    if (what & Q)
        out->imm = number(reader, reader->rex & 8 ? 8 : reader->is_short ? 2 : 4);
    if (what & A)
        out->imm = number(reader, 8);
    if (what & B)
        out->imm = number(reader, 1);
}

bool instruction_decode(const uint8_t *code, size_t size, struct instruction *instruction) {
    struct reader reader = {code, code + (size < 15 ? size : 15), 0, false, false};
    struct instruction out = {.base = INSTRUCTION_NONE, .index = INSTRUCTION_NONE};
    uint8_t what = read_opcode(&reader, &out);
    if (what & X || reader.failed)
        return false;
    if (what & M)
        read_modrm(&reader, &out);
    read_number(&reader, what, &out);
    out.is_wide = reader.rex & 8;
    out.low = (uint8_t)((out.opcode & 7) | (reader.rex & 1) << 3);
    out.length = (uint8_t)(reader.at - code);
    *instruction = out;
    return !reader.failed;
}
