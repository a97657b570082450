/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/jit/jitdump.h"

#include "api/base/array.h"
#include "api/text/utf8.h"
#include "service/machine/machine.h"

#include <stdlib.h>
#include <string.h>

#define MAGIC       0x4a695444u /* "JiTD" */
#define VERSION     1u
#define ELF_HEADER  64u                 /* see symbol_jitdump_shift */
#define MAX_CODE    ((uint64_t)1 << 30) /* of one function */
#define MAX_DEBUG   ((size_t)16 << 20)  /* of one DEBUG_INFO */
#define MAX_NAME    4096u
#define MAX_RECORDS 4194304u /* per read; the next read continues */

enum { CODE_LOAD, CODE_MOVE, CODE_DEBUG_INFO };

struct header {
    uint32_t magic, version, total_size, machine, pad, pid;
    uint64_t time, flags;
};

struct record {
    uint32_t kind, total_size;
    uint64_t time;
};

struct code_load {
    uint32_t pid, tid;
    uint64_t vma, code, size, index;
};

struct code_move {
    uint32_t pid, tid;
    uint64_t vma, from, to, size, index;
};

struct debug_info {
    uint64_t code, count;
};

struct debug_entry {
    uint64_t address;
    uint32_t line, discriminator;
};

size_t symbol_jitdump_bytes(const struct symbol_jitdump *dump) {
    return dump->load_capacity * sizeof *dump->loads + dump->row_capacity * sizeof *dump->rows +
           dump->code_capacity * sizeof *dump->codes + dump->text.len +
           hash_index_bytes(&dump->index);
}

void symbol_jitdump_finish(struct symbol_jitdump *dump) {
    free(dump->loads);
    free(dump->rows);
    free(dump->codes);
    hash_index_finish(&dump->index);
    sonde_buf_finish(&dump->text);
    *dump = (struct symbol_jitdump){0};
}

/* --- storage ---------------------------------------------------------------------------------- */

/* Returns the offset of a copy; 0, the empty string, if there is no room. */
static uint32_t keep_text(struct symbol_jitdump *dump, const char *text, size_t len) {
    if (dump->text.len == 0)
        sonde_buf_putc(&dump->text, 0);
    if (len == 0 || len >= SYMBOL_JITDUMP_TEXT - dump->text.len)
        return 0;
    uint32_t at = (uint32_t)dump->text.len;
    sonde_buf_append(&dump->text, text, len);
    sonde_buf_putc(&dump->text, 0);
    return dump->text.failed ? 0 : at;
}

/* NULL when no such code was loaded. */
static struct symbol_jitdump_code *find_code(const struct symbol_jitdump *dump, uint32_t hash,
                                             uint64_t code_index) {
    struct hash_probe probe = hash_probe(hash);
    uint32_t number;
    while ((number = hash_index_next(&dump->index, &probe)) != HASH_INDEX_NONE)
        if (dump->codes[number].code_index == code_index)
            return &dump->codes[number];
    return NULL;
}

static bool add_load(struct symbol_jitdump *dump, const struct symbol_jitdump_load *load) {
    if (dump->load_count >= SYMBOL_JITDUMP_LOADS ||
        !array_room(&dump->loads, &dump->load_capacity, dump->load_count, 1))
        return false;
    dump->loads[dump->load_count++] = *load;
    return true;
}

/* Makes the last load the newest one of that code. */
static bool index_last(struct symbol_jitdump *dump, uint64_t code_index) {
    uint32_t hash = hash_index_words(&dump->index, code_index, 0), load = dump->load_count - 1;
    struct symbol_jitdump_code *code = find_code(dump, hash, code_index);
    if (code) {
        code->load = load;
        return true;
    }
    if (dump->code_count >= SYMBOL_JITDUMP_LOADS ||
        !array_room(&dump->codes, &dump->code_capacity, dump->code_count, 1) ||
        !hash_index_add(&dump->index, hash, dump->code_count))
        return false;
    dump->codes[dump->code_count++] = (struct symbol_jitdump_code){code_index, load};
    return true;
}

static bool is_code(uint64_t start, uint64_t size) {
    return start != 0 && size > 0 && size <= MAX_CODE && size <= UINT64_MAX - start;
}

/* --- names ------------------------------------------------------------------------------------ */

/* UTF-8 is checked where the text is displayed. */
static bool is_text(const char *text, size_t len) {
    return len > 0 && !sonde_utf8_has_control(text, len);
}

