/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/jit/perf_map.h"

#include <ctype.h>
#include <string.h>

#define MAX_CODE_SIZE (1ull << 30)

sonde_err symbol_perf_map_load(int fd, size_t limit, struct sonde_buf *text) {
    struct elf_input input;
    limit = limit < SYMBOL_PERF_MAP_BYTES ? limit : SYMBOL_PERF_MAP_BYTES;
    if (!elf_input_of_file(fd, &input))
        return SONDE_IO;
    uint64_t len = input.size < limit ? input.size : limit;
    char *to = sonde_buf_extend(text, len);
    if (!to)
        return SONDE_OUT_OF_MEMORY;
    return elf_read(&input, input.size - len, to, len) ? SONDE_OK : SONDE_IO;
}

/* --- lines ------------------------------------------------------------------------------------ */

/* Parses a hexadecimal number with or without 0x. NULL if there is none, or it is too long. */
static const char *parse_hex(const char *at, const char *end, uint64_t *value) {
    const char *first;
    if (end - at > 2 && at[0] == '0' && (at[1] == 'x' || at[1] == 'X'))
        at += 2;
    *value = 0;
    for (first = at; at < end && isxdigit((unsigned char)*at); at++) {
        unsigned digit = isdigit((unsigned char)*at) ? (unsigned)(*at - '0')
                                                     : (unsigned)(tolower(*at) - 'a' + 10);
        *value = *value << 4 | digit;
    }
    return at > first && at - first <= 16 ? at : NULL;
}

static const char *skip_blanks(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    return at;
}

static bool parse_map_line(const char *text, const char *at, const char *end,
                           struct symbol_interval *interval) {
    uint64_t start, size;
    const char *next = parse_hex(at, end, &start);
    if (!next || next == end || (*next != ' ' && *next != '\t'))
        return false;
    next = parse_hex(skip_blanks(next, end), end, &size);
    if (!next || next == end || (*next != ' ' && *next != '\t'))
        return false;
    next = skip_blanks(next, end);
    while (end > next && isspace((unsigned char)end[-1]))
        end--;
    if (start == 0 || size == 0 || size > MAX_CODE_SIZE || size > UINT64_MAX - start || next == end)
        return false;
    *interval = (struct symbol_interval){.start = start,
                                         .end = start + size,
                                         .name = (uint32_t)(next - text),
                                         .name_len = (uint32_t)(end - next)};
    return true;
}

/* The start of the last SYMBOL_PERF_MAP_LINES lines. */
static const char *last_lines(const char *text, size_t len) {
    uint32_t lines = 0;
    for (size_t at = len; at > 0; at--)
        if (text[at - 1] == '\n' && ++lines > SYMBOL_PERF_MAP_LINES)
            return text + at;
    return text;
}

sonde_err symbol_perf_map_intervals(const char *text, size_t len, struct symbol_overlay *overlay) {
    sonde_err err = SONDE_OK;
    for (const char *at = last_lines(text, len), *end = text + len; at < end && !err;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        struct symbol_interval interval;
        stop = stop ? stop : end;
        if (parse_map_line(text, at, stop, &interval))
            err = symbol_overlay_add(overlay, &interval);
        at = stop + 1;
    }
    return err;
}

struct naming {
    const char *text;
    struct symbol_collection *collection;
};

static void on_piece(void *context, const struct symbol_interval *interval, uint64_t start,
                     uint64_t end) {
    struct naming *naming = context;
    symbol_collection_plain(naming->collection, naming->text + interval->name, interval->name_len,
                            start, end);
}

sonde_err symbol_perf_map_parse(const char *text, size_t len,
                                struct symbol_collection *collection) {
    struct symbol_overlay overlay = {0};
    struct naming naming = {text, collection};
    sonde_err err = symbol_perf_map_intervals(text, len, &overlay);
    if (!err)
        err = symbol_overlay_each(&overlay, on_piece, &naming);
    symbol_overlay_finish(&overlay);
    return err;
}

void symbol_collection_plain(struct symbol_collection *collection, const char *name, size_t len,
                             uint64_t start, uint64_t end) {
    if (start >= end || collection->names.len > SYMBOL_MAX_NAME_BYTES)
        return;
    struct symbol_raw item = {.start = start, .end = end, .limit = end, .is_plain = 1};
    item.name = symbol_collection_name(collection, name, len, "");
    symbol_collection_add(collection, item);
}

/* --- the kernel ------------------------------------------------------------------------------- */

#define KERNEL_START    0xffff800000000000ull
#define KERNEL_MAX_SIZE (1u << 20) /* of the last symbol */

static bool add_kernel_line(const char *at, const char *end, bool *hidden,
                            struct symbol_collection *collection, struct symbol_core *core) {
    uint64_t address;
    const char *next = parse_hex(at, end, &address);
    if (!next || end - next < 4)
        return false;
    char type = next[1];
    next += 3;
    *hidden &= address == 0;
    if (!strchr("tTwWi", type) || address < KERNEL_START)
        return true;
    uint64_t limit =
        address > UINT64_MAX - KERNEL_MAX_SIZE ? UINT64_MAX : address + KERNEL_MAX_SIZE;
    struct symbol_raw item = {.start = address, .end = address, .limit = limit};
    item.binding = type == 'T' ? STB_GLOBAL : type == 't' ? STB_LOCAL : STB_WEAK;
    const char *tab = memchr(next, '\t', (size_t)(end - next)); /* name TAB [module] */
    size_t len = (size_t)((tab ? tab : end) - next);
    if (!tab && address < core->first)
        core->first = address;
    if (!tab && address > core->last)
        core->last = address;
    item.name = symbol_collection_name(collection, next, len, tab ? " " : "");
    if (tab) {
        collection->names.len--; /* drops the NUL, since the module's name follows */
        symbol_collection_name(collection, tab + 1, (size_t)(end - tab - 1), "");
    }
    symbol_collection_add(collection, item);
    return true;
}

bool symbol_kallsyms_parse(const char *text, size_t len, struct symbol_collection *collection,
                           struct symbol_core *core) {
    bool hidden = true;
    *core = (struct symbol_core){.first = UINT64_MAX};
    for (const char *at = text, *end = text + len; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        add_kernel_line(at, stop, &hidden, collection, core);
        at = stop + 1;
    }
    return !hidden;
}
