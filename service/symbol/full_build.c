/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges of one function nest: each is flattened by itself, the deepest winning. Ranges of
 * different functions must not overlap, but do where identical code was folded or where a discarded
 * copy left its addresses behind: then the first function in the order of addresses keeps its whole
 * range, so that no chain is ever mixed from two functions. Rows are treated likewise. */
#include "service/symbol/full_build.h"

#include "service/symbol/intern.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ITEMS   (64u << 20)
#define MAX_STRINGS ((size_t)1 << 31)

struct piece {
    uint32_t start, end, node;
};

/* A range that a function claims. */
struct claim {
    uint32_t start, end, function;
};

struct row {
    uint32_t start, end, file, line;
};

struct owner {
    uint32_t first_piece, piece_count;
};

struct range {
    uint32_t start, end, node, depth;
};

/* A growing array; `what` names its type. */
#define LIST(what)                \
    struct {                      \
        what *items;              \
        uint32_t count, capacity; \
    }

struct symbol_full_builder {
    uint64_t base, limit;
    bool failed, too_large;
    struct sonde_buf strings;
    struct symbol_intern string_set, function_set, file_set, node_set;
    LIST(struct symbol_function) functions;
    LIST(uint32_t) files;
    LIST(struct symbol_node) nodes;
    LIST(struct piece) pieces;
    LIST(struct claim) claims;
    LIST(struct owner) owners;
    LIST(struct row) rows;
    LIST(struct range) ranges; /* of the function at hand */
    LIST(uint32_t) open;       /* indexes of ranges around the sweep's place */
};

static bool list_reserve(struct symbol_full_builder *builder, void **items, uint32_t count,
                         uint32_t *capacity, size_t item_size) {
    if (builder->failed)
        return false;
    if (count < *capacity)
        return true;
    uint32_t wider = *capacity ? *capacity + *capacity / 2 : 1024;
    void *moved = count < MAX_ITEMS ? realloc(*items, wider * item_size) : NULL;
    builder->too_large |= count >= MAX_ITEMS;
    builder->failed |= !moved;
    if (!moved)
        return false;
    *items = moved;
    *capacity = wider;
    return true;
}

#define LIST_ADD(builder, list, ...)                                                      \
    do {                                                                                  \
        if (list_reserve(builder, (void **)&(list).items, (list).count, &(list).capacity, \
                         sizeof *(list).items))                                           \
            (list).items[(list).count++] = (__VA_ARGS__);                                 \
    } while (0)

struct symbol_full_builder *symbol_full_builder_create(uint64_t base, uint64_t limit) {
    struct symbol_full_builder *builder = calloc(1, sizeof *builder);
    if (!builder)
        return NULL;
    builder->base = base;
    builder->limit = limit - base < UINT32_MAX ? limit : base + UINT32_MAX - 1;
    builder->strings.limit = MAX_STRINGS;
    sonde_buf_putc(&builder->strings, 0);
    return builder;
}

void symbol_full_builder_destroy(struct symbol_full_builder *builder) {
    if (!builder)
        return;
    sonde_buf_finish(&builder->strings);
    symbol_intern_finish(&builder->string_set);
    symbol_intern_finish(&builder->function_set);
    symbol_intern_finish(&builder->file_set);
    symbol_intern_finish(&builder->node_set);
    free(builder->functions.items);
    free(builder->files.items);
    free(builder->nodes.items);
    free(builder->pieces.items);
    free(builder->claims.items);
    free(builder->owners.items);
    free(builder->rows.items);
    free(builder->ranges.items);
    free(builder->open.items);
    free(builder);
}

/* --- interning ---------------------------------------------------------------------------------
 */

static bool equal_string(const void *context, uint32_t index, const void *item) {
    const struct symbol_full_builder *builder = context;
    return strcmp(builder->strings.data + index, item) == 0;
}

static bool equal_function(const void *context, uint32_t index, const void *item) {
    const struct symbol_full_builder *builder = context;
    return memcmp(&builder->functions.items[index], item, sizeof(struct symbol_function)) == 0;
}

static bool equal_file(const void *context, uint32_t index, const void *item) {
    const struct symbol_full_builder *builder = context;
    return builder->files.items[index] == *(const uint32_t *)item;
}

static bool equal_node(const void *context, uint32_t index, const void *item) {
    const struct symbol_full_builder *builder = context;
    return memcmp(&builder->nodes.items[index], item, sizeof(struct symbol_node)) == 0;
}

