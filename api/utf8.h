/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8, strictly: names come from other people's binaries. Internal to api/. Thread safety: any
 * thread. */
#ifndef SONDE_API_UTF8_H
#define SONDE_API_UTF8_H

#include "api/bytes.h"

/* Length of the first character (1..4) and its code point; 0 when the bytes are not UTF-8 (overlong
 * forms, surrogates and values past U+10FFFF included). len >= 1. */
size_t profile_utf8_next(const char *text, size_t len, uint32_t *code);
/* Whether profile_utf8_clean would change nothing. */
bool profile_utf8_is_clean(const char *text, size_t len);
/* Appends text with bytes that are not UTF-8 as \xNN and control characters as spaces. */
void profile_utf8_clean(struct sonde_buf *out, const char *text, size_t len);

#endif
