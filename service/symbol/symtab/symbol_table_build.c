/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds a symbol table from an unsorted list, in four steps:
 *
 *   sort     by start; aliases (symbols with the same start) by how well their names are known:
 *            symbols of known size first, exported before local ones, the fewest leading
 *            underscores, global before weak, the shortest, by alphabet. So libc's code is "write",
 *            not "__write" or "__GI___libc_write".
 *   choose   the first of the aliases, with the size of the longest
 *   extend   symbols of unknown size to the next start, but not beyond their section; drop those
 *            inside a function of known size, because they are labels
 *   flatten  nested and overlapping symbols into disjoint segments; the innermost start wins */
#include "service/symbol/symtab/collect_symbols.h"
#include "service/symbol/symtab/symbol_table.h"

#include <stdlib.h>
#include <string.h>

/* --- sort ------------------------------------------------------------------------------------- */

static int underscores(const char *name) {
    return (int)strspn(name, "_");
}

/* The number of leading underscores. The "_Z" or "_R" of a mangled name does not count. */
static int privacy(const char *name) {
    return strncmp(name, "_Z", 2) == 0 || strncmp(name, "_R", 2) == 0 ? 0 : underscores(name);
}

static bool is_local(uint8_t binding) {
    return binding == STB_LOCAL;
}

/* The last criteria: the shortest name, then the first one by alphabet. */
static int compare_text(const char *a, const char *b) {
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
    if (is_local(a->binding) != is_local(b->binding))
        return is_local(a->binding) ? 1 : -1;
    const char *name_a = names + a->name, *name_b = names + b->name;
    if (privacy(name_a) != privacy(name_b))
        return privacy(name_a) - privacy(name_b);
    if ((a->binding == STB_WEAK) != (b->binding == STB_WEAK))
        return a->binding == STB_WEAK ? 1 : -1;
    return compare_text(name_a, name_b);
}

/* --- choose ----------------------------------------------------------------------------------- */

/* The variants of one constructor (C1, C2) or destructor (D0, D1, D2). */
static bool differ_by_structor(const char *a, const char *b) {
    size_t at = 0;
    while (a[at] && a[at] == b[at])
        at++;
    return at > 0 && (a[at - 1] == 'C' || a[at - 1] == 'D') && a[at] >= '0' && a[at] <= '9' &&
           b[at] >= '0' && b[at] <= '9' && strcmp(a + at + 1, b + at + 1) == 0;
}

/* A function and its clone, as "name" and "name.localalias". */
static bool differ_by_clone(const char *a, const char *b) {
    size_t at = 0;
    while (a[at] && a[at] == b[at])
        at++;
    return (a[at] == 0 && b[at] == '.') || (b[at] == 0 && a[at] == '.');
}

/* Whether two aliases are different functions with identical code, which the linker folded. Only
 * mangled names show that, because C libraries define aliases on purpose. */
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

/* Writes one symbol per start, the first of its aliases. */
static size_t choose(struct symbol_collection *collection, struct chosen *chosen) {
    const char *names = collection->names.data;
    size_t count = 0;
    for (size_t i = 0; i < collection->count; i++) {
        const struct symbol_raw *item = &collection->items[i];
        struct chosen *last = count ? &chosen[count - 1] : NULL;
        if (last && last->start == item->start) {
            if (item->end > last->end)
                last->end = item->end;
            if (item->is_unnamed &&
                last->is_exact) /* the next function's start is known after all */
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

/* --- extend ----------------------------------------------------------------------------------- */

/* Gives symbols of unknown size an end, and drops those inside a symbol of known size. */
static size_t extend(struct chosen *chosen, size_t count) {
    uint64_t covered = 0; /* the end of the symbols of known size so far */
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

/* --- flatten ---------------------------------------------------------------------------------- */

struct flat {
    const struct chosen *chosen;
    uint64_t base;
    uint32_t *starts, *covers;
    uint32_t count;
    uint32_t *open; /* symbols that contain the current address, innermost last */
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

/* Closes the symbols that end at or before `address`; those that contain them continue. */
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

/* --- write ------------------------------------------------------------------------------------ */

static void write_symbols(const struct chosen *chosen, size_t count, const char *names,
                          struct symbol_table_header *header, struct table_writer *writer) {
    header->symbols_offset = table_writer_align(writer);
    uint32_t name = 1; /* offset 0 is the empty string */
    for (size_t i = 0; i < count; i++) {
        struct symbol_entry entry = {(uint32_t)(chosen[i].start - header->base), name,
                                     chosen[i].flags};
        table_writer_append(writer, &entry, sizeof entry);
        name += (uint32_t)strlen(names + chosen[i].name) + 1;
    }
    header->strings_offset = table_writer_align(writer);
    table_writer_append(writer, "", 1);
    for (size_t i = 0; i < count; i++)
        table_writer_append(writer, names + chosen[i].name, strlen(names + chosen[i].name) + 1);
    header->strings_bytes = writer->len - header->strings_offset;
}

static sonde_err write_image(const struct flat *flat, size_t count,
                             const struct symbol_collection *collection, const char *identity,
                             uint32_t flags, struct sonde_buf *image) {
    struct symbol_table_header header = {
        .magic = SYMBOL_TABLE_MAGIC,
        .version = SYMBOL_TABLE_VERSION,
        .header_bytes = sizeof header,
        .base = flat->base,
        .quality = (uint32_t)collection->quality,
        .symbol_count = (uint32_t)count,
        .flags = flags | (collection->is_cut ? SYMBOL_TABLE_IS_CUT : 0),
    };
    struct table_writer writer;
    strncpy(header.identity, identity, sizeof header.identity - 1);
    table_writer_to_buf(&writer, image);
    table_writer_append(&writer, &header, sizeof header);
    bucket_index_write(&writer, flat->starts, flat->count, &header.segments);
    header.covers_offset = table_writer_align(&writer);
    table_writer_append(&writer, flat->covers, flat->count * sizeof *flat->covers);
    write_symbols(flat->chosen, count, collection->names.data, &header, &writer);
    header.total_bytes = writer.len;
    return table_writer_finish(&writer, &header, sizeof header);
}

/* Starts have 32 bits, so symbols 4 GiB and more above the first are dropped. */
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

sonde_err symbol_table_build(struct symbol_collection *collection, const char *identity,
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