static uint32_t *place(struct symbol_full_builder *builder, struct symbol_intern *set,
                       symbol_intern_equal *equal, const void *item, size_t len) {
    if (builder->failed)
        return NULL;
    uint32_t *found = symbol_intern_place(set, symbol_checksum(0, item, len), equal, builder, item);
    builder->failed |= !found;
    return found;
}

static uint32_t add_string(struct symbol_full_builder *builder, const char *text) {
    if (text[0] == 0)
        return 0;
    size_t len = strlen(text);
    uint32_t *found = place(builder, &builder->string_set, equal_string, text, len);
    if (found && *found == SYMBOL_INTERN_FREE) {
        *found = (uint32_t)builder->strings.len;
        sonde_buf_append(&builder->strings, text, len + 1);
        builder->failed |= builder->strings.failed;
    }
    return builder->failed ? 0 : *found;
}

uint32_t symbol_full_add_file(struct symbol_full_builder *builder, const char *path) {
    uint32_t name = add_string(builder, path);
    uint32_t *found = place(builder, &builder->file_set, equal_file, &name, sizeof name);
    if (found && *found == SYMBOL_INTERN_FREE) {
        *found = builder->files.count;
        LIST_ADD(builder, builder->files, name);
    }
    return builder->failed ? 0 : *found;
}

uint32_t symbol_full_add_function(struct symbol_full_builder *builder, const char *name,
                                  uint32_t flags) {
    struct symbol_function function = {add_string(builder, name), flags};
    uint32_t *found =
        place(builder, &builder->function_set, equal_function, &function, sizeof function);
    if (found && *found == SYMBOL_INTERN_FREE) {
        *found = builder->functions.count;
        LIST_ADD(builder, builder->functions, function);
    }
    return builder->failed ? 0 : *found;
}

uint32_t symbol_full_add_node(struct symbol_full_builder *builder, struct symbol_node node) {
    if (node.parent == SYMBOL_NO_NODE) /* rebased here, because only we know the base */
        node.call_line = 0;
    uint32_t *found = place(builder, &builder->node_set, equal_node, &node, sizeof node);
    if (found && *found == SYMBOL_INTERN_FREE) {
        *found = builder->nodes.count;
        LIST_ADD(builder, builder->nodes, node);
    }
    return builder->failed ? 0 : *found;
}

/* --- one function ------------------------------------------------------------------------------
 */

void symbol_full_begin(struct symbol_full_builder *builder) {
    builder->ranges.count = 0;
}

void symbol_full_add_range(struct symbol_full_builder *builder, uint64_t start, uint64_t end,
                           uint32_t node, uint32_t depth) {
    if (start < builder->base || end > builder->limit || start >= end)
        return; /* discarded code */
    LIST_ADD(builder, builder->ranges,
             (struct range){(uint32_t)(start - builder->base), (uint32_t)(end - builder->base),
                            node, depth});
}

static int compare_ranges(const void *left, const void *right) {
    const struct range *a = left, *b = right;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return (a->depth > b->depth) - (a->depth < b->depth);
}

static void add_piece(struct symbol_full_builder *builder, uint32_t first, uint32_t start,
                      uint32_t end, uint32_t node) {
    if (start >= end)
        return;
    struct piece *last =
        builder->pieces.count > first ? &builder->pieces.items[builder->pieces.count - 1] : NULL;
    if (last && last->end == start && last->node == node)
        last->end = end;
    else
        LIST_ADD(builder, builder->pieces, (struct piece){start, end, node});
}

