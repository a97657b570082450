/* SPDX-License-Identifier: Apache-2.0
 *
 * Names that fit a terminal. What says least about a function goes first: the parameters, then the
 * arguments of templates and generics, then the namespaces at the front. Thread safety: any thread.
 */
#ifndef SONDE_API_DRAW_SHORT_NAME_H
#define SONDE_API_DRAW_SHORT_NAME_H

#include "api/bytes.h"

/* Appends a name of at most `columns` characters, at least 8: the whole name if it fits, else
 * "f(...)", "f<...>(...)" or "...end_of_name". Names are UTF-8; markup is not escaped. */
void draw_short_name(struct sonde_buf *out, const char *name, size_t columns);

#endif
