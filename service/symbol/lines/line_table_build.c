/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds names, files, nodes and functions. The ranges of a function nest; when the function ends,
 * they are flattened into disjoint pieces, of which each belongs to the deepest range. */
#include "service/symbol/lines/line_table_builder.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ITEMS      (256u << 20)
#define MAX_STRINGS    ((size_t)1 << 31)
#define FIRST_BYTES    ((size_t)16 << 10)
#define MEMORY_BYTES   ((size_t)48 << 20) /* of lists in memory; more goes to the scratch file */
#define FEW_RANGES     32
#define LARGE_NODE_SET 4096u /* a larger set is freed, since clearing it takes long */

bool builder_block_reserve(struct line_table_builder *builder, struct symbol_block *block,
                           size_t used, size_t len) {
    if (builder->failed)
        return false;
    if (len <= block->size - used)
        return true;
    size_t wider = block->size + block->size / 2;
    wider = wider < FIRST_BYTES ? FIRST_BYTES : wider;
    wider = wider < used + len ? used + len : wider;
    builder->failed |= !symbol_block_resize(&builder->spill, block, wider);
    return !builder->failed;
}

void *builder_list_add(struct line_table_builder *builder, struct builder_list *list,
                       size_t item_size) {
    size_t used = list->count * item_size;
    if (list->count >= MAX_ITEMS)
        builder->too_large = builder->failed = true;
    if (!builder_block_reserve(builder, &list->block, used, item_size))
        return NULL;
    list->count++;
    return (char *)list->block.bytes + used;
}

static void push(struct line_table_builder *builder, struct builder_list *list, const void *item,
                 size_t size) {
    void *place = builder_list_add(builder, list, size);
    if (place)
        memcpy(place, item, size);
}

struct line_table_builder *line_table_builder_create(uint64_t base, uint64_t limit, int scratch) {
    struct line_table_builder *builder = calloc(1, sizeof *builder);
    if (!builder)
        return NULL;
    hash_index_init(&builder->string_set);
    hash_index_init(&builder->function_set);
    hash_index_init(&builder->file_set);
    hash_index_init(&builder->claim_set);
    hash_index_init(&builder->node_set);
    builder->base = base;
    builder->limit = limit - base < UINT32_MAX ? limit : base + UINT32_MAX - 1;
    builder->spill = (struct symbol_spill){.fd = scratch, .limit = MEMORY_BYTES};
    if (builder_block_reserve(builder, &builder->strings, 0, 1)) {
        *(char *)builder->strings.bytes = 0;
        builder->strings_len = 1;
    }
    return builder;
}

void builder_sets_finish(struct line_table_builder *builder) {
    hash_index_finish(&builder->string_set);
    hash_index_finish(&builder->function_set);
    hash_index_finish(&builder->file_set);
    hash_index_finish(&builder->claim_set);
    hash_index_finish(&builder->node_set);
}

void line_table_builder_destroy(struct line_table_builder *builder) {
    if (!builder)
        return;
    builder_sets_finish(builder);
    struct symbol_block *blocks[] = {
        &builder->strings,      &builder->row_bytes,    &builder->functions.block,
        &builder->files.block,  &builder->nodes.block,  &builder->pieces.block,
        &builder->claims.block, &builder->owners.block, &builder->runs.block,
        &builder->ranges.block, &builder->open.block,
    };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        symbol_block_free(&builder->spill, blocks[i]);
    free(builder);
}

void line_table_drop_pages(const struct line_table_builder *builder) {
    symbol_spill_drop_pages(&builder->spill);
}

/* --- items that are stored once --------------------------------------------------------------- */

typedef bool equal_item(const struct line_table_builder *builder, uint32_t number,
                        const void *item);

static bool equal_string(const struct line_table_builder *builder, uint32_t offset,
                         const void *item) {
    return strcmp((const char *)builder->strings.bytes + offset, item) == 0;
}

static bool equal_function(const struct line_table_builder *builder, uint32_t number,
                           const void *item) {
    const struct line_table_function *functions = builder->functions.block.bytes;
    return memcmp(&functions[number], item, sizeof *functions) == 0;
}