/* Ends open ranges up to `until`, giving each stretch to the innermost one. */
static uint32_t close_until(struct symbol_full_builder *builder, uint32_t first, uint32_t at,
                            uint32_t until) {
    while (builder->open.count) {
        const struct range *top =
            &builder->ranges.items[builder->open.items[builder->open.count - 1]];
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

void symbol_full_end(struct symbol_full_builder *builder) {
    uint32_t first = builder->pieces.count, at = 0;
    if (builder->ranges.count == 0 || builder->failed)
        return;
    if (builder->ranges.count > 1)
        qsort(builder->ranges.items, builder->ranges.count, sizeof *builder->ranges.items,
              compare_ranges);
    builder->open.count = 0;
    for (uint32_t i = 0; i < builder->ranges.count; i++) {
        const struct range *range = &builder->ranges.items[i];
        at = close_until(builder, first, at, range->start);
        LIST_ADD(builder, builder->open, i);
        if (range->depth == 0)
            LIST_ADD(builder, builder->claims,
                     (struct claim){range->start, range->end, builder->owners.count});
    }
    close_until(builder, first, at, UINT32_MAX);
    LIST_ADD(builder, builder->owners, (struct owner){first, builder->pieces.count - first});
}

void symbol_full_add_row(struct symbol_full_builder *builder, uint64_t start, uint64_t end,
                         uint32_t file, uint32_t line) {
    if (start < builder->base || end > builder->limit || start >= end)
        return;
    struct row *last = builder->rows.count ? &builder->rows.items[builder->rows.count - 1] : NULL;
    if (last && last->end == start - builder->base && last->file == file && last->line == line)
        last->end = (uint32_t)(end - builder->base);
    else
        LIST_ADD(builder, builder->rows,
                 (struct row){(uint32_t)(start - builder->base), (uint32_t)(end - builder->base),
                              file, line});
}

/* --- writing -----------------------------------------------------------------------------------
 */

/* Stable, by the first word of each item: what came first stays first among equals. */
static bool sort_by_start(void *items, uint32_t count, size_t item_size) {
    char *from = items, *other = malloc((size_t)count * item_size + 1), *to = other;
    if (!other)
        return false;
    for (int shift = 0; shift < 32; shift += 8) {
        size_t places[257] = {0};
        for (uint32_t i = 0; i < count; i++)
            places[(*(uint32_t *)(void *)(from + i * item_size) >> shift & 255) + 1]++;
        for (int i = 0; i < 256; i++)
            places[i + 1] += places[i];
        for (uint32_t i = 0; i < count; i++) {
            const char *item = from + i * item_size;
            size_t place = places[*(const uint32_t *)(const void *)item >> shift & 255]++;
            memcpy(to + place * item_size, item, item_size);
        }
        char *swap = from;
        from = to;
        to = swap;
    }
    free(other); /* four passes: the result is back in items */
    return true;
}

struct spans {
    uint32_t *starts, *values;
    uint32_t count;
};

static void spans_add(struct spans *spans, uint32_t start, uint32_t value) {
    if (spans->count && spans->starts[spans->count - 1] == start)
        spans->count--;
    if (spans->count && spans->values[spans->count - 1] == value)
        return;
    spans->starts[spans->count] = start;
    spans->values[spans->count++] = value;
}

static bool spans_init(struct spans *spans, size_t room) {
    *spans = (struct spans){malloc(room * sizeof(uint32_t)), malloc(room * sizeof(uint32_t)), 0};
    return spans->starts && spans->values;
}

static void spans_finish(struct spans *spans) {
    free(spans->starts);
    free(spans->values);
}

/* The pieces of a claim's owner within [start, end). */
static void add_claim(const struct symbol_full_builder *builder, uint32_t start, uint32_t end,
                      uint32_t function, struct spans *spans) {
    const struct owner *owner = &builder->owners.items[function];
    const struct piece *pieces = builder->pieces.items + owner->first_piece;
    uint32_t low = 0, high = owner->piece_count;
    while (low < high) { /* the first piece that ends after start */
        uint32_t middle = low + (high - low) / 2;
        if (pieces[middle].end <= start)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < owner->piece_count && pieces[low].start < end; low++) {
        uint32_t from = pieces[low].start > start ? pieces[low].start : start;
        uint32_t to = pieces[low].end < end ? pieces[low].end : end;
        spans_add(spans, from, pieces[low].node);
        spans_add(spans, to, SYMBOL_NO_NODE);
    }
}

static bool flatten_functions(struct symbol_full_builder *builder, struct spans *spans) {
    uint32_t reached = 0;
    if (!spans_init(spans, 2 * ((size_t)builder->pieces.count + builder->claims.count) + 2) ||
        !sort_by_start(builder->claims.items, builder->claims.count, sizeof(struct claim)))
        return false;
    for (uint32_t i = 0; i < builder->claims.count; i++) {
        struct claim claim = builder->claims.items[i];
        if (claim.start < reached)
            claim.start = reached;
        if (claim.start >= claim.end)
            continue;
        add_claim(builder, claim.start, claim.end, claim.function, spans);
        reached = claim.end;
    }
    return true;
}

static uint32_t bits_of(uint64_t value) {
    return value ? 64 - (uint32_t)__builtin_clzll(value) : 1;
}

/* Files need their bits; lines get what is left. A longer line number becomes "unknown". */
static uint32_t choose_line_bits(const struct symbol_full_builder *builder) {
    uint32_t file_bits = bits_of(builder->files.count), most = 0;
    for (uint32_t i = 0; i < builder->rows.count; i++)
        if (builder->rows.items[i].line > most)
            most = builder->rows.items[i].line;
    uint32_t line_bits = bits_of(most);
    return line_bits + file_bits > 32 ? 32 - file_bits : line_bits;
}

static bool flatten_rows(struct symbol_full_builder *builder, uint32_t line_bits,
                         struct spans *spans) {
    uint32_t reached = 0;
    if (!spans_init(spans, 2 * (size_t)builder->rows.count + 2) ||
        !sort_by_start(builder->rows.items, builder->rows.count, sizeof(struct row)))
        return false;
    for (uint32_t i = 0; i < builder->rows.count; i++) {
        const struct row *row = &builder->rows.items[i];
        uint32_t start = row->start > reached ? row->start : reached;
        uint32_t line = row->line >> line_bits ? 0 : row->line;
        if (start >= row->end)
            continue;
        spans_add(spans, start, row->file << line_bits | line);
        spans_add(spans, row->end, UINT32_MAX);
        reached = row->end;
    }
    return true;
}

static uint64_t append(struct sonde_buf *image, const void *items, size_t bytes) {
    uint64_t offset = symbol_image_align(image);
    sonde_buf_append(image, items, bytes);
    return offset;
}

static void write_spans(struct sonde_buf *image, struct spans *spans,
                        struct symbol_spans_header *header, uint64_t *values_offset) {
    symbol_spans_write(image, spans->starts, spans->count, header);
    *values_offset = append(image, spans->values, spans->count * sizeof(uint32_t));
    spans_finish(spans);
    *spans = (struct spans){0};
}

/* Everything behind the header; lists are freed as soon as they are written. */
static void write_body(struct symbol_full_builder *builder, struct sonde_buf *image,
                       struct symbol_full_header *header) {
    header->node_count = builder->nodes.count;
    header->nodes_offset =
        append(image, builder->nodes.items, builder->nodes.count * sizeof(struct symbol_node));
    header->function_count = builder->functions.count;
    header->functions_offset = append(image, builder->functions.items,
                                      builder->functions.count * sizeof(struct symbol_function));
    header->file_count = builder->files.count;
    header->files_offset =
        append(image, builder->files.items, builder->files.count * sizeof(uint32_t));
    header->strings_offset = append(image, builder->strings.data, builder->strings.len);
    header->strings_bytes = builder->strings.len;
}

sonde_err symbol_full_write(struct symbol_full_builder *builder, const char *identity,
                            uint32_t flags, uint32_t units, struct sonde_buf *image) {
    struct symbol_full_header header = {.magic = SYMBOL_FULL_MAGIC,
                                        .version = SYMBOL_FULL_VERSION,
                                        .header_bytes = sizeof header,
                                        .base = builder->base,
                                        .flags = flags,
                                        .units = units};
    struct spans spans = {0}, rows = {0};
    if (builder->failed)
        return builder->too_large ? SONDE_TOO_LARGE : SONDE_OUT_OF_MEMORY;
    strncpy(header.identity, identity, sizeof header.identity - 1);
    header.line_bits = choose_line_bits(builder);
    sonde_buf_append(image, &header, sizeof header);
    bool good = flatten_functions(builder, &spans);
    if (good)
        write_spans(image, &spans, &header.segments, &header.covers_offset);
    good = good && flatten_rows(builder, header.line_bits, &rows);
    if (good)
        write_spans(image, &rows, &header.rows, &header.values_offset);
    spans_finish(&spans);
    spans_finish(&rows);
    write_body(builder, image, &header);
    if (!good || image->failed)
        return SONDE_OUT_OF_MEMORY;
    header.total_bytes = image->len;
    header.checksum = symbol_checksum(symbol_checksum(0, &header, sizeof header),
                                      image->data + sizeof header, image->len - sizeof header);
    memcpy(image->data, &header, sizeof header);
    return SONDE_OK;
}