static size_t skip_number(const char *text, size_t end) {
    size_t at = end;
    while (at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9')
        at--;
    return at < end && at > 0 && text[at - 1] == ':' ? at - 1 : 0;
}

static bool begins_file(const char *text, size_t len) {
    static const char *const starts[] = {"/", "node:", "file:"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (len > strlen(starts[i]) && memcmp(text, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

/* The file in a name of V8, "JS:*name file:line:column". V8 sometimes overwrites the file name in
 * its DEBUG_INFO records, and then this one is right. Both the name and the file may contain
 * blanks. */
static uint32_t file_of_name(struct symbol_jitdump *dump, const char *name, size_t len) {
    size_t end = len > 3 && memcmp(name, "JS:", 3) == 0 ? skip_number(name, len) : 0, last = 0;
    end = end ? skip_number(name, end) : 0;
    for (size_t at = 0; at < end; at++) {
        if (name[at] != ' ')
            continue;
        last = at + 1;
        if (begins_file(name + last, end - last))
            break;
    }
    return last > 0 ? keep_text(dump, name + last, end - last) : 0;
}

/* --- lines ------------------------------------------------------------------------------------ */

static bool is_near(uint64_t address, uint64_t code) {
    return address >= code && address - code < MAX_CODE;
}

/* The offset of the next plausible entry from `at` on, because a damaged name can make an entry
 * look shorter than it is. */
static size_t find_entry(const char *bytes, size_t at, size_t len, uint64_t code,
                         struct debug_entry *entry) {
    for (; at + sizeof *entry < len; at++) {
        memcpy(entry, bytes + at, sizeof *entry);
        if (is_near(entry->address, code))
            return at;
    }
    return len;
}

static bool add_row(struct symbol_jitdump *dump, const struct debug_entry *entry, uint64_t code,
                    uint32_t file) {
    if (dump->row_count >= SYMBOL_JITDUMP_ROWS ||
        !array_room(&dump->rows, &dump->row_capacity, dump->row_count, 1))
        return false;
    uint32_t offset = (uint32_t)(entry->address - code);
    dump->has_small_offset |= offset < ELF_HEADER;
    dump->rows[dump->row_count++] = (struct symbol_jitdump_row){offset, entry->line, file};
    dump->pending_count++;
    return true;
}

/* Each entry has a file name. Most repeat the previous one, in full or as "\xff". */
static void read_entries(struct symbol_jitdump *dump, const char *bytes, size_t len,
                         const struct debug_info *info) {
    const char *last = "";
    size_t last_len = 0;
    uint32_t file = 0;
    struct debug_entry entry;
    size_t at = find_entry(bytes, 0, len, info->code, &entry);
    for (uint64_t i = 0; i < info->count && at < len; i++) {
        const char *name = bytes + at + sizeof entry;
        const char *end = memchr(name, 0, (size_t)(bytes + len - name));
        if (!end)
            return;
        size_t name_len = (size_t)(end - name);
        bool repeats = (name_len == 1 && name[0] == '\xff') ||
                       (name_len == last_len && memcmp(name, last, name_len) == 0);
        if (!repeats) {
            file = is_text(name, name_len) ? keep_text(dump, name, name_len) : 0;
            last = name;
            last_len = name_len;
        }
        if (!add_row(dump, &entry, info->code, file))
            return;
        at = find_entry(bytes, (size_t)(end + 1 - bytes), len, info->code, &entry);
    }
}

static void on_debug_info(struct symbol_jitdump *dump, const struct elf_input *input, uint64_t at,
                          uint64_t len) {
    struct debug_info info;
    struct sonde_buf bytes = {0};
    if (len < sizeof info || len - sizeof info > MAX_DEBUG ||
        !elf_read(input, at, &info, sizeof info))
        return;
    dump->row_count -= dump->pending_count; /* no LOAD used them */
    dump->pending_code = info.code;
    dump->pending_row = dump->row_count;
    dump->pending_count = 0;
    size_t rest = (size_t)(len - sizeof info);
    char *to = sonde_buf_extend(&bytes, rest);
    if (to && elf_read(input, at + sizeof info, to, rest))
        read_entries(dump, to, rest, &info);
    sonde_buf_finish(&bytes);
}

/* Gives the pending rows to the load if they are of its code. All known compilers write them in the
 * order of their offsets. */
static void take_rows(struct symbol_jitdump *dump, struct symbol_jitdump_load *load,
                      const char *name, size_t name_len) {
    if (dump->pending_count == 0)
        return;
    if (dump->pending_code != load->start) {
        dump->row_count -= dump->pending_count;
    } else {
        uint32_t file = file_of_name(dump, name, name_len), last = 0;
        load->first_row = dump->pending_row;
        load->row_count = dump->pending_count;
        for (uint32_t i = 0; i < load->row_count; i++) {
            struct symbol_jitdump_row *row = &dump->rows[load->first_row + i];
            const char *own = dump->text.data + row->file;
            if (file && !begins_file(own, strlen(own)))
                row->file = file;
            if (row->offset < last) /* malformed: rows must be sorted for the lookup */
                row->offset = last;
            last = row->offset;
        }
    }
    dump->pending_count = 0;
}

/* --- code ------------------------------------------------------------------------------------- */

static bool on_load(struct symbol_jitdump *dump, const struct elf_input *input, uint64_t at,
                    uint64_t len) {
    struct code_load code;
    char name[MAX_NAME];
    if (len < sizeof code || !elf_read(input, at, &code, sizeof code) ||
        !is_code(code.code, code.size))
        return true;
    size_t most = len - sizeof code < sizeof name ? (size_t)(len - sizeof code) : sizeof name;
    if (!elf_read(input, at + sizeof code, name, most))
        return true;
    struct symbol_jitdump_load load = {.start = code.code, .end = code.code + code.size};
    size_t name_len = strnlen(name, most);
    load.name = keep_text(dump, name, name_len);
    load.name_len = load.name ? (uint32_t)name_len : 0;
    take_rows(dump, &load, name, name_len);
    return add_load(dump, &load) && index_last(dump, code.index);
}

/* The name and the rows move, too; nothing is left at the old address. */
static bool on_move(struct symbol_jitdump *dump, const struct elf_input *input, uint64_t at,
                    uint64_t len) {
    struct code_move move;
    if (len < sizeof move || !elf_read(input, at, &move, sizeof move) ||
        !is_code(move.from, move.size) || !is_code(move.to, move.size))
        return true;
    uint32_t hash = hash_index_words(&dump->index, move.index, 0);
    const struct symbol_jitdump_code *code = find_code(dump, hash, move.index);
    if (!code)
        return true;
    struct symbol_jitdump_load gone = {.start = move.from, .end = move.from + move.size};
    struct symbol_jitdump_load moved = dump->loads[code->load];
    moved.start = move.to;
    moved.end = move.to + move.size;
    return add_load(dump, &gone) && add_load(dump, &moved) && index_last(dump, move.index);
}

/* --- the file --------------------------------------------------------------------------------- */

/* False while the file is too short. A file of another kind is never read again. */
static bool read_header(struct symbol_jitdump *dump, const struct elf_input *input) {
    struct header header;
    if (!elf_read(input, 0, &header, sizeof header))
        return false;
    hash_index_init(&dump->index);
    dump->is_broken = header.magic != MAGIC || header.version != VERSION ||
                      header.machine > UINT16_MAX || !machine_of((uint16_t)header.machine) ||
                      header.total_size < sizeof header;
    dump->at = header.total_size;
    return !dump->is_broken;
}

static bool on_record(struct symbol_jitdump *dump, const struct elf_input *input,
                      const struct record *record) {
    uint64_t at = dump->at + sizeof *record, len = record->total_size - sizeof *record;
    switch (record->kind) {
    case CODE_LOAD:
        return on_load(dump, input, at, len);
    case CODE_MOVE:
        return on_move(dump, input, at, len);
    case CODE_DEBUG_INFO:
        on_debug_info(dump, input, at, len);
        return true;
    default: /* unwind information, end of code */
        return true;
    }
}

bool symbol_jitdump_read(struct symbol_jitdump *dump, const struct elf_input *input) {
    uint64_t before = dump->at;
    if (dump->is_broken || (dump->at == 0 && !read_header(dump, input)))
        return false;
    for (uint32_t i = 0; i < MAX_RECORDS; i++) {
        struct record record;
        if (!elf_read(input, dump->at, &record, sizeof record))
            break;
        dump->is_broken = record.total_size < sizeof record;
        /* The last record may be incomplete still. */
        if (dump->is_broken || record.total_size > input->size - dump->at)
            break;
        dump->is_broken = !on_record(dump, input, &record); /* false when a limit is reached */
        dump->at += record.total_size;
        if (dump->is_broken)
            break;
    }
    return dump->at != before;
}

uint32_t symbol_jitdump_shift(const struct symbol_jitdump *dump) {
    return dump->row_count > 0 && !dump->has_small_offset ? ELF_HEADER : 0;
}

sonde_err symbol_jitdump_intervals(const struct symbol_jitdump *dump,
                                   struct symbol_overlay *overlay) {
    sonde_err err = SONDE_OK;
    for (uint32_t i = 0; i < dump->load_count && !err; i++) {
        const struct symbol_jitdump_load *load = &dump->loads[i];
        struct symbol_interval interval = {load->start, load->end, load->name, load->name_len,
                                           i + 1};
        err = symbol_overlay_add(overlay, &interval);
    }
    return err;
}
