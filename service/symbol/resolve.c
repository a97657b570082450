/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers for a batch. Addresses repeat functions, so each name is made and copied once per call.
 *
 * Two tables may know an address. The full table gives the chain of inlined functions, files and
 * lines; the table of names gives the name as it was linked (with the compiler's suffixes), and the
 * name alone where DWARF has no function: assembly, padding, objects built without -g. */
#include "api/hash_index.h"
#include "service/symbol/demangle.h"
#include "service/symbol/store.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEPT_JITS   64
#define FIRST_SLOTS 512
#define MAX_FRAMES  256u /* of one chain; deeper ones lose their outermost frames */

/* What is remembered, by table and number: a name, or a file. */
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
    struct symbol_module
        *module; /* of the query before, and its tables: mostly the next one's too */
    struct symbol_table *table;
    struct symbol_full_table *full;
    struct symbol_jit *jit; /* of a module that is memory of a process */
    /* All that were used: what is remembered is known by the address of its table, which must not
     * become another's. */
    struct symbol_jit *kept[KEPT_JITS];
    uint32_t kept_count;
};

/* Lets go of memory tables, and of all that is remembered. */
static void forget(struct batch *batch) {
    for (uint32_t i = 0; i < batch->kept_count; i++)
        symbol_jit_release(batch->kept[i]);
    batch->kept_count = 0;
    hash_index_clear(&batch->index);
    batch->used = 0;
}

static void choose_memory(struct batch *batch, struct symbol_module *module) {
    if (batch->kept_count == KEPT_JITS)
        forget(batch);
    batch->jit = symbol_module_jit(module);
    if (batch->jit)
        batch->kept[batch->kept_count++] = batch->jit;
}

static void choose_module(struct batch *batch, struct symbol_module *module) {
    if (module == batch->module)
        return;
    bool memory = module && module->is_flat;
    batch->module = module;
    batch->jit = NULL;
    if (memory)
        choose_memory(batch, module);
    batch->full = module && !memory ? symbol_module_full(module, batch->deadline) : NULL;
    batch->table = module && !memory ? symbol_module_table(module) : NULL;
}

/* --- remembering -------------------------------------------------------------------------------
 */

static struct memo_slot *new_slot(struct batch *batch, uint32_t hash) {
    if (batch->used == batch->capacity) {
        uint32_t capacity = batch->capacity ? batch->capacity * 2 : FIRST_SLOTS;
        struct memo_slot *slots = realloc(batch->slots, capacity * sizeof *slots);
        if (!slots)
            return NULL;
        batch->slots = slots;
        batch->capacity = capacity;
    }
    return hash_index_add(&batch->index, hash, batch->used) ? &batch->slots[batch->used++] : NULL;
}

/* The slot of an item; its name is NULL when it is new. Valid until the next call. NULL when out of
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
    struct symbol_table *table = batch->table;
    struct memo_slot *slot = remember(batch, table, symbol);
    if (slot && !slot->name) {
        const char *linkage = symbol_names_text(&table->names, symbol);
        slot->system_name = clean_copy(batch->arena, linkage);
        slot->name = table->names.symbols[symbol].flags & SYMBOL_IS_PLAIN
                         ? slot->system_name
                         : symbol_shown_get(&table->shown, symbol, linkage, batch->arena);
    }
    return slot && slot->name && slot->system_name ? slot : NULL;
}

static const struct memo_slot *function_name(struct batch *batch, uint32_t function) {
    struct symbol_full_table *table = batch->full;
    struct memo_slot *slot = remember(batch, table, function);
    if (slot && !slot->name) {
        const char *text = symbol_full_function(&table->full, function);
        bool linkage = function < table->full.header->function_count &&
                       (table->full.functions[function].flags & SYMBOL_NAME_IS_LINKAGE);
        slot->system_name = clean_copy(batch->arena, text);
        slot->name = linkage ? symbol_shown_get(&table->shown, function, text, batch->arena)
                             : slot->system_name;
    }
    return slot && slot->name && slot->system_name ? slot : NULL;
}

static const char *file_name(struct batch *batch, uint32_t file) {
    /* Any address that is no other table's will do as the key. */
    struct memo_slot *slot = remember(batch, &batch->full->full, file);
    if (slot && !slot->name)
        slot->name = clean_copy(batch->arena, symbol_full_file(&batch->full->full, file));
    return slot ? slot->name : NULL;
}