static bool equal_file(const struct line_table_builder *builder, uint32_t number,
                       const void *item) {
    return ((const uint32_t *)builder->files.block.bytes)[number] == *(const uint32_t *)item;
}

static bool equal_node(const struct line_table_builder *builder, uint32_t number,
                       const void *item) {
    const struct line_table_node *nodes = builder->nodes.block.bytes;
    return memcmp(&nodes[number], item, sizeof *nodes) == 0;
}

static bool equal_claim(const struct line_table_builder *builder, uint32_t number,
                        const void *item) {
    const struct builder_claim *claims = builder->claims.block.bytes, *claim = item;
    return claims[number].start == claim->start && claims[number].end == claim->end;
}

/* The number of the equal item; HASH_INDEX_NONE if there is none. */
static inline uint32_t find(const struct line_table_builder *builder, const struct hash_index *set,
                            uint32_t hash, equal_item *equal, const void *item) {
    struct hash_probe probe = hash_probe(hash);
    uint32_t number;
    while ((number = hash_index_next(set, &probe)) != HASH_INDEX_NONE)
        if (equal(builder, number, item))
            break;
    return number;
}

/* Returns the number of the equal item in the list. Appends the item if there is none. */
static inline uint32_t intern(struct line_table_builder *builder, struct hash_index *set,
                              equal_item *equal, struct builder_list *list, const void *item,
                              size_t size) {
    uint32_t hash = hash_index_data(set, item, size);
    uint32_t number = builder->failed ? 0 : find(builder, set, hash, equal, item);
    if (number != HASH_INDEX_NONE)
        return number;
    number = list->count;
    push(builder, list, item, size);
    builder->failed |= !hash_index_add(set, hash, number);
    return builder->failed ? 0 : number;
}

static void append_string(struct line_table_builder *builder, const char *text, size_t len) {
    if (len > MAX_STRINGS - builder->strings_len)
        builder->too_large = builder->failed = true;
    if (!builder_block_reserve(builder, &builder->strings, builder->strings_len, len))
        return;
    memcpy((char *)builder->strings.bytes + builder->strings_len, text, len);
    builder->strings_len += len;
}

static uint32_t add_string(struct line_table_builder *builder, const char *text) {
    if (text[0] == 0 || builder->failed)
        return 0;
    size_t len = strlen(text);
    uint32_t hash = hash_index_data(&builder->string_set, text, len);
    uint32_t offset = find(builder, &builder->string_set, hash, equal_string, text);
    if (offset != HASH_INDEX_NONE)
        return offset;
    offset = (uint32_t)builder->strings_len;
    append_string(builder, text, len + 1);
    builder->failed |= !hash_index_add(&builder->string_set, hash, offset);
    return builder->failed ? 0 : offset;
}

uint32_t line_table_add_file(struct line_table_builder *builder, const char *path) {
    uint32_t name = add_string(builder, path);
    return intern(builder, &builder->file_set, equal_file, &builder->files, &name, sizeof name);
}

uint32_t line_table_add_function(struct line_table_builder *builder, const char *name,
                                 uint32_t flags) {
    struct line_table_function function = {add_string(builder, name), flags};
    return intern(builder, &builder->function_set, equal_function, &builder->functions, &function,
                  sizeof function);
}

uint32_t line_table_add_node(struct line_table_builder *builder, struct line_table_node node) {
    if (node.parent == LINE_TABLE_NO_NODE) /* a function has no call line */
        node.call_line = 0;
    return intern(builder, &builder->node_set, equal_node, &builder->nodes, &node, sizeof node);
}

/* --- one function ----------------------------------------------------------------------------- */

static uint32_t hash_claim(const struct hash_index *set, const struct builder_claim *claim) {
    return hash_index_words(set, claim->start, claim->end);
}

bool line_table_has_range(const struct line_table_builder *builder, uint64_t start, uint64_t end) {
    if (start < builder->base || end > builder->limit)
        return false;
    struct builder_claim claim = {(uint32_t)(start - builder->base),
                                  (uint32_t)(end - builder->base), 0};
    uint32_t hash = hash_claim(&builder->claim_set, &claim);
    return find(builder, &builder->claim_set, hash, equal_claim, &claim) != HASH_INDEX_NONE;
}

