/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of Firefox's profile format: interned strings, and the libraries. Internal to
 * api/draw/formats. */
#ifndef SONDE_API_DRAW_FORMATS_FIREFOX_H
#define SONDE_API_DRAW_FORMATS_FIREFOX_H

#include "api/draw/draw.h"
#include "api/profile/table.h"

/* Borrowed strings, numbered in the order of adding, each with a value of the caller's. */
struct firefox_text {
    const char *text;
    uint32_t value;
};
struct firefox_texts {
    struct profile_table table;
};

void firefox_texts_init(struct firefox_texts *texts);
void firefox_texts_finish(struct firefox_texts *texts);
/* The number of the text; PROFILE_TABLE_NONE if it was not added. */
uint32_t firefox_texts_find(const struct firefox_texts *texts, const char *text);
/* The same, but adds it with the value; PROFILE_TABLE_NONE when out of memory. */
uint32_t firefox_texts_add(struct firefox_texts *texts, const char *text, uint32_t value);
const struct firefox_text *firefox_texts_get(const struct firefox_texts *texts, uint32_t number);
void firefox_texts_put(const struct firefox_texts *texts, struct sonde_buf *out); /* JSON array */

/* Adds the base names of the profile's files; their values are ids of mappings. */
SONDE_MUST_USE sonde_err firefox_libs_fill(struct firefox_texts *libs,
                                           const struct sonde_profile *profile);
/* Appends the array "libs", in the order of the texts. */
void firefox_libs_put(const struct firefox_texts *libs, const struct sonde_profile *profile,
                      struct sonde_buf *out);

#endif
