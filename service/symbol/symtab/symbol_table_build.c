/* SPDX-License-Identifier: Apache-2.0
 *
 * From a heap of symbols to a table, in four steps:
 *
 *   order    by start; among aliases (same start) the best name first
 *   choose   one symbol per start, as long as the longest of its aliases
 *   extend   symbols without a size up to the next start, never past their section, and none that
 *            lie inside a sized function: those are labels
 *   flatten  nested and overlapping symbols into disjoint segments; the innermost start wins */
#include "service/symbol/symtab/collect_symbols.h"
#include "service/symbol/symtab/symbol_table.h"

#include <stdlib.h>
#include <string.h>

/* --- order -------------------------------------------------------------------------------------
 */

static int underscores(const char *name) {
    return (int)strspn(name, "_");
}

static int binding_rank(uint8_t binding) {
    return binding == STB_GLOBAL || binding == STB_GNU_UNIQUE ? 0 : binding == STB_WEAK ? 1 : 2;
}

/* Which of two names of one address people know it by: sized, global, few underscores, short. A
 * mangled name's "_Z" is no sign of privacy. */
static int compare_names(const char *a, const char *b) {
    int private_a = strncmp(a, "_Z", 2) == 0 || strncmp(a, "_R", 2) == 0 ? 0 : underscores(a);
    int private_b = strncmp(b, "_Z", 2) == 0 || strncmp(b, "_R", 2) == 0 ? 0 : underscores(b);
    if (private_a != private_b)
        return private_a - private_b;
    size_t len_a = strlen(a), len_b = strlen(b);
    if (len_a != len_b)
        return len_a < len_b ? -1 : 1;
    return strcmp(a, b);
}

static int compare_symbols(const void *left, const void *right, void *context) {
    const struct symbol_raw *a = left, *b = right;
    const char *names = context;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    bool sized_a = a->end > a->start, sized_b = b->end > b->start;
    if (sized_a != sized_b)
        return sized_a ? -1 : 1;
    if (a->is_unnamed != b->is_unnamed)
        return a->is_unnamed ? 1 : -1;
    if (binding_rank(a->binding) != binding_rank(b->binding))
        return binding_rank(a->binding) - binding_rank(b->binding);
    return compare_names(names + a->name, names + b->name);
}

/* --- choose ------------------------------------------------------------------------------------
 */

/* C1 and C2, D0 to D2 of one class are one function to everybody. */
static bool differ_by_structor(const char *a, const char *b) {
    size_t at = 0;
    while (a[at] && a[at] == b[at])
        at++;
    return at > 0 && (a[at - 1] == 'C' || a[at - 1] == 'D') && a[at] >= '0' && a[at] <= '9' &&
           b[at] >= '0' && b[at] <= '9' && strcmp(a + at + 1, b + at + 1) == 0;
}

/* A compiler's clone beside its original: "name" and "name.localalias". */
static bool differ_by_clone(const char *a, const char *b) {
    size_t at = 0;
    while (a[at] && a[at] == b[at])
        at++;
    return (a[at] == 0 && b[at] == '.') || (b[at] == 0 && a[at] == '.');
}

/* Aliases made by the linker's folding of identical code, rather than by the author: only mangled
 * names can tell, since C libraries alias on purpose. */
static bool is_folding(const char *a, const char *b) {
    bool mangled = (a[0] == '_' && (a[1] == 'Z' || a[1] == 'R')) &&
                   (b[0] == '_' && (b[1] == 'Z' || b[1] == 'R'));
    return mangled && strcmp(a, b) != 0 && !differ_by_structor(a, b) && !differ_by_clone(a, b);
}

struct chosen {
    uint64_t start, end, limit;
    uint32_t name, flags;
    bool is_exact;
};

/* One symbol per start, in place of the items: the first of each run, which has the best name. */
static size_t choose(struct symbol_collection *collection, struct chosen *chosen) {
    const char *names = collection->names.data;
    size_t count = 0;
    for (size_t i = 0; i < collection->count; i++) {
        const struct symbol_raw *item = &collection->items[i];
        struct chosen *last = count ? &chosen[count - 1] : NULL;
        if (last && last->start == item->start) {
            if (item->end > last->end)
                last->end = item->end;
            if (item->is_unnamed && last->is_exact) /* its neighbours are known after all */
                last->end = last->start;
            if (is_folding(names + last->name, names + item->name))
                last->flags |= SYMBOL_IS_FOLDED;
            continue;
        }
        chosen[count++] = (struct chosen){
            .start = item->start,
            .end = item->is_exact ? item->start + 1 : item->end,
            .limit = item->limit,
            .name = item->name,
            .flags =
                (item->is_plain ? SYMBOL_IS_PLAIN : 0) | (item->is_unnamed ? SYMBOL_IS_UNNAMED : 0),
            .is_exact = item->is_exact,
        };
    }
    return count;
}

/* --- extend ------------------------------------------------------------------------------------
 */

/* Gives unsized symbols an end and drops those inside a sized one. */
static size_t extend(struct chosen *chosen, size_t count) {
    uint64_t covered = 0; /* up to here a sized symbol reaches */
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        struct chosen one = chosen[i];
        if (one.end == one.start) {
            if (one.start < covered)
                continue;
            bool near = i + 1 < count && chosen[i + 1].start < one.limit;
            one.end = near ? chosen[i + 1].start : one.limit;
        } else if (one.end > covered) {
            covered = one.end;
        }
        chosen[kept++] = one;
    }
    return kept;
}