void line_table_begin_function(struct line_table_builder *builder) {
    builder->ranges.count = 0;
    if (builder->node_set.mask > LARGE_NODE_SET)
        hash_index_finish(&builder->node_set);
    hash_index_clear(&builder->node_set);
}

void line_table_add_range(struct line_table_builder *builder, uint64_t start, uint64_t end,
                          uint32_t node, uint32_t depth) {
    if (start < builder->base || end > builder->limit || start >= end)
        return; /* discarded by the linker */
    struct builder_range range = {(uint32_t)(start - builder->base),
                                  (uint32_t)(end - builder->base), node, depth};
    push(builder, &builder->ranges, &range, sizeof range);
}

static int compare_ranges(const void *left, const void *right) {
    const struct builder_range *a = left, *b = right;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return (a->depth > b->depth) - (a->depth < b->depth);
}

/* Most functions have few ranges, which are nearly sorted: use insertion sort for these. */
static void sort_ranges(struct builder_range *items, uint32_t count) {
    if (count > FEW_RANGES) {
        qsort(items, count, sizeof *items, compare_ranges);
        return;
    }
    for (uint32_t i = 1; i < count; i++) {
        struct builder_range item = items[i];
        uint32_t at = i;
        for (; at > 0 && compare_ranges(&items[at - 1], &item) > 0; at--)
            items[at] = items[at - 1];
        items[at] = item;
    }
}

static void add_piece(struct line_table_builder *builder, uint32_t first, uint32_t start,
                      uint32_t end, uint32_t node) {
    struct builder_piece *pieces = builder->pieces.block.bytes;
    uint32_t count = builder->pieces.count;
    if (start >= end)
        return;
    if (count > first && pieces[count - 1].end == start && pieces[count - 1].node == node) {
        pieces[count - 1].end = end;
        return;
    }
    struct builder_piece piece = {start, end, node};
    push(builder, &builder->pieces, &piece, sizeof piece);
}

/* Adds the pieces from `at` to `until`, each with the innermost range that contains it, and closes
 * the ranges that end there. */
static uint32_t close_until(struct line_table_builder *builder, uint32_t first, uint32_t at,
                            uint32_t until) {
    const struct builder_range *ranges = builder->ranges.block.bytes;
    const uint32_t *open = builder->open.block.bytes;
    while (builder->open.count) {
        const struct builder_range *top = &ranges[open[builder->open.count - 1]];
        uint32_t end = top->end < until ? top->end : until;
        if (end > at) {
            add_piece(builder, first, at, end, top->node);
            at = end;
        }
        if (top->end > until)
            break;
        builder->open.count--;
    }
    return at > until ? at : until;
}

static void add_claim(struct line_table_builder *builder, const struct builder_range *range) {
    struct builder_claim claim = {range->start, range->end, builder->owners.count};
    uint32_t hash = hash_claim(&builder->claim_set, &claim);
    if (find(builder, &builder->claim_set, hash, equal_claim, &claim) != HASH_INDEX_NONE)
        return; /* the first function with this range owns it */
    builder->failed |= !hash_index_add(&builder->claim_set, hash, builder->claims.count);
    push(builder, &builder->claims, &claim, sizeof claim);
}

void line_table_end_function(struct line_table_builder *builder) {
    uint32_t first = builder->pieces.count, at = 0;
    struct builder_range *ranges = builder->ranges.block.bytes;
    if (builder->ranges.count == 0 || builder->failed)
        return;
    sort_ranges(ranges, builder->ranges.count);
    builder->open.count = 0;
    for (uint32_t i = 0; i < builder->ranges.count; i++) {
        at = close_until(builder, first, at, ranges[i].start);
        push(builder, &builder->open, &i, sizeof i);
        if (ranges[i].depth == 0)
            add_claim(builder, &ranges[i]);
    }
    close_until(builder, first, at, UINT32_MAX);
    struct builder_owner owner = {first, builder->pieces.count - first};
    push(builder, &builder->owners, &owner, sizeof owner);
}
