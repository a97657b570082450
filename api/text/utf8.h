/* SPDX-License-Identifier: Apache-2.0
 *
 * Strict UTF-8 for text from outside: symbol names, command lines, requests. Overlong forms,
 * surrogates and code points above U+10FFFF are invalid. Thread safety: any thread. */
#ifndef SONDE_API_TEXT_UTF8_H
#define SONDE_API_TEXT_UTF8_H

#include "api/bytes.h"

/* Returns the length of the first character in bytes (1 to 4) and stores its code point in *code; 0
 * when the bytes are not UTF-8. len must be at least 1. */
size_t sonde_utf8_next(const char *text, size_t len, uint32_t *code);
bool sonde_utf8_is_valid(const char *text, size_t len);
/* Whether byte continues a character. Counting the other bytes counts the characters. */
static inline bool sonde_utf8_continues(char byte) {
    return ((unsigned char)byte & 0xc0) == 0x80;
}
/* Whether a character could change what a terminal or a reader sees of the text around it: control
 * characters (C0, DEL, C1) and those that change the direction of writing. */
bool sonde_utf8_is_control(uint32_t code);
/* Whether the text is valid and has no such characters, so that sonde_utf8_clean would copy it
 * unchanged. */
bool sonde_utf8_is_clean(const char *text, size_t len);
/* Whether the text has such characters. Invalid bytes are not. */
bool sonde_utf8_has_control(const char *text, size_t len);
/* Returns the length of the first character, or 0 if it is invalid or such a character. len must be
 * at least 1. */
size_t sonde_utf8_printable(const char *text, size_t len);
/* Appends the text with each invalid byte as \xNN and each control character as a space. */
void sonde_utf8_clean(struct sonde_buf *out, const char *text, size_t len);
/* Appends the text for a terminal or a log, with each byte of such a character and each invalid
 * byte as \xNN. */
void sonde_utf8_escape(struct sonde_buf *out, const char *text, size_t len);
/* Replaces each byte of such a character and each invalid byte in a string with `other`. */
void sonde_utf8_replace(char *text, char other);
/* Appends a string with the same replacements. */
void sonde_utf8_put(struct sonde_buf *out, const char *text, char other);
/* Appends the first character, or `other` for one byte. Returns the bytes of text that it stands
 * for. len must be at least 1. */
size_t sonde_utf8_put_next(struct sonde_buf *out, const char *text, size_t len, char other);

#endif
