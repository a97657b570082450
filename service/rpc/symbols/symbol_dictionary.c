/* SPDX-License-Identifier: Apache-2.0
 *
 * A message is filled address by address until it is large enough. Then the entries that the tables
 * gained in the meantime are added as "new". When a table is full, all tables are cleared and start
 * again with the message that did not fit. */
#include "service/rpc/symbols/symbol_dictionary.h"

#include "api/base/array.h"
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/rpc/base/text.h"
#include "service/rpc/core/call.h"
#include "service/symbol/symbol.h"

#include <stdlib.h>
#include <string.h>

#define FRAME_BYTES   6  /* approximate size of a frame's entries */
#define ADDRESS_BYTES 14 /* and of an address's */
#define CACHE         4096u

/* Keyed by pointers: within a batch, equal names are the same pointer. */
struct cached {
    const char *name, *system_name, *file;
    uint32_t function;
};

struct part {
    struct symbol_tables *tables;
    struct sonde_arena arena;
    Sonde__V1__SymbolBatch message;
    size_t frame_capacity, bytes;
    uint32_t strings, functions, modules; /* sizes before this message */
    const struct engine_symbol *last;     /* the address whose module was looked up last */
    uint32_t last_module;
    struct cached *cache;
};

void symbol_tables_init(struct symbol_tables *tables, size_t limit_bytes) {
    *tables = (struct symbol_tables){0};
    dictionary_init(&tables->strings, limit_bytes);
    dictionary_init(&tables->functions, limit_bytes);
    dictionary_init(&tables->modules, limit_bytes);
}

void symbol_tables_finish(struct symbol_tables *tables) {
    dictionary_finish(&tables->strings);
    dictionary_finish(&tables->functions);
    dictionary_finish(&tables->modules);
}

void symbol_parts_finish(struct symbol_parts *parts, size_t from) {
    for (size_t i = from; i < parts->count; i++)
        grpc_slice_unref(parts->items[i]);
    free(parts->items);
    *parts = (struct symbol_parts){0};
}

/* --- numbers -----------------------------------------------------------------------------------
 */

static uint32_t string_number(struct part *part, const char *text) {
    bool is_new;
    text = rpc_text(&part->arena, text ? text : "");
    size_t len = strlen(text);
    uint32_t number = dictionary_add(&part->tables->strings, text, len, &is_new);
    if (is_new)
        part->bytes += len + 3;
    return number;
}

static struct cached *cached_of(struct part *part, const struct symbol_frame *frame) {
    uint64_t key = (uintptr_t)frame->name ^ (uintptr_t)frame->file << 7;
    return &part->cache[(key * 0x9e3779b97f4a7c15ull >> 32) % CACHE];
}

/* DICTIONARY_NONE when a table is full. */
static uint32_t function_number(struct part *part, const struct symbol_frame *frame) {
    struct cached *cached = cached_of(part, frame);
    if (cached->name == frame->name && cached->system_name == frame->system_name &&
        cached->file == frame->file && frame->name)
        return cached->function;
    uint32_t key[3] = {string_number(part, frame->name), string_number(part, frame->system_name),
                       string_number(part, frame->file)};
    bool is_new;
    if (key[0] == DICTIONARY_NONE || key[1] == DICTIONARY_NONE || key[2] == DICTIONARY_NONE)
        return DICTIONARY_NONE;
    uint32_t number = dictionary_add(&part->tables->functions, key, sizeof key, &is_new);
    part->bytes += is_new ? 16 : 0;
    if (number != DICTIONARY_NONE)
        *cached = (struct cached){frame->name, frame->system_name, frame->file, number};
    return number;
}

struct module_key {
    uint32_t name, build_id, reason; /* numbers of strings */
    int32_t quality, kind;
};

static bool same_module(const struct engine_symbol *a, const struct engine_symbol *b) {
    return a && a->module == b->module && a->build_id == b->build_id && a->reason == b->reason &&
           a->quality == b->quality && a->kind == b->kind;
}

/* The module's number + 1; 0 = in no module, DICTIONARY_NONE when a table is full. */
static uint32_t module_number(struct part *part, const struct engine_symbol *symbol) {
    if (!symbol->module[0] && !symbol->build_id[0])
        return 0;
    if (same_module(part->last, symbol))
        return part->last_module;
    struct module_key key = {
        string_number(part, symbol->module), string_number(part, symbol->build_id),
        string_number(part, symbol->reason), symbol->quality, (int32_t)symbol->kind};
    bool is_new;
    if (key.name == DICTIONARY_NONE || key.build_id == DICTIONARY_NONE ||
        key.reason == DICTIONARY_NONE)
        return DICTIONARY_NONE;
    uint32_t number = dictionary_add(&part->tables->modules, &key, sizeof key, &is_new);
    if (number == DICTIONARY_NONE)
        return DICTIONARY_NONE;
    part->bytes += is_new ? 320 : 0;
    part->last = symbol;
    part->last_module = number + 1;
    return number + 1;
}

