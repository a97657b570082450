/* SPDX-License-Identifier: Apache-2.0
 *
 * "Did you mean": the known name that a mistyped one was probably meant to be. Thread safety: any
 * thread. */
#ifndef SONDE_API_TEXT_NEAREST_H
#define SONDE_API_TEXT_NEAREST_H

#include <stddef.h>

/* Returns the name that the fewest typing errors separate from the word, or NULL if none is near.
 * One error is a letter that was added, left out or replaced, or two neighbours that changed
 * places; letters of the other case are equal. At most 1 error in words of up to 4 letters, 2 up to
 * 8, otherwise 3. A word that is not near any name, but is the beginning (3 letters or more) of
 * exactly one, means that one. The first of several equally near names is returned. Words and names
 * of more than 40 bytes are near nothing. NULL entries in `names` are skipped. */
const char *sonde_nearest(const char *word, const char *const *names, size_t count);

#endif
