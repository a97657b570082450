/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/display_names.h"

#include "service/symbol/demangle.h"

#include <stdlib.h>
#include <string.h>

sonde_err symbol_shown_init(struct symbol_shown *shown, size_t count) {
    *shown = (struct symbol_shown){.names = calloc(count ? count : 1, sizeof *shown->names),
                                   .count = count};
    return shown->names ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

void symbol_shown_finish(struct symbol_shown *shown) {
    for (size_t i = 0; i < shown->count && shown->names; i++)
        free(atomic_load_explicit(&shown->names[i], memory_order_relaxed));
    free(shown->names);
    *shown = (struct symbol_shown){0};
}

/* Keeps the name unless another thread was first or the table holds enough of them. */
static void keep(struct symbol_shown *shown, uint32_t index, struct sonde_buf *name) {
    size_t len;
    if (atomic_load_explicit(&shown->bytes, memory_order_relaxed) > SYMBOL_SHOWN_BYTES)
        return;
    char *text = sonde_buf_take(name, &len), *none = NULL;
    char *trimmed = text ? realloc(text, len + 1) : NULL;
    text = trimmed ? trimmed : text;
    if (text && atomic_compare_exchange_strong(&shown->names[index], &none, text))
        atomic_fetch_add_explicit(&shown->bytes, len + 1, memory_order_relaxed);
    else
        free(text);
}

const char *symbol_shown_get(struct symbol_shown *shown, uint32_t index, const char *linkage,
                             struct sonde_arena *arena) {
    const char *kept = index < shown->count ? atomic_load(&shown->names[index]) : NULL;
    if (kept)
        return sonde_arena_dup(arena, kept, strlen(kept));
    struct sonde_buf name = {0};
    symbol_demangle(linkage, &name);
    const char *copy =
        name.failed ? NULL : sonde_arena_dup(arena, name.data ? name.data : "", name.len);
    if (copy && index < shown->count && name.len > 0)
        keep(shown, index, &name);
    sonde_buf_finish(&name);
    return copy;
}