/* --- one address -------------------------------------------------------------------------------
 */

static bool grow_frames(struct part *part, size_t more) {
    Sonde__V1__SymbolBatch *message = &part->message;
    size_t needed = message->n_function + more;
    if (needed <= part->frame_capacity)
        return true;
    size_t capacity = needed * 2 + 1024;
    uint32_t *functions = sonde_arena_alloc(&part->arena, capacity * sizeof *functions);
    uint32_t *lines = sonde_arena_alloc(&part->arena, capacity * sizeof *lines);
    if (!functions || !lines)
        return false;
    if (message->n_function > 0) {
        memcpy(functions, message->function, message->n_function * sizeof *functions);
        memcpy(lines, message->line, message->n_function * sizeof *lines);
    }
    message->function = functions;
    message->line = lines;
    part->frame_capacity = capacity;
    return true;
}

/* SONDE_TOO_LARGE when a table is full; entries already added for the address are then unused. */
static sonde_err add_address(struct part *part, const struct engine_symbol *symbol) {
    Sonde__V1__SymbolBatch *message = &part->message;
    uint32_t count = symbol->frame_count < SYMBOL_TABLES_MAX_FRAMES ? symbol->frame_count
                                                                    : SYMBOL_TABLES_MAX_FRAMES;
    size_t at = message->n_module, frame_at = message->n_function;
    uint32_t module = module_number(part, symbol);
    if (module == DICTIONARY_NONE)
        return SONDE_TOO_LARGE;
    if (!grow_frames(part, count))
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t function = function_number(part, &symbol->frames[i]);
        if (function == DICTIONARY_NONE)
            return SONDE_TOO_LARGE;
        message->function[frame_at + i] = function;
        message->line[frame_at + i] = symbol->frames[i].line;
    }
    message->module[at] = module;
    message->module_offset[at] = symbol->module_offset;
    message->symbol_offset[at] =
        symbol->frame_count ? symbol->frames[symbol->frame_count - 1].offset : 0;
    message->frame_count[at] = count;
    if (symbol->is_folded)
        message->folded[message->n_folded++] = (uint32_t)at;
    message->n_module = message->n_module_offset = message->n_symbol_offset =
        message->n_frame_count = at + 1;
    message->n_function = message->n_line = frame_at + count;
    part->bytes += ADDRESS_BYTES + count * FRAME_BYTES;
    return SONDE_OK;
}

static sonde_err part_begin(struct part *part, size_t addresses) {
    Sonde__V1__SymbolBatch *message = &part->message;
    size_t most = addresses < SYMBOL_TABLES_ADDRESSES ? addresses : SYMBOL_TABLES_ADDRESSES;
    sonde__v1__symbol_batch__init(message);
    message->module = sonde_arena_alloc(&part->arena, (most + 1) * sizeof *message->module);
    message->module_offset = sonde_arena_alloc(&part->arena, (most + 1) * sizeof(uint64_t));
    message->symbol_offset = sonde_arena_alloc(&part->arena, (most + 1) * sizeof(uint64_t));
    message->frame_count = sonde_arena_alloc(&part->arena, (most + 1) * sizeof(uint32_t));
    message->folded = sonde_arena_alloc(&part->arena, (most + 1) * sizeof(uint32_t));
    part->strings = part->tables->strings.count;
    part->functions = part->tables->functions.count;
    part->modules = part->tables->modules.count;
    part->last = NULL;
    part->bytes = 0;
    return message->module && message->module_offset && message->symbol_offset &&
                   message->frame_count && message->folded
               ? SONDE_OK
               : SONDE_OUT_OF_MEMORY;
}

/* --- what is new -------------------------------------------------------------------------------
 */

static bool add_functions(struct part *part) {
    const struct dictionary *functions = &part->tables->functions;
    size_t count = functions->count - part->functions;
    Sonde__V1__SymbolFunction *items = sonde_arena_alloc(&part->arena, count * sizeof *items + 1);
    Sonde__V1__SymbolFunction **list = sonde_arena_alloc(&part->arena, count * sizeof *list + 1);
    if (!items || !list)
        return false;
    for (size_t i = 0; i < count; i++) {
        uint32_t key[3];
        memcpy(key, functions->items[part->functions + i].bytes, sizeof key);
        sonde__v1__symbol_function__init(&items[i]);
        items[i].name = key[0];
        items[i].system_name = key[1];
        items[i].file = key[2];
        list[i] = &items[i];
    }
    part->message.functions = list;
    part->message.n_functions = count;
    return true;
}

