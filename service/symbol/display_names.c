/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/display_names.h"

#include "service/symbol/demangle.h"

#include <stdlib.h>
#include <string.h>

static atomic_size_t all_bytes;

sonde_err symbol_display_names_init(struct symbol_display_names *display, size_t count) {
    *display = (struct symbol_display_names){
        .names = calloc(count ? count : 1, sizeof *display->names), .count = count};
    return display->names ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

void symbol_display_names_finish(struct symbol_display_names *display) {
    for (size_t i = 0; i < display->count && display->names; i++)
        free(atomic_load_explicit(&display->names[i], memory_order_relaxed));
    free(display->names);
    atomic_fetch_sub_explicit(&all_bytes, atomic_load(&display->bytes), memory_order_relaxed);
    *display = (struct symbol_display_names){0};
}

/* Caches the name, unless another thread was first or the limit is reached. */
static void keep(struct symbol_display_names *display, uint32_t index, struct sonde_buf *name) {
    size_t len;
    if (atomic_load_explicit(&display->bytes, memory_order_relaxed) > SYMBOL_DISPLAY_NAMES_BYTES ||
        atomic_load_explicit(&all_bytes, memory_order_relaxed) > SYMBOL_DISPLAY_NAMES_ALL)
        return;
    char *text = sonde_buf_take(name, &len), *none = NULL;
    char *trimmed = text ? realloc(text, len + 1) : NULL;
    text = trimmed ? trimmed : text;
    if (!text || !atomic_compare_exchange_strong(&display->names[index], &none, text)) {
        free(text);
        return;
    }
    atomic_fetch_add_explicit(&display->bytes, len + 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&all_bytes, len + 1, memory_order_relaxed);
}

const char *symbol_display_names_get(struct symbol_display_names *display, uint32_t index,
                                     const char *linkage, struct sonde_arena *arena) {
    const char *kept = index < display->count ? atomic_load(&display->names[index]) : NULL;
    if (kept)
        return sonde_arena_dup(arena, kept, strlen(kept));
    struct sonde_buf name = {0};
    symbol_demangle(linkage, &name);
    const char *copy =
        name.failed ? NULL : sonde_arena_dup(arena, name.data ? name.data : "", name.len);
    if (copy && index < display->count && name.len > 0)
        keep(display, index, &name);
    sonde_buf_finish(&name);
    return copy;
}
