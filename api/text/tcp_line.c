/* SPDX-License-Identifier: Apache-2.0 */
#include "api/text/tcp_line.h"

#define WORD_DIGITS 8u /* of 32 bits of an address */
#define PORT_DIGITS 4u

struct cursor {
    const char *at, *end;
    bool is_good;
};

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

static int hex_value(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static void skip_blanks(struct cursor *cursor) {
    while (cursor->at < cursor->end && is_blank(*cursor->at))
        cursor->at++;
}

/* Skips blanks and a word after them. */
static void skip_word(struct cursor *cursor) {
    skip_blanks(cursor);
    const char *start = cursor->at;
    while (cursor->at < cursor->end && !is_blank(*cursor->at))
        cursor->at++;
    cursor->is_good = cursor->is_good && cursor->at > start;
}

/* Exactly so many hexadecimal digits. */
static uint32_t take_hex(struct cursor *cursor, size_t digits) {
    uint32_t value = 0;
    for (size_t i = 0; i < digits; i++) {
        int digit = cursor->at < cursor->end ? hex_value(*cursor->at) : -1;
        if (digit < 0) {
            cursor->is_good = false;
            return 0;
        }
        value = value << 4 | (uint32_t)digit;
        cursor->at++;
    }
    return value;
}

static uint64_t take_decimal(struct cursor *cursor, uint64_t max) {
    uint64_t value = 0;
    skip_blanks(cursor);
    const char *start = cursor->at;
    for (; cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9'; cursor->at++) {
        uint64_t digit = (uint64_t)(*cursor->at - '0');
        if (value > (max - digit) / 10)
            cursor->is_good = false;
        value = value * 10 + digit;
    }
    bool is_whole = cursor->at > start && (cursor->at == cursor->end || is_blank(*cursor->at) ||
                                           *cursor->at == '\n' || *cursor->at == ':');
    cursor->is_good = cursor->is_good && is_whole;
    return value;
}

static void take_colon(struct cursor *cursor) {
    cursor->is_good = cursor->is_good && cursor->at < cursor->end && *cursor->at == ':';
    cursor->at += cursor->at < cursor->end;
}

static size_t count_hex(const struct cursor *cursor) {
    size_t count = 0;
    while (cursor->at + count < cursor->end && hex_value(cursor->at[count]) >= 0)
        count++;
    return count;
}

/* The kernel writes each word of an address as a number of this machine, not of the network. */
static struct sonde_tcp_end take_end(struct cursor *cursor, size_t *words) {
    uint32_t address[4] = {0};
    skip_blanks(cursor);
    *words = count_hex(cursor) / WORD_DIGITS;
    if (*words != 1 && *words != 4) {
        cursor->is_good = false;
        return (struct sonde_tcp_end){0};
    }
    for (size_t i = 0; i < *words; i++)
        address[i] = take_hex(cursor, WORD_DIGITS);
    take_colon(cursor);
    return sonde_tcp_end(address, *words, (uint16_t)take_hex(cursor, PORT_DIGITS));
}

bool sonde_tcp_line_parse(const char *text, size_t len, struct sonde_tcp_line *line) {
    struct cursor cursor = {text, text + len, true};
    size_t own_words, other_words;
    *line = (struct sonde_tcp_line){0};
    (void)take_decimal(&cursor, UINT32_MAX); /* the line's number */
    take_colon(&cursor);
    line->own = take_end(&cursor, &own_words);
    line->other = take_end(&cursor, &other_words);
    skip_blanks(&cursor);
    line->state = (uint8_t)take_hex(&cursor, 2);
    for (int i = 0; i < 3; i++) /* queues, timer, retransmissions */
        skip_word(&cursor);
    line->uid = (uint32_t)take_decimal(&cursor, UINT32_MAX);
    skip_word(&cursor); /* probes */
    line->inode = take_decimal(&cursor, UINT64_MAX);
    return cursor.is_good && own_words == other_words;
}

static bool is_mapped(const uint32_t *address) {
    const unsigned char *bytes = (const void *)&address[2];
    return address[0] == 0 && address[1] == 0 && bytes[0] == 0 && bytes[1] == 0 &&
           bytes[2] == 0xff && bytes[3] == 0xff;
}

struct sonde_tcp_end sonde_tcp_end(const uint32_t *address, size_t words, uint16_t port) {
    struct sonde_tcp_end end = {.port = port};
    end.is_v6 = words == 4 && !is_mapped(address);
    if (!end.is_v6) {
        end.address[0] = address[words - 1];
        return end;
    }
    for (size_t i = 0; i < 4; i++)
        end.address[i] = address[i];
    return end;
}

bool sonde_tcp_end_equals(const struct sonde_tcp_end *a, const struct sonde_tcp_end *b) {
    bool is_equal = a->is_v6 == b->is_v6 && a->port == b->port;
    for (size_t i = 0; i < 4; i++)
        is_equal = is_equal && a->address[i] == b->address[i];
    return is_equal;
}