/* --- one address -------------------------------------------------------------------------------
 */

static sonde_err answer_by_name(struct batch *batch, uint64_t vaddr, uint32_t symbol,
                                struct symbol_frame *frame) {
    const struct memo_slot *name = symbol_name(batch, symbol);
    if (!name)
        return SONDE_OUT_OF_MEMORY;
    const struct symbol_names *names = &batch->table->names;
    frame->name = name->name;
    frame->system_name = name->system_name;
    frame->offset = vaddr - names->header->base - names->symbols[symbol].start;
    return SONDE_OK;
}

static sonde_err set_line(struct batch *batch, uint32_t file, uint32_t line,
                          struct symbol_frame *frame) {
    frame->file = file_name(batch, file);
    frame->line = line;
    return frame->file ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

static uint32_t chain_len(const struct symbol_full *full, uint32_t node) {
    uint32_t len = 0;
    while (node < full->header->node_count && len < MAX_FRAMES) {
        uint32_t parent = full->nodes[node].parent;
        len++;
        if (parent >= node) /* none, or a damaged table */
            break;
        node = parent;
    }
    return len;
}

/* The symbol that begins where the function is entered: it has the whole scope and the parameters,
 * which DWARF without a linkage name has not. */
static uint32_t entry_symbol(const struct batch *batch, const struct symbol_node *node) {
    if (!batch->table)
        return SYMBOL_NO_SYMBOL;
    const struct symbol_names *names = &batch->table->names;
    uint64_t start = batch->full->full.header->base + node->call_file;
    uint32_t symbol = symbol_names_find(names, start);
    bool begins =
        symbol != SYMBOL_NO_SYMBOL && start == names->header->base + names->symbols[symbol].start;
    bool has_name = begins && !(names->symbols[symbol].flags & SYMBOL_IS_UNNAMED);
    return has_name ? symbol : SYMBOL_NO_SYMBOL;
}

static bool same_base(const char *left, const char *right) {
    size_t len = symbol_clone_base(left, strlen(left));
    return len == symbol_clone_base(right, strlen(right)) && memcmp(left, right, len) == 0;
}

/* The outermost frame: the function that holds the code. `symbol` is the one at the address: the
 * function itself, or a part of it that was split off (".cold"). */
static sonde_err finish_outermost(struct batch *batch, uint64_t vaddr,
                                  const struct symbol_node *node, uint32_t symbol,
                                  struct symbol_frame *frame) {
    const struct symbol_full *full = &batch->full->full;
    uint32_t entry = entry_symbol(batch, node);
    frame->offset = vaddr - full->header->base - node->call_file;
    if (entry != SYMBOL_NO_SYMBOL) {
        const struct memo_slot *linked = symbol_name(batch, entry);
        if (!linked)
            return SONDE_OUT_OF_MEMORY;
        bool has_linkage = node->function < full->header->function_count &&
                           (full->functions[node->function].flags & SYMBOL_NAME_IS_LINKAGE);
        bool folded = batch->table->names.symbols[entry].flags & SYMBOL_IS_FOLDED;
        frame->name = has_linkage ? frame->name : linked->name;
        if (!folded || !has_linkage) /* of folded functions DWARF knows better which is meant */
            frame->system_name = linked->system_name;
    }
    if (symbol == SYMBOL_NO_SYMBOL || symbol == entry)
        return SONDE_OK;
    const struct symbol_names *names = &batch->table->names;
    if (!same_base(frame->system_name, symbol_names_text(names, symbol)))
        return SONDE_OK;
    const struct memo_slot *part = symbol_name(batch, symbol);
    if (!part)
        return SONDE_OUT_OF_MEMORY;
    frame->system_name = part->system_name;
    frame->offset = vaddr - names->header->base - names->symbols[symbol].start;
    return SONDE_OK;
}

/* Frames of a chain, innermost first. */
static sonde_err answer_by_chain(struct batch *batch, uint64_t vaddr, uint32_t node,
                                 uint32_t symbol, struct symbol_frame *frames, uint32_t count) {
    const struct symbol_full *full = &batch->full->full;
    uint32_t file, line;
    sonde_err err = SONDE_OK;
    if (symbol_full_line(full, vaddr, &file, &line))
        err = set_line(batch, file, line, &frames[0]);
    for (uint32_t i = 0; i < count && err == SONDE_OK; i++) {
        const struct symbol_node *at = &full->nodes[node];
        const struct memo_slot *name = function_name(batch, at->function);
        if (!name)
            return SONDE_OUT_OF_MEMORY;
        frames[i].name = name->name;
        frames[i].system_name = name->system_name;
        if (at->parent == SYMBOL_NO_NODE)
            err = finish_outermost(batch, vaddr, at, symbol, &frames[i]);
        else if (i + 1 < count)
            err = set_line(batch, at->call_file, at->call_line, &frames[i + 1]);
        node = at->parent;
    }
    return err;
}

static uint64_t start_of(const struct batch *batch, uint32_t symbol) {
    const struct symbol_names *names = &batch->table->names;
    return names->header->base + names->symbols[symbol].start;
}

/* All that is known of a function whose file is stripped: where it begins. */
static const char *place_of(struct batch *batch, uint32_t symbol) {
    struct memo_slot *slot = remember(batch, batch->table, symbol);
    if (!slot || slot->name)
        return slot ? slot->name : NULL;
    const char *module = symbol_module_base_name(batch->module);
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

static sonde_err answer_from_names(struct batch *batch, uint64_t vaddr, uint32_t symbol,
                                   struct symbol_answer *answer) {
    if (symbol == SYMBOL_NO_SYMBOL)
        return SONDE_OK;
    if (batch->table->names.symbols[symbol].flags & SYMBOL_IS_UNNAMED) {
        answer->place = place_of(batch, symbol);
        answer->place_offset = vaddr - start_of(batch, symbol);
        return answer->place ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    }
    struct symbol_frame *frame = sonde_arena_alloc(batch->arena, sizeof *frame);
    if (!frame || answer_by_name(batch, vaddr, symbol, frame) != SONDE_OK)
        return SONDE_OUT_OF_MEMORY;
    frame->file = "";
    answer->frames = frame;
    answer->frame_count = 1;
    uint32_t file, line; /* assembly has lines though no functions */
    if (batch->jit)
        return set_jit_line(batch, vaddr, answer, frame);
    if (batch->full && symbol_full_line(&batch->full->full, vaddr, &file, &line))
        return set_line(batch, file, line, frame);
    return SONDE_OK;
}

static sonde_err answer_one(struct batch *batch, const struct symbol_query *query,
                            struct symbol_answer *answer) {
    *answer = (struct symbol_answer){0};
    choose_module(batch, query->module);
    uint32_t symbol = SYMBOL_NO_SYMBOL, node = SYMBOL_NO_NODE;
    if (batch->jit)
        batch->table = symbol_jit_table(batch->jit, query->vaddr);
    if (batch->table) {
        answer->quality = (enum symbol_quality)batch->table->names.header->quality;
        symbol = symbol_names_find(&batch->table->names, query->vaddr);
    }
    if (symbol != SYMBOL_NO_SYMBOL)
        answer->is_folded = batch->table->names.symbols[symbol].flags & SYMBOL_IS_FOLDED;
    if (batch->full) {
        answer->quality = SYMBOL_FULL;
        node = symbol_full_find(&batch->full->full, query->vaddr);
    }
    if (node == SYMBOL_NO_NODE)
        return answer_from_names(batch, query->vaddr, symbol, answer);
    uint32_t count = chain_len(&batch->full->full, node);
    struct symbol_frame *frames = sonde_arena_alloc(batch->arena, count * sizeof *frames);
    if (!frames)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        frames[i].file = "";
    answer->frames = frames;
    answer->frame_count = count;
    return answer_by_chain(batch, query->vaddr, node, symbol, frames, count);
}

uint32_t symbol_answer_frames(const struct symbol_answer *answer, struct symbol_frame *unnamed,
                              const struct symbol_frame **frames) {
    *unnamed = (struct symbol_frame){
        .name = answer->place, .system_name = "", .file = "", .offset = answer->place_offset};
    *frames = answer->frame_count > 0 ? answer->frames : unnamed;
    return answer->frame_count > 0 ? answer->frame_count : answer->place != NULL;
}

/* --- batches -----------------------------------------------------------------------------------
 */

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
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += wait_ms / 1000;
    deadline.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    deadline.tv_sec += deadline.tv_nsec / 1000000000;
    deadline.tv_nsec %= 1000000000;
    return resolve(queries, count, &deadline, arena, answers);
}
