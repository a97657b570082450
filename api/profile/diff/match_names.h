/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of functions and files that two versions of a program have in common. Internal to
 * api/profile. Thread safety: one thread at a time. */
#ifndef SONDE_API_PROFILE_DIFF_MATCH_NAMES_H
#define SONDE_API_PROFILE_DIFF_MATCH_NAMES_H

#include "api/profile/profile.h"
#include "api/profile/table.h"

/* The base name of a path, without " (deleted)". */
struct sonde_slice match_file_name(const char *path);
/* The file name of a library without its version: "libssl" for "/lib/libssl.so.1.1", "libpython"
 * for "libpython3.11.so.1.0". */
struct sonde_slice match_library(const char *path);
/* A function's name without what compilers append to variants of it: ".isra.0", ".cold",
 * " [clone .part.1]", "::h0123456789abcdef". */
struct sonde_slice match_function(const char *name);

/* The function names of a profile, by name and by match_function. Borrows from the profile. */
struct match_names {
    struct profile_table table;
};

/* Errors: SONDE_OUT_OF_MEMORY. Finish it in any case. */
SONDE_MUST_USE sonde_err match_names_init(struct match_names *names,
                                          const struct sonde_profile *profile);
void match_names_finish(struct match_names *names);
/* The profile's name for that function, or the name itself if it has none. */
const char *match_names_find(const struct match_names *names, const char *name);

#endif
