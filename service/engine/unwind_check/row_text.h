/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a row of unwind information as text, piece by piece, into a fixed array; what does not fit
 * is cut. Any thread. */
#ifndef SONDE_SERVICE_ENGINE_UNWIND_CHECK_ROW_TEXT_H
#define SONDE_SERVICE_ENGINE_UNWIND_CHECK_ROW_TEXT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

struct row_text {
    char *at; /* the end of the text so far */
    size_t left;
};

__attribute__((format(printf, 2, 3))) static inline void row_text_put(struct row_text *text,
                                                                      const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(text->at, text->left, format, arguments);
    va_end(arguments);
    size_t written = len < 0 ? 0 : (size_t)len < text->left ? (size_t)len : text->left - 1;
    text->at += written;
    text->left -= written;
}

#endif
