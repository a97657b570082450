/* SPDX-License-Identifier: Apache-2.0
 *
 * Demangled names, each made once when it is first asked for and kept beside its table within a
 * bound. Thread safety: any thread; two that race make the same name and one of them is kept. */
#ifndef SONDE_SERVICE_SYMBOL_DISPLAY_NAMES_H
#define SONDE_SERVICE_SYMBOL_DISPLAY_NAMES_H

#include "api/bytes.h"
#include "api/error.h"

#include <stdatomic.h>

#define SYMBOL_SHOWN_BYTES ((size_t)16 << 20) /* of one table; further names are made each time */

struct symbol_shown {
    _Atomic(char *) *names;
    size_t count;
    atomic_size_t bytes;
};

SONDE_MUST_USE sonde_err symbol_shown_init(struct symbol_shown *shown, size_t count);
void symbol_shown_finish(struct symbol_shown *shown);
/* The readable form of `linkage`, the name with that index, copied to the arena. NULL when out of
 * memory. */
const char *symbol_shown_get(struct symbol_shown *shown, uint32_t index, const char *linkage,
                             struct sonde_arena *arena);

#endif