/* --- flatten -----------------------------------------------------------------------------------
 */

struct flat {
    const struct chosen *chosen;
    uint64_t base;
    uint32_t *starts, *covers;
    uint32_t count;
    uint32_t *open; /* symbols around the sweep's place, innermost last */
    uint32_t depth;
};

static void emit(struct flat *flat, uint64_t address, uint32_t symbol) {
    uint32_t start = (uint32_t)(address - flat->base);
    if (flat->count && flat->starts[flat->count - 1] == start)
        flat->count--;
    if (flat->count && flat->covers[flat->count - 1] == symbol)
        return;
    flat->starts[flat->count] = start;
    flat->covers[flat->count++] = symbol;
}

/* Ends every open symbol that ends at or before `address`; what is below it goes on. */
static void close_until(struct flat *flat, uint64_t address) {
    const struct chosen *chosen = flat->chosen;
    while (flat->depth && chosen[flat->open[flat->depth - 1]].end <= address) {
        uint64_t end = chosen[flat->open[--flat->depth]].end;
        while (flat->depth && chosen[flat->open[flat->depth - 1]].end <= end)
            flat->depth--;
        emit(flat, end, flat->depth ? flat->open[flat->depth - 1] : SYMBOL_NO_SYMBOL);
    }
}

static void flatten(struct flat *flat, size_t count) {
    for (size_t i = 0; i < count; i++) {
        close_until(flat, flat->chosen[i].start);
        flat->open[flat->depth++] = (uint32_t)i;
        emit(flat, flat->chosen[i].start, (uint32_t)i);
    }
    close_until(flat, UINT64_MAX);
}

/* --- write -------------------------------------------------------------------------------------
 */

static void write_symbols(const struct chosen *chosen, size_t count, const char *names,
                          struct symbol_names_header *header, struct symbol_sink *sink) {
    header->symbols_offset = symbol_sink_align(sink);
    uint32_t name = 1; /* strings begin with the empty one */
    for (size_t i = 0; i < count; i++) {
        struct symbol_entry entry = {(uint32_t)(chosen[i].start - header->base), name,
                                     chosen[i].flags};
        symbol_sink_append(sink, &entry, sizeof entry);
        name += (uint32_t)strlen(names + chosen[i].name) + 1;
    }
    header->strings_offset = symbol_sink_align(sink);
    symbol_sink_append(sink, "", 1);
    for (size_t i = 0; i < count; i++)
        symbol_sink_append(sink, names + chosen[i].name, strlen(names + chosen[i].name) + 1);
    header->strings_bytes = sink->len - header->strings_offset;
}

static sonde_err write_image(const struct flat *flat, size_t count,
                             const struct symbol_collection *collection, const char *identity,
                             uint32_t flags, struct sonde_buf *image) {
    struct symbol_names_header header = {
        .magic = SYMBOL_NAMES_MAGIC,
        .version = SYMBOL_NAMES_VERSION,
        .header_bytes = sizeof header,
        .base = flat->base,
        .quality = (uint32_t)collection->quality,
        .symbol_count = (uint32_t)count,
        .flags = flags | (collection->is_cut ? SYMBOL_NAMES_IS_CUT : 0),
    };
    struct symbol_sink sink;
    strncpy(header.identity, identity, sizeof header.identity - 1);
    symbol_sink_to_buf(&sink, image);
    symbol_sink_append(&sink, &header, sizeof header);
    symbol_spans_write(&sink, flat->starts, flat->count, &header.segments);
    header.covers_offset = symbol_sink_align(&sink);
    symbol_sink_append(&sink, flat->covers, flat->count * sizeof *flat->covers);
    write_symbols(flat->chosen, count, collection->names.data, &header, &sink);
    header.total_bytes = sink.len;
    return symbol_sink_finish(&sink, &header, sizeof header);
}

/* Starts are kept in 32 bits: what lies 4 GiB above the first symbol is left out. */
static size_t within_reach(struct chosen *chosen, size_t count) {
    uint64_t last = count && chosen[0].start < UINT64_MAX - (UINT32_MAX - 1)
                        ? chosen[0].start + (UINT32_MAX - 1)
                        : UINT64_MAX;
    while (count && chosen[count - 1].start >= last)
        count--;
    for (size_t i = 0; i < count; i++)
        if (chosen[i].end > last)
            chosen[i].end = last;
    return count;
}

sonde_err symbol_names_build(struct symbol_collection *collection, const char *identity,
                             uint32_t flags, struct sonde_buf *image) {
    size_t room = collection->count + 1;
    struct chosen *chosen = calloc(room, sizeof *chosen);
    struct flat flat = {.chosen = chosen,
                        .starts = calloc(2 * room, sizeof(uint32_t)),
                        .covers = calloc(2 * room, sizeof(uint32_t)),
                        .open = calloc(room, sizeof(uint32_t))};
    sonde_err err = SONDE_OUT_OF_MEMORY;
    if (chosen && flat.starts && flat.covers && flat.open) {
        if (collection->count > 1)
            qsort_r(collection->items, collection->count, sizeof *collection->items,
                    compare_symbols, collection->names.data);
        size_t count = extend(chosen, choose(collection, chosen));
        count = within_reach(chosen, count);
        flat.base = count ? chosen[0].start : 0;
        flatten(&flat, count);
        err = write_image(&flat, count, collection, identity, flags, image);
    }
    free(chosen);
    free(flat.starts);
    free(flat.covers);
    free(flat.open);
    return err;
}
