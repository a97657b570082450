/* SPDX-License-Identifier: Apache-2.0
 *
 * Which arguments of the standard library's templates are the default ones. Internal to
 * readable_name.c. */
#ifndef SONDE_API_DRAW_NAMES_DEFAULT_ARGUMENTS_H
#define SONDE_API_DRAW_NAMES_DEFAULT_ARGUMENTS_H

#include "api/bytes.h"

#define DRAW_MAX_ARGUMENTS 64

/* A template's name and its arguments, which are readable already. */
struct draw_template {
    struct sonde_slice name; /* "std::map" */
    struct sonde_slice arguments[DRAW_MAX_ARGUMENTS];
    size_t count;
};

/* The number of arguments without the last ones that are the default. */
size_t draw_without_defaults(const struct draw_template *of);
/* "std::string" for a std::basic_string of char; NULL if the library has no such name. */
const char *draw_standard_alias(const struct draw_template *of, size_t count);

#endif
