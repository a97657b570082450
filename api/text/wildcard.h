/* SPDX-License-Identifier: Apache-2.0
 *
 * Names with * for any characters. Thread safety: any thread. */
#ifndef SONDE_API_TEXT_WILDCARD_H
#define SONDE_API_TEXT_WILDCARD_H

#include <stdbool.h>

/* Whether the whole name matches: * stands for any number of characters, every other character for
 * itself. At most strlen(pattern) * strlen(name) steps. */
bool sonde_wildcard_matches(const char *pattern, const char *name);

#endif
