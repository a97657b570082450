/* SPDX-License-Identifier: Apache-2.0
 *
 * Resolves a batch of addresses. Many addresses of a batch are in the same function, so a memo
 * makes sure that each name is demangled and copied to the arena once per batch.
 *
 * Two tables can know an address. The line table has the chain of inlined functions, files and
 * lines. The symbol table has the linkage name, with the compiler's clone suffixes, and is the only
 * source where DWARF has no function: assembly, padding, objects built without -g. */
#include "api/base/array.h"
#include "api/base/clock.h"
#include "api/hash_index.h"
#include "service/symbol/demangle.h"
#include "service/symbol/store.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_JITS   64   /* retained by one batch */
#define MAX_FRAMES 256u /* of one address; a longer chain loses its outermost frames */

/* The name of a function or file, by its table and its index there. */
struct memo_slot {
    const void *table;
    uint32_t number;
    const char *name, *system_name;
};

struct batch {
    struct sonde_arena *arena;
    struct memo_slot *slots;
    uint32_t used, capacity;
    struct hash_index index; /* of slots */
    const struct timespec *deadline;
    /* The previous query's module and tables; the next query usually has the same. */
    struct symbol_module *module;
    struct loaded_symbols *symbols;
    struct loaded_lines *lines;
    struct symbol_jit *jit; /* for memory of a process */
    /* The memo's keys are addresses of tables, so a table must not be freed while the memo names
     * it: retain all that were used. */
    struct symbol_jit *jits[MAX_JITS];
    uint32_t jit_count;
};

/* Releases the JIT tables and clears the memo. */
static void forget(struct batch *batch) {
    for (uint32_t i = 0; i < batch->jit_count; i++)
        symbol_jit_release(batch->jits[i]);
    batch->jit_count = 0;
    hash_index_clear(&batch->index);
    batch->used = 0;
}

static void choose_memory(struct batch *batch, struct symbol_module *module, uint64_t address) {
    struct symbol_jit *jit = symbol_module_jit(module, address);
    if (jit && jit == batch->jit) { /* it is retained already */
        symbol_jit_release(jit);
        return;
    }
    if (batch->jit_count == MAX_JITS)
        forget(batch);
    batch->jit = jit;
    if (jit)
        batch->jits[batch->jit_count++] = jit;
}

static void choose_module(struct batch *batch, struct symbol_module *module, uint64_t address) {
    bool is_kernel = module && module->kind == SYMBOL_MODULE_KERNEL;
    if (module == batch->module) {
        if (is_kernel)
            choose_memory(batch, module, address);
        return;
    }
    bool memory = module && module->is_flat;
    batch->module = module;
    batch->jit = NULL;
    if (memory)
        choose_memory(batch, module, address);
    batch->lines = module && !memory ? symbol_module_lines(module, batch->deadline) : NULL;
    batch->symbols = module && !memory ? symbol_module_symbols(module) : NULL;
}

/* --- the memo --------------------------------------------------------------------------------- */

static struct memo_slot *new_slot(struct batch *batch, uint32_t hash) {
    if (!array_room(&batch->slots, &batch->capacity, batch->used, 1))
        return NULL;
    return hash_index_add(&batch->index, hash, batch->used) ? &batch->slots[batch->used++] : NULL;
}

/* The slot of an item; a new one has no name yet. Valid until the next call. NULL if out of
 * memory. */
static struct memo_slot *remember(struct batch *batch, const void *table, uint32_t number) {
    uint32_t hash = hash_index_words(&batch->index, (uintptr_t)table, number), at;
    struct hash_probe probe = hash_probe(hash);
    while ((at = hash_index_next(&batch->index, &probe)) != HASH_INDEX_NONE)
        if (batch->slots[at].table == table && batch->slots[at].number == number)
            return &batch->slots[at];
    struct memo_slot *slot = new_slot(batch, hash);
    if (slot)
        *slot = (struct memo_slot){.table = table, .number = number};
    return slot;
}

static const char *clean_copy(struct sonde_arena *arena, const char *name) {
    struct sonde_buf text = {0};
    symbol_clean(name, strlen(name), &text);
    const char *copy =
        text.failed ? NULL : sonde_arena_dup(arena, text.data ? text.data : "", text.len);
    sonde_buf_finish(&text);
    return copy;
}