static bool add_modules(struct part *part) {
    const struct symbol_tables *tables = part->tables;
    size_t count = tables->modules.count - part->modules;
    Sonde__V1__SymbolModule *items = sonde_arena_alloc(&part->arena, count * sizeof *items + 1);
    Sonde__V1__SymbolModule **list = sonde_arena_alloc(&part->arena, count * sizeof *list + 1);
    if (!items || !list)
        return false;
    for (size_t i = 0; i < count; i++) {
        struct module_key key;
        memcpy(&key, tables->modules.items[part->modules + i].bytes, sizeof key);
        sonde__v1__symbol_module__init(&items[i]);
        items[i].name = (char *)tables->strings.items[key.name].bytes;
        items[i].build_id = (char *)tables->strings.items[key.build_id].bytes;
        items[i].reason = (char *)tables->strings.items[key.reason].bytes;
        items[i].quality = (Sonde__V1__AddressSymbols__Quality)key.quality;
        items[i].kind = (Sonde__V1__FrameKind)key.kind;
        list[i] = &items[i];
    }
    part->message.modules = list;
    part->message.n_modules = count;
    return true;
}

static bool add_strings(struct part *part) {
    const struct dictionary *strings = &part->tables->strings;
    size_t count = strings->count - part->strings;
    char **list = sonde_arena_alloc(&part->arena, count * sizeof *list + 1);
    for (size_t i = 0; i < count && list; i++)
        list[i] = (char *)strings->items[part->strings + i].bytes;
    part->message.strings = list;
    part->message.n_strings = count;
    return list != NULL;
}

static sonde_err part_end(struct part *part, struct symbol_parts *parts) {
    if (!array_room(&parts->items, &parts->capacity, parts->count, 1))
        return SONDE_OUT_OF_MEMORY;
    if (!add_strings(part) || !add_functions(part) || !add_modules(part))
        return SONDE_OUT_OF_MEMORY;
    parts->items[parts->count++] = rpc_pack(&part->message.base);
    return SONDE_OK;
}

/* --- a batch -----------------------------------------------------------------------------------
 */

/* Packs as many addresses as fit into one message and advances *done. SONDE_TOO_LARGE when a table
 * is full. */
static sonde_err pack_part(struct part *part, const struct engine_symbol *symbols, size_t count,
                           size_t *done, struct symbol_parts *parts) {
    size_t at = *done;
    sonde_err err = SONDE_OK;
    while (!err && at < count && part->message.n_module < SYMBOL_TABLES_ADDRESSES &&
           part->bytes < SYMBOL_TABLES_PART) {
        err = add_address(part, &symbols[at]);
        at += !err;
    }
    part->message.more = at < count;
    if (!err)
        err = part_end(part, parts);
    if (!err)
        *done = at;
    return err;
}

static sonde_err try_part(struct symbol_tables *tables, bool reset, struct cached *cache,
                          const struct engine_symbol *symbols, size_t count, size_t *done,
                          struct symbol_parts *parts) {
    struct part part = {.tables = tables, .cache = cache};
    sonde_err err = part_begin(&part, count - *done);
    part.message.reset = reset;
    if (!err)
        err = pack_part(&part, symbols, count, done, parts);
    sonde_arena_finish(&part.arena);
    return err;
}

sonde_err symbol_tables_pack(struct symbol_tables *tables, const struct engine_symbol *symbols,
                             size_t count, struct symbol_parts *parts) {
    struct cached *cache = calloc(CACHE, sizeof *cache);
    size_t done = 0;
    sonde_err err = cache ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    do {
        if (!err)
            err = try_part(tables, false, cache, symbols, count, &done, parts);
        if (err != SONDE_TOO_LARGE)
            continue;
        size_t limit = tables->strings.limit_bytes;
        symbol_tables_finish(tables);
        symbol_tables_init(tables, limit);
        memset(cache, 0, CACHE * sizeof *cache);
        err = try_part(tables, true, cache, symbols, count, &done, parts);
        if (err == SONDE_TOO_LARGE) /* a single message exceeds the bound */
            err = SONDE_OUT_OF_MEMORY;
    } while (!err && done < count);
    free(cache);
    return err;
}
