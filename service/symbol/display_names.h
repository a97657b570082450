/* SPDX-License-Identifier: Apache-2.0
 *
 * The demangled names of a table. Each name is demangled when it is first needed and then cached,
 * up to a limit. Thread safety: any thread; if two demangle the same name, one of the copies is
 * kept. */
#ifndef SONDE_SERVICE_SYMBOL_DISPLAY_NAMES_H
#define SONDE_SERVICE_SYMBOL_DISPLAY_NAMES_H

#include "api/bytes.h"
#include "api/error.h"

#include <stdatomic.h>

/* Per table, and of all tables. Further names are demangled each time. */
#define SYMBOL_DISPLAY_NAMES_BYTES ((size_t)16 << 20)
#define SYMBOL_DISPLAY_NAMES_ALL   ((size_t)64 << 20)

struct symbol_display_names {
    _Atomic(char *) *names;
    size_t count;
    atomic_size_t bytes;
};

SONDE_MUST_USE sonde_err symbol_display_names_init(struct symbol_display_names *display,
                                                   size_t count);
void symbol_display_names_finish(struct symbol_display_names *display);
/* Demangles `linkage`, the name with that index in the table, and copies the result to the arena.
 * NULL if out of memory. */
const char *symbol_display_names_get(struct symbol_display_names *display, uint32_t index,
                                     const char *linkage, struct sonde_arena *arena);

#endif
