/* SPDX-License-Identifier: Apache-2.0
 *
 * Demangled names as people write them: std::string for its eleven lines of template arguments, no
 * default arguments, inline namespaces, ABI tags and return types, and "(...)" for parameters.
 * gateway/ui/names.js has the same rules; tests/unit/draw/names/names.txt is the table for both.
 * Names that are not from C++ hardly change. Thread safety: any thread. */
#ifndef SONDE_API_DRAW_NAMES_READABLE_NAME_H
#define SONDE_API_DRAW_NAMES_READABLE_NAME_H

#include "api/bytes.h"

/* Appends the readable form of a name. A name that cannot be parsed, or is nested too deeply, is
 * appended as it is. Different functions may have the same readable name: see view_names.h. */
void draw_readable_name(struct sonde_buf *out, const char *name, bool with_parameters);

#endif
