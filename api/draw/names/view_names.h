/* SPDX-License-Identifier: Apache-2.0
 *
 * The names by which one view shows functions: readable ones, as short as they can be without two
 * functions having the same. Whatever the view shows, functions are told apart and merged by their
 * full names. Thread safety: any thread. */
#ifndef SONDE_API_DRAW_NAMES_VIEW_NAMES_H
#define SONDE_API_DRAW_NAMES_VIEW_NAMES_H

#include "api/bytes.h"
#include "api/error.h"

/* Fills shown[i] for names[i]; both may be one array. Functions whose names without parameters are
 * equal are shown with them, and by their full names if these are equal, too. A text that does not
 * change is the caller's; others are in the arena. Errors: SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err draw_view_names(const char *const *names, size_t count,
                                         struct sonde_arena *arena, const char **shown);

/* The same for the rows of a table with at most `columns` characters for a name: see short_name.h.
 * 0 columns = no limit. Rows that would look equal keep the part in which they differ. */
SONDE_MUST_USE sonde_err draw_row_names(const char *const *names, size_t count, size_t columns,
                                        struct sonde_arena *arena, const char **shown);

#endif
