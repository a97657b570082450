/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers for a batch. Addresses repeat functions, so each name is made and copied once per call; a
 * small open-addressed table remembers which. */
#include "service/symbol/demangle.h"
#include "service/symbol/store.h"

#include <stdlib.h>
#include <string.h>

struct memo_slot {
    const struct symbol_table *table; /* NULL = free */
    uint32_t symbol;
    const char *name, *system_name;
};

struct batch {
    struct sonde_arena *arena;
    struct memo_slot *slots;
    size_t mask;
    struct symbol_module
        *module; /* of the query before, and its table: mostly the next one's too */
    struct symbol_table *table;
};

static struct symbol_table *table_of(struct batch *batch, struct symbol_module *module) {
    if (module != batch->module) {
        batch->module = module;
        batch->table = module ? symbol_module_table(module) : NULL;
    }
    return batch->table;
}

static struct memo_slot *find_slot(struct batch *batch, const struct symbol_table *table,
                                   uint32_t symbol) {
    uint64_t hash = ((uintptr_t)table >> 4 ^ symbol) * 0x9e3779b97f4a7c15ull;
    size_t at = (size_t)(hash >> 32) & batch->mask;
    while (batch->slots[at].table &&
           (batch->slots[at].table != table || batch->slots[at].symbol != symbol))
        at = (at + 1) & batch->mask;
    return &batch->slots[at];
}

static const char *clean_name(struct sonde_arena *arena, const char *name) {
    struct sonde_buf text = {0};
    symbol_clean(name, strlen(name), &text);
    const char *copy =
        text.failed ? NULL : sonde_arena_dup(arena, text.data ? text.data : "", text.len);
    sonde_buf_finish(&text);
    return copy;
}

/* The names of a symbol, made when the batch meets it for the first time. */
static const struct memo_slot *names_of(struct batch *batch, struct symbol_table *table,
                                        uint32_t symbol) {
    struct memo_slot *slot = find_slot(batch, table, symbol);
    if (slot->table)
        return slot;
    const char *linkage = symbol_names_text(&table->names, symbol);
    const char *name = symbol_shown_get(&table->shown, symbol, linkage, batch->arena);
    const char *system_name = clean_name(batch->arena, linkage);
    if (!name || !system_name)
        return NULL;
    *slot = (struct memo_slot){table, symbol, name, system_name};
    return slot;
}

static sonde_err answer_one(struct batch *batch, const struct symbol_query *query,
                            struct symbol_answer *answer) {
    *answer = (struct symbol_answer){0};
    struct symbol_table *table = table_of(batch, query->module);
    if (!table)
        return SONDE_OK;
    answer->quality = (enum symbol_quality)table->names.header->quality;
    uint32_t symbol = symbol_names_find(&table->names, query->vaddr);
    if (symbol == SYMBOL_NO_SYMBOL)
        return SONDE_OK;
    const struct memo_slot *slot = names_of(batch, table, symbol);
    struct symbol_frame *frame = slot ? sonde_arena_alloc(batch->arena, sizeof *frame) : NULL;
    if (!frame)
        return SONDE_OUT_OF_MEMORY;
    const struct symbol_entry *entry = &table->names.symbols[symbol];
    *frame = (struct symbol_frame){
        .name = slot->name,
        .system_name = slot->system_name,
        .file = "",
        .offset = query->vaddr - table->names.header->base - entry->start,
    };
    answer->frames = frame;
    answer->frame_count = 1;
    answer->is_folded = entry->flags & SYMBOL_IS_FOLDED;
    return SONDE_OK;
}

sonde_err symbol_resolve(struct symbol_store *store, const struct symbol_query *queries,
                         size_t count, struct sonde_arena *arena, struct symbol_answer *answers) {
    size_t slots = 16;
    while (slots < 2 * count)
        slots *= 2;
    struct batch batch = {
        .arena = arena, .slots = calloc(slots, sizeof *batch.slots), .mask = slots - 1};
    sonde_err err = batch.slots ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < count && err == SONDE_OK; i++)
        err = answer_one(&batch, &queries[i], &answers[i]);
    free(batch.slots);
    return err;
}
