/* SPDX-License-Identifier: Apache-2.0 */
#include "api/text/utf8.h"

#include <string.h>

/* The lead byte of a character of 1 to 4 bytes, and the lowest code point of that length. */
static const struct {
    uint8_t mask, lead;
    uint32_t lowest;
} forms[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};

size_t sonde_utf8_next(const char *text, size_t len, uint32_t *code) {
    const uint8_t *bytes = (const uint8_t *)text;
    size_t more = 0;
    while (more < 4 && (bytes[0] & forms[more].mask) != forms[more].lead)
        more++;
    if (more == 4 || more + 1 > len)
        return 0;
    uint32_t value = bytes[0] & (uint8_t)~forms[more].mask;
    for (size_t i = 1; i <= more; i++) {
        if (!sonde_utf8_continues(text[i]))
            return 0;
        value = value << 6 | (bytes[i] & 0x3f);
    }
    if (value < forms[more].lowest || value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
        return 0;
    *code = value;
    return more + 1;
}

bool sonde_utf8_is_valid(const char *text, size_t len) {
    uint32_t code;
    for (size_t i = 0, step; i < len; i += step) {
        step = sonde_utf8_next(text + i, len - i, &code);
        if (step == 0)
            return false;
    }
    return true;
}

bool sonde_utf8_is_control(uint32_t code) {
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x061c || code == 0x200e ||
           code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069);
}

bool sonde_utf8_is_clean(const char *text, size_t len) {
    uint32_t code;
    for (size_t i = 0, step; i < len; i += step) {
        step = sonde_utf8_next(text + i, len - i, &code);
        if (step == 0 || sonde_utf8_is_control(code))
            return false;
    }
    return true;
}

bool sonde_utf8_has_control(const char *text, size_t len) {
    uint32_t code;
    for (size_t i = 0, step; i < len; i += step ? step : 1) {
        step = sonde_utf8_next(text + i, len - i, &code);
        if (step && sonde_utf8_is_control(code))
            return true;
    }
    return false;
}

void sonde_utf8_clean(struct sonde_buf *out, const char *text, size_t len) {
    uint32_t code;
    for (size_t i = 0; i < len;) {
        size_t step = sonde_utf8_next(text + i, len - i, &code);
        if (step == 0)
            sonde_buf_printf(out, "\\x%02x", (uint8_t)text[i]);
        else if (sonde_utf8_is_control(code))
            sonde_buf_putc(out, ' ');
        else
            sonde_buf_append(out, text + i, step);
        i += step ? step : 1;
    }
}

size_t sonde_utf8_printable(const char *text, size_t len) {
    uint32_t code;
    size_t step = sonde_utf8_next(text, len, &code);
    return step && !sonde_utf8_is_control(code) ? step : 0;
}

void sonde_utf8_escape(struct sonde_buf *out, const char *text, size_t len) {
    for (size_t i = 0; i < len;) {
        size_t step = sonde_utf8_printable(text + i, len - i);
        if (step)
            sonde_buf_append(out, text + i, step);
        else
            sonde_buf_printf(out, "\\x%02x", (uint8_t)text[i]);
        i += step ? step : 1;
    }
}

void sonde_utf8_replace(char *text, char other) {
    size_t len = strlen(text);
    for (size_t i = 0; i < len;) {
        size_t step = sonde_utf8_printable(text + i, len - i);
        if (!step)
            text[i] = other;
        i += step ? step : 1;
    }
}

size_t sonde_utf8_put_next(struct sonde_buf *out, const char *text, size_t len, char other) {
    size_t step = sonde_utf8_printable(text, len);
    if (step)
        sonde_buf_append(out, text, step);
    else
        sonde_buf_putc(out, other);
    return step ? step : 1;
}

void sonde_utf8_put(struct sonde_buf *out, const char *text, char other) {
    for (size_t i = 0, len = strlen(text); i < len;)
        i += sonde_utf8_put_next(out, text + i, len - i, other);
}