static const struct memo_slot *symbol_name(struct batch *batch, uint32_t symbol) {
    struct loaded_symbols *symbols = batch->symbols;
    struct memo_slot *slot = remember(batch, symbols, symbol);
    if (slot && !slot->name) {
        const char *linkage = symbol_table_name(&symbols->table, symbol);
        slot->system_name = clean_copy(batch->arena, linkage);
        slot->name =
            symbols->table.symbols[symbol].flags & SYMBOL_IS_PLAIN
                ? slot->system_name
                : symbol_display_names_get(&symbols->display, symbol, linkage, batch->arena);
    }
    return slot && slot->name && slot->system_name ? slot : NULL;
}

static const struct memo_slot *function_name(struct batch *batch, uint32_t function) {
    struct loaded_lines *lines = batch->lines;
    struct memo_slot *slot = remember(batch, lines, function);
    if (slot && !slot->name) {
        const char *text = line_table_function_name(&lines->table, function);
        bool linkage = function < lines->table.header->function_count &&
                       (lines->table.functions[function].flags & LINE_TABLE_IS_LINKAGE_NAME);
        slot->system_name = clean_copy(batch->arena, text);
        slot->name = linkage
                         ? symbol_display_names_get(&lines->display, function, text, batch->arena)
                         : slot->system_name;
    }
    return slot && slot->name && slot->system_name ? slot : NULL;
}

static const char *file_name(struct batch *batch, uint32_t file) {
    /* Files need a key that no other table has. */
    struct memo_slot *slot = remember(batch, &batch->lines->table, file);
    if (slot && !slot->name)
        slot->name = clean_copy(batch->arena, line_table_file_name(&batch->lines->table, file));
    return slot ? slot->name : NULL;
}

/* --- one address ------------------------------------------------------------------------------ */

static sonde_err answer_by_name(struct batch *batch, uint64_t vaddr, uint32_t symbol,
                                struct symbol_frame *frame) {
    const struct memo_slot *name = symbol_name(batch, symbol);
    if (!name)
        return SONDE_OUT_OF_MEMORY;
    const struct symbol_table *table = &batch->symbols->table;
    frame->name = name->name;
    frame->system_name = name->system_name;
    frame->offset = vaddr - table->header->base - table->symbols[symbol].start;
    return SONDE_OK;
}

