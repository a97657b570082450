/* SPDX-License-Identifier: Apache-2.0
 *
 * Which functions somebody means by a name that was typed, or copied from a table: one called
 * exactly that; else those whose readable name is that, with or without its parameters
 * ("shop::price" for "shop::price(std::string const&)"); else those that it matches as a pattern.
 * Thread safety: any thread. */
#ifndef SONDE_API_DRAW_NAMES_NAME_MATCH_H
#define SONDE_API_DRAW_NAMES_NAME_MATCH_H

#include "api/bytes.h"

/* How well a function's name fits. Only the functions that fit best are meant. */
enum draw_fit { DRAW_FIT_NONE, DRAW_FIT_PATTERN, DRAW_FIT_READABLE, DRAW_FIT_EXACT };

/* A typed name, to be compared with many. */
struct draw_typed {
    const char *name;         /* borrowed */
    struct sonde_buf pattern; /* with * for dots; empty = the name is not a pattern */
    bool with_parameters;     /* also compare the form that has parameters */
};

void draw_typed_init(struct draw_typed *typed, const char *name);
void draw_typed_finish(struct draw_typed *typed);
/* Returns DRAW_FIT_NONE also when out of memory. Parses `name` at most twice. */
enum draw_fit draw_typed_fit(const struct draw_typed *typed, const char *name);
/* Appends what is typed with * for the dots of shortened names: "parse(...)", "...end_of_name",
 * "begin_of_na…". */
void draw_name_pattern(struct sonde_buf *out, const char *typed);

#endif
