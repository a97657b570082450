/* SPDX-License-Identifier: Apache-2.0 */
#include "service/unwind/code/functions.h"

#include "service/unwind/code/analysis.h"

#include <stdlib.h>

#define MAX_SYMBOLS      ((size_t)FUNCTIONS_MAX * sizeof(Elf64_Sym))
#define MAX_SWITCH_BYTES 1024u
#define ENTRY_BYTES      64u

/* The address at which the kernel starts the file; 0: the file has none, or an interpreter. */
static uint64_t entry_of(const struct elf_file *file) {
    Elf64_Ehdr header;
    if (!elf_read(&file->input, 0, &header, sizeof header))
        return 0;
    for (uint32_t i = 0; i < file->segment_count; i++)
        if (file->segments[i].p_type == PT_INTERP)
            return 0;
    return header.e_entry;
}

static bool is_in_code(const struct elf_file *file, uint64_t vaddr) {
    for (uint32_t i = 0; i < file->segment_count; i++) {
        const Elf64_Phdr *segment = &file->segments[i];
        if (segment->p_type == PT_LOAD && segment->p_flags & PF_X && vaddr >= segment->p_vaddr &&
            vaddr - segment->p_vaddr < segment->p_filesz)
            return true;
    }
    return false;
}

/* Functions written in assembler often have no type or no size. */
static void add(struct functions *functions, const Elf64_Sym *symbol) {
    unsigned type = ELF64_ST_TYPE(symbol->st_info);
    uint64_t at = symbol->st_value - functions->origin;
    bool is_function =
        type == STT_FUNC || (type == STT_NOTYPE && ELF64_ST_BIND(symbol->st_info) != STB_LOCAL);
    if (!is_function || symbol->st_shndx == SHN_UNDEF || at >= UNWIND_MAX_TEXT ||
        !is_in_code(functions->file, symbol->st_value))
        return;
    uint64_t size = symbol->st_size < ANALYSIS_MAX_BYTES ? symbol->st_size : ANALYSIS_MAX_BYTES;
    functions->items[functions->count++] = (struct function){(uint32_t)at, (uint32_t)(at + size)};
}

/* If functions have the same start, the one with a size comes first. */
static int by_start(const void *a, const void *b) {
    const struct function *left = a, *right = b;
    if (left->start != right->start)
        return left->start < right->start ? -1 : 1;
    return (left->end < right->end) - (left->end > right->end);
}

static void sort(struct functions *functions) {
    uint32_t kept = 0;
    if (functions->count > 0)
        qsort(functions->items, functions->count, sizeof *functions->items, by_start);
    for (uint32_t i = 0; i < functions->count; i++)
        if (kept == 0 || functions->items[kept - 1].start != functions->items[i].start)
            functions->items[kept++] = functions->items[i];
    functions->count = kept;
}

static void add_symbols(struct functions *functions, const struct sonde_buf *symbols) {
    const Elf64_Sym *all = (const Elf64_Sym *)symbols->data;
    for (size_t i = 0; i < symbols->len / sizeof *all; i++)
        add(functions, &all[i]);
}

/* The start of ld.so has neither unwind information nor a symbol. */
static void add_entry(struct functions *functions, uint64_t vaddr) {
    uint64_t at = vaddr - functions->origin;
    if (at >= UNWIND_MAX_TEXT || !is_in_code(functions->file, vaddr))
        return;
    functions->entry = (uint32_t)at;
    functions->items[functions->count++] =
        (struct function){functions->entry, functions->entry + ENTRY_BYTES};
}

sonde_err functions_collect(struct functions *functions, const struct elf_file *file,
                            uint64_t origin) {
    struct sonde_buf symbols = {0};
    uint64_t entry = entry_of(file);
    *functions = (struct functions){.file = file,
                                    .origin = origin,
                                    .entry = FUNCTIONS_NO_ENTRY,
                                    .is_go = elf_section(file, ".gopclntab") != NULL};
    const Elf64_Shdr *section = elf_section_of_type(file, SHT_SYMTAB);
    if (!section)
        section = elf_section_of_type(file, SHT_DYNSYM);
    if (functions->is_go || entry == 0)
        return SONDE_OK;
    if (section &&
        elf_append(file, section->sh_offset, section->sh_size, MAX_SYMBOLS, &symbols) != SONDE_OK)
        symbols.len = 0; /* broken or too large: without these rows */
    functions->items = calloc(symbols.len / sizeof(Elf64_Sym) + 2, sizeof *functions->items);
    if (functions->items) {
        add_symbols(functions, &symbols);
        add_entry(functions, entry);
        sort(functions);
    }
    sonde_buf_finish(&symbols);
    return functions->items ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

void functions_finish(struct functions *functions) {
    free(functions->items);
    *functions = (struct functions){0};
}

/* The caller frees the result. NULL: the file does not have it all. */
static uint8_t *read_code(const struct functions *functions, uint32_t start, uint32_t size) {
    uint64_t offset, len;
    if (!elf_offset_of(functions->file, functions->origin + start, &offset, &len) || len < size)
        return NULL;
    uint8_t *code = malloc(size + 1);
    if (code && elf_read(&functions->file->input, offset, code, size))
        return code;
    free(code);
    return NULL;
}

static void analyse(const struct functions *functions, uint32_t start, uint32_t end,
                    struct unwind_rows *rows) {
    uint32_t size = end - start;
    uint8_t *code = size <= ANALYSIS_MAX_BYTES ? read_code(functions, start, size) : NULL;
    if (code)
        unwind_analysis_run(code, size, start, rows);
    free(code);
}

/* Where the kernel starts a program, there is no caller. */
static void add_root(struct unwind_rows *rows, uint32_t start, uint32_t end) {
    static const struct unwind_rule root = {.cfa = UNWIND_CFA_END};
    unwind_rows_add(rows, start, &root);
    unwind_rows_gap(rows, end);
}

/* Such functions are short, because they are written in assembler. */
uint32_t functions_find_switch(void *context, uint32_t start, uint32_t end) {
    const struct functions *functions = context;
    uint32_t size = end - start;
    uint8_t *code = size <= MAX_SWITCH_BYTES ? read_code(functions, start, size) : NULL;
    if (code)
        size = unwind_analysis_find_switch(code, size);
    free(code);
    return start + size;
}

void functions_fill(void *context, uint32_t from, uint32_t to, struct unwind_rows *rows) {
    const struct functions *functions = context;
    uint32_t low = 0, high = functions->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (functions->items[middle].start < from)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < functions->count && functions->items[low].start < to; low++) {
        const struct function *function = &functions->items[low];
        uint32_t next = low + 1 < functions->count ? function[1].start : to;
        uint32_t end = function->end > function->start ? function->end : next;
        end = end < next ? end : next;
        end = end < to ? end : to;
        if (end == UINT32_MAX) /* the last one, of unknown size */
            end = function->start + 256;
        if (function->start == functions->entry)
            add_root(rows, function->start, end);
        else
            analyse(functions, function->start, end, rows);
    }
}