static sonde_err set_line(struct batch *batch, uint32_t file, uint32_t line,
                          struct symbol_frame *frame) {
    frame->file = file_name(batch, file);
    frame->line = line;
    return frame->file ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

static uint32_t chain_len(const struct line_table *lines, uint32_t node) {
    uint32_t len = 0;
    while (node < lines->header->node_count && len < MAX_FRAMES) {
        uint32_t parent = lines->nodes[node].parent;
        len++;
        if (parent >= node) /* the outermost, or a damaged table */
            break;
        node = parent;
    }
    return len;
}

/* The symbol at the function's entry. Its mangled name includes the scope and the parameters, which
 * DWARF lacks for functions without a linkage name. */
static uint32_t entry_symbol(const struct batch *batch, const struct line_table_node *node) {
    if (!batch->symbols)
        return SYMBOL_NO_SYMBOL;
    const struct symbol_table *table = &batch->symbols->table;
    uint64_t start = batch->lines->table.header->base + node->call_file;
    uint32_t symbol = symbol_table_find(table, start);
    bool begins =
        symbol != SYMBOL_NO_SYMBOL && start == table->header->base + table->symbols[symbol].start;
    bool has_name = begins && !(table->symbols[symbol].flags & SYMBOL_IS_UNNAMED);
    return has_name ? symbol : SYMBOL_NO_SYMBOL;
}

static bool same_base(const char *left, const char *right) {
    size_t len = symbol_clone_base(left, strlen(left));
    return len == symbol_clone_base(right, strlen(right)) && memcmp(left, right, len) == 0;
}

/* The linkage name of a C function in DWARF is an alias of the compiler's choice, as
 * "__GI___libc_write"; the symbol table knows which of the aliases is public. */
static bool is_mangled(const char *name) {
    return name[0] == '_' && (name[1] == 'Z' || name[1] == 'R' || name[1] == 'D');
}

/* Completes the outermost frame, which is the function itself. `symbol` is the symbol at the
 * address: the function's own, or that of a part that was split off (".cold"). */
static sonde_err finish_outermost(struct batch *batch, uint64_t vaddr,
                                  const struct line_table_node *node, uint32_t symbol,
                                  struct symbol_frame *frame) {
    const struct line_table *lines = &batch->lines->table;
    uint32_t entry = entry_symbol(batch, node);
    frame->offset = vaddr - lines->header->base - node->call_file;
    if (entry != SYMBOL_NO_SYMBOL) {
        const struct memo_slot *linked = symbol_name(batch, entry);
        if (!linked)
            return SONDE_OUT_OF_MEMORY;
        bool has_linkage = node->function < lines->header->function_count &&
                           (lines->functions[node->function].flags & LINE_TABLE_IS_LINKAGE_NAME) &&
                           is_mangled(frame->system_name);
        bool folded = batch->symbols->table.symbols[entry].flags & SYMBOL_IS_FOLDED;
        frame->name = has_linkage ? frame->name : linked->name;
        if (!folded || !has_linkage) /* of folded functions only DWARF knows which one this is */
            frame->system_name = linked->system_name;
    }
    if (symbol == SYMBOL_NO_SYMBOL || symbol == entry)
        return SONDE_OK;
    const struct symbol_table *table = &batch->symbols->table;
    if (!same_base(frame->system_name, symbol_table_name(table, symbol)))
        return SONDE_OK;
    const struct memo_slot *part = symbol_name(batch, symbol);
    if (!part)
        return SONDE_OUT_OF_MEMORY;
    frame->system_name = part->system_name;
    frame->offset = vaddr - table->header->base - table->symbols[symbol].start;
    return SONDE_OK;
}

/* Fills the frames of an inline chain, innermost first. */
static sonde_err answer_by_chain(struct batch *batch, uint64_t vaddr, uint32_t node,
                                 uint32_t symbol, struct symbol_frame *frames, uint32_t count) {
    const struct line_table *lines = &batch->lines->table;
    uint32_t file, line;
    sonde_err err = SONDE_OK;
    if (line_table_find_line(lines, vaddr, &file, &line))
        err = set_line(batch, file, line, &frames[0]);
    for (uint32_t i = 0; i < count && err == SONDE_OK; i++) {
        const struct line_table_node *at = &lines->nodes[node];
        const struct memo_slot *name = function_name(batch, at->function);
        if (!name)
            return SONDE_OUT_OF_MEMORY;
        frames[i].name = name->name;
        frames[i].system_name = name->system_name;
        if (at->parent == LINE_TABLE_NO_NODE)
            err = finish_outermost(batch, vaddr, at, symbol, &frames[i]);
        else if (i + 1 < count)
            err = set_line(batch, at->call_file, at->call_line, &frames[i + 1]);
        node = at->parent;
    }
    return err;
}

/* A function that the compiler has split can be inlined into itself. */
static void share_outermost_name(const struct line_table *lines, uint32_t node,
                                 struct symbol_frame *frames, uint32_t count) {
    const struct symbol_frame *outermost = &frames[count - 1];
    uint32_t functions[MAX_FRAMES];
    for (uint32_t i = 0; i < count; i++, node = lines->nodes[node].parent)
        functions[i] = lines->nodes[node].function;
    for (uint32_t i = 0; i + 1 < count; i++)
        if (functions[i] == functions[count - 1])
            frames[i].name = outermost->name;
}

static uint64_t start_of(const struct batch *batch, uint32_t symbol) {
    const struct symbol_table *table = &batch->symbols->table;
    return table->header->base + table->symbols[symbol].start;
}

/* The start of a function in a stripped file, which has no name: "[module]+0xSTART". */
static const char *place_of(struct batch *batch, uint32_t symbol, const char *module) {
    const void *owner = module ? (const void *)module : batch->symbols;
    struct memo_slot *slot = remember(batch, owner, symbol);
    if (!slot || slot->name)
        return slot ? slot->name : NULL;
    if (!module)
        module = symbol_module_base_name(batch->module);
    struct sonde_buf text = {0};
    sonde_buf_printf(&text, module[0] == '[' ? "%s+0x%llx" : "[%s]+0x%llx", module,
                     (unsigned long long)start_of(batch, symbol));
    slot->name = text.failed ? NULL : clean_copy(batch->arena, text.data);
    sonde_buf_finish(&text);
    return slot->name;
}

static sonde_err set_jit_line(struct batch *batch, uint64_t address, struct symbol_answer *answer,
                              struct symbol_frame *frame) {
    uint32_t line;
    const char *file = symbol_jit_line(batch->jit, address, &line);
    if (!file)
        return SONDE_OK;
    struct memo_slot *slot =
        remember(batch, &batch->jit->rows, (uint32_t)(file - batch->jit->files.data));
    if (slot && !slot->name)
        slot->name = clean_copy(batch->arena, file);
    if (!slot || !slot->name)
        return SONDE_OUT_OF_MEMORY;
    frame->file = slot->name;
    frame->line = line;
    answer->quality = SYMBOL_FULL;
    return SONDE_OK;
}

static sonde_err answer_from_names(struct batch *batch, const struct symbol_query *query,
                                   uint32_t symbol, struct symbol_answer *answer) {
    uint64_t vaddr = query->vaddr;
    if (symbol == SYMBOL_NO_SYMBOL)
        return SONDE_OK;
    if (batch->symbols->table.symbols[symbol].flags & SYMBOL_IS_UNNAMED) {
        answer->place = place_of(batch, symbol, query->module_name);
        answer->place_offset = vaddr - start_of(batch, symbol);
        return answer->place ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    }
    struct symbol_frame *frame = sonde_arena_alloc(batch->arena, sizeof *frame);
    if (!frame || answer_by_name(batch, vaddr, symbol, frame) != SONDE_OK)
        return SONDE_OUT_OF_MEMORY;
    frame->file = "";
    answer->frames = frame;
    answer->frame_count = 1;
    uint32_t file, line; /* in DWARF, assembly has lines but no functions */
    if (batch->jit)
        return set_jit_line(batch, vaddr, answer, frame);
    if (batch->lines && line_table_find_line(&batch->lines->table, vaddr, &file, &line))
        return set_line(batch, file, line, frame);
    return SONDE_OK;
}

static sonde_err answer_one(struct batch *batch, const struct symbol_query *query,
                            struct symbol_answer *answer) {
    *answer = (struct symbol_answer){0};
    choose_module(batch, query->module, query->vaddr);
    uint32_t symbol = SYMBOL_NO_SYMBOL, node = LINE_TABLE_NO_NODE;
    if (batch->jit)
        batch->symbols = symbol_jit_symbols(batch->jit, query->vaddr);
    if (batch->symbols) {
        answer->quality = (enum symbol_quality)batch->symbols->table.header->quality;
        symbol = symbol_table_find(&batch->symbols->table, query->vaddr);
    }
    if (symbol != SYMBOL_NO_SYMBOL)
        answer->is_folded = batch->symbols->table.symbols[symbol].flags & SYMBOL_IS_FOLDED;
    if (batch->lines) {
        answer->quality = SYMBOL_FULL;
        node = line_table_find_node(&batch->lines->table, query->vaddr);
    }
    if (node == LINE_TABLE_NO_NODE)
        return answer_from_names(batch, query, symbol, answer);
    uint32_t count = chain_len(&batch->lines->table, node);
    struct symbol_frame *frames = sonde_arena_alloc(batch->arena, count * sizeof *frames);
    if (!frames)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        frames[i].file = "";
    answer->frames = frames;
    answer->frame_count = count;
    sonde_err err = answer_by_chain(batch, query->vaddr, node, symbol, frames, count);
    if (!err && count > 1)
        share_outermost_name(&batch->lines->table, node, frames, count);
    return err;
}

uint32_t symbol_answer_frames(const struct symbol_answer *answer, struct symbol_frame *unnamed,
                              const struct symbol_frame **frames) {
    *unnamed = (struct symbol_frame){
        .name = answer->place, .system_name = "", .file = "", .offset = answer->place_offset};
    *frames = answer->frame_count > 0 ? answer->frames : unnamed;
    return answer->frame_count > 0 ? answer->frame_count : answer->place != NULL;
}

/* --- batches ---------------------------------------------------------------------------------- */

static sonde_err resolve(const struct symbol_query *queries, size_t count,
                         const struct timespec *deadline, struct sonde_arena *arena,
                         struct symbol_answer *answers) {
    struct batch batch = {.arena = arena, .deadline = deadline};
    sonde_err err = SONDE_OK;
    hash_index_init(&batch.index);
    for (size_t i = 0; i < count && err == SONDE_OK; i++)
        err = answer_one(&batch, &queries[i], &answers[i]);
    forget(&batch);
    free(batch.slots);
    hash_index_finish(&batch.index);
    return err;
}

sonde_err symbol_resolve(struct symbol_store *store, const struct symbol_query *queries,
                         size_t count, struct sonde_arena *arena, struct symbol_answer *answers) {
    return resolve(queries, count, NULL, arena, answers);
}

sonde_err symbol_resolve_wait(struct symbol_store *store, const struct symbol_query *queries,
                              size_t count, uint32_t wait_ms, struct sonde_arena *arena,
                              struct symbol_answer *answers) {
    const struct timespec deadline = clock_wait_end(wait_ms);
    return resolve(queries, count, &deadline, arena, answers);
}
