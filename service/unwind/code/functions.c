/* SPDX-License-Identifier: Apache-2.0 */
#include "service/unwind/code/functions.h"

#include "service/machine/machine.h"
#include "service/unwind/code/analysis.h"

#include <stdlib.h>
#include <string.h>

#define MAX_SYMBOLS      ((size_t)FUNCTIONS_MAX * sizeof(Elf64_Sym))
#define MAX_SWITCH_BYTES 1024u
#define ENTRY_BYTES      64u
#define TRAMPOLINE_BYTES 16u /* at most */

/* The address at which the kernel starts the file; 0: it never does. A file without an interpreter
 * may be one: ld.so, musl. */
static uint64_t entry_of(const struct elf_file *file) {
    Elf64_Ehdr header;
    bool has_interpreter = false;
    if (!elf_read(&file->input, 0, &header, sizeof header))
        return 0;
    for (uint32_t i = 0; i < file->segment_count; i++)
        has_interpreter |= file->segments[i].p_type == PT_INTERP;
    return !has_interpreter || elf_is_program(file) ? header.e_entry : 0;
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

/* --- Collecting -------------------------------------------------------------------------------*/

static bool is_known(const struct functions_known *known, uint64_t at) {
    uint64_t cell = at / FUNCTIONS_CELL;
    return at < known->limit && known->bits[cell / 64] >> cell % 64 & 1;
}

static void add(struct functions *functions, const struct functions_known *known, uint64_t vaddr,
                uint64_t size, uint32_t go) {
    uint64_t at = vaddr - functions->origin;
    if (at >= UNWIND_MAX_TEXT || functions->count == functions->capacity || is_known(known, at) ||
        !is_in_code(functions->file, vaddr))
        return;
    size = size < ANALYSIS_MAX_BYTES ? size : ANALYSIS_MAX_BYTES;
    functions->items[functions->count++] =
        (struct function){(uint32_t)at, (uint32_t)(at + size), go};
}

/* Functions written in assembler often have no type or no size. */
static void add_symbols(struct functions *functions, const struct functions_known *known,
                        const struct sonde_buf *symbols) {
    const Elf64_Sym *all = (const Elf64_Sym *)symbols->data;
    for (size_t i = 0; i < symbols->len / sizeof *all; i++) {
        unsigned type = ELF64_ST_TYPE(all[i].st_info);
        bool is_function =
            type == STT_FUNC || (type == STT_NOTYPE && ELF64_ST_BIND(all[i].st_info) != STB_LOCAL);
        if (is_function && all[i].st_shndx != SHN_UNDEF)
            add(functions, known, all[i].st_value, all[i].st_size, 0);
    }
}

/* Linkage tables, where linkers write nothing about them. */
static void add_plts(struct functions *functions, const struct functions_known *known) {
    const struct elf_file *file = functions->file;
    for (uint32_t i = 0; i < file->section_count && functions->machine->find_plt_push; i++) {
        const Elf64_Shdr *section = &file->sections[i];
        uint32_t before = functions->count;
        if (!(section->sh_flags & SHF_EXECINSTR) || section->sh_size >= UNWIND_MAX_TEXT ||
            strncmp(elf_section_name(file, section), ".plt", 4) != 0)
            continue;
        add(functions, known, section->sh_addr, 0, FUNCTIONS_PLT);
        if (functions->count > before)
            functions->items[before].end += (uint32_t)section->sh_size;
    }
}

static void add_go(struct functions *functions, const struct functions_known *known) {
    for (uint32_t i = 0; i < functions->go.count && i < FUNCTIONS_MAX; i++) {
        struct go_function function = go_table_function(&functions->go, i);
        if (function.end > function.start)
            add(functions, known, function.start, function.end - function.start, i + 1);
    }
}

/* Of functions with the same start, Go's own comes first, then the one with a size. */
static int by_start(const void *a, const void *b) {
    const struct function *left = a, *right = b;
    if (left->start != right->start)
        return left->start < right->start ? -1 : 1;
    if (!left->go != !right->go)
        return left->go ? -1 : 1;
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

static int by_range(const void *a, const void *b) {
    const struct code_range *left = a, *right = b;
    return (left->start > right->start) - (left->start < right->start);
}

static void add_range(struct functions *functions, uint64_t vaddr, uint64_t size) {
    uint64_t start = vaddr - functions->origin;
    if (start >= UNWIND_MAX_TEXT || size == 0)
        return;
    size = size < UNWIND_MAX_TEXT ? size : UNWIND_MAX_TEXT;
    functions->ranges[functions->range_count++] = (struct code_range){start, start + size};
}

/* Collects the file's code: its sections, because a segment may hold much else. */
static bool collect_ranges(struct functions *functions) {
    const struct elf_file *file = functions->file;
    uint32_t kept = 0;
    functions->ranges =
        calloc(file->section_count + file->segment_count + 1, sizeof *functions->ranges);
    if (!functions->ranges)
        return false;
    for (uint32_t i = 0; i < file->section_count; i++)
        if (file->sections[i].sh_flags & SHF_EXECINSTR && file->sections[i].sh_type != SHT_NOBITS)
            add_range(functions, file->sections[i].sh_addr, file->sections[i].sh_size);
    for (uint32_t i = 0; i < file->segment_count && file->section_count == 0; i++)
        if (file->segments[i].p_type == PT_LOAD && file->segments[i].p_flags & PF_X)
            add_range(functions, file->segments[i].p_vaddr, file->segments[i].p_filesz);
    struct code_range *ranges = functions->ranges;
    qsort(ranges, functions->range_count, sizeof *ranges, by_range);
    for (uint32_t i = 0; i < functions->range_count; i++)
        if (kept > 0 && ranges[i].start < ranges[kept - 1].end)
            ranges[kept - 1].end =
                ranges[i].end > ranges[kept - 1].end ? ranges[i].end : ranges[kept - 1].end;
        else
            ranges[kept++] = ranges[i];
    functions->range_count = kept;
    return true;
}

sonde_err functions_collect(struct functions *functions, const struct elf_file *file,
                            uint64_t origin, const struct functions_known *known) {
    struct sonde_buf symbols = {0};
    uint64_t entry = entry_of(file);
    *functions = (struct functions){
        .file = file,
        .machine = machine_of(file->machine),
        .origin = origin,
        .entry = FUNCTIONS_NO_ENTRY,
        .root = FUNCTIONS_NO_ENTRY,
    };
    const Elf64_Shdr *section = elf_section_of_type(file, SHT_SYMTAB);
    if (!section)
        section = elf_section_of_type(file, SHT_DYNSYM);
    if (section &&
        elf_append(file, section->sh_offset, section->sh_size, MAX_SYMBOLS, &symbols) != SONDE_OK)
        symbols.len = 0; /* broken or too large: without these rows */
    (void)go_table_open(file, &functions->go);
    uint64_t go = functions->go.count < FUNCTIONS_MAX ? functions->go.count : FUNCTIONS_MAX;
    functions->capacity =
        (uint32_t)(symbols.len / sizeof(Elf64_Sym) + go + file->section_count + 1);
    functions->items = calloc(functions->capacity, sizeof *functions->items);
    bool has_memory = functions->items && collect_ranges(functions);
    if (has_memory) {
        if (entry != 0 && entry - origin < UNWIND_MAX_TEXT && is_in_code(file, entry))
            functions->entry = (uint32_t)(entry - origin);
        functions->root = elf_is_program(file) ? functions->entry : FUNCTIONS_NO_ENTRY;
        if (functions->entry != FUNCTIONS_NO_ENTRY) /* ld.so's has no symbol */
            add(functions, known, entry, ENTRY_BYTES, 0);
        add_plts(functions, known);
        add_go(functions, known);
        add_symbols(functions, known, &symbols);
        sort(functions);
    }
    sonde_buf_finish(&symbols);
    return has_memory ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

void functions_finish(struct functions *functions) {
    go_table_finish(&functions->go);
    free(functions->items);
    free(functions->ranges);
    *functions = (struct functions){0};
}

/* --- What unwind information does not say -----------------------------------------------------*/

bool functions_is_trampoline(const struct functions *functions, uint32_t pc) {
    uint8_t code[TRAMPOLINE_BYTES];
    uint64_t offset, len;
    if (!elf_offset_of(functions->file, functions->origin + pc, &offset, &len))
        return false;
    len = len < sizeof code ? len : sizeof code;
    return elf_read(&functions->file->input, offset, code, len) &&
           functions->machine->code.trampoline_at(code, len) > 0;
}

struct unwind_rule functions_trampoline_rule(const struct functions *functions) {
    return (struct unwind_rule){.cfa = UNWIND_CFA_SIGNAL,
                                .cfa_offset = functions->machine->code.ucontext_at};
}

/* The Go function that begins at `start`; false if none does. */
static bool find_go(const struct functions *functions, uint32_t start,
                    struct go_function *function) {
    uint64_t low = 0, high = functions->go.count, vaddr = functions->origin + start;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (go_table_function(&functions->go, middle).start < vaddr)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == functions->go.count)
        return false;
    *function = go_table_function(&functions->go, low);
    return function->start == vaddr;
}

/* Whether what a function calls on the other stack has no caller: mcall leaves its stack for good,
 * and clone begins a thread. */
static bool is_root(const struct functions *functions, const struct go_function *function) {
    static const char *const roots[] = {"runtime.mcall", "runtime.clone"};
    uint64_t at = functions->go.names + function->name, end = functions->go.names_end;
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        size_t len = strlen(roots[i]) + 1;
        if (at < end && end - at >= len &&
            memcmp(functions->go.section.data + at, roots[i], len) == 0)
            return true;
    }
    return false;
}

/* Go's functions that change the stack are short, because they are written in assembler. */
uint32_t functions_find_change(void *context, uint32_t start, uint32_t end,
                               struct unwind_rule *rule) {
    const struct functions *functions = context;
    struct go_function function;
    uint64_t offset, len;
    uint32_t size = end - start;
    uint8_t code[MAX_SWITCH_BYTES];
    *rule = (struct unwind_rule){.cfa = UNWIND_CFA_END};
    if (start == functions->root)
        return start;
    if (functions->go.count == 0 || !find_go(functions, start, &function))
        return end;
    if (size > sizeof code ||
        !elf_offset_of(functions->file, functions->origin + start, &offset, &len) || len < size ||
        !elf_read(&functions->file->input, offset, code, size))
        return end;
    if (functions_is_trampoline(functions, start)) {
        *rule = functions_trampoline_rule(functions);
        return start;
    }
    if (!functions->machine->code.is_analysed)
        return end;
    uint32_t changes = unwind_analysis_find_switch(code, size);
    if (changes < size && !is_root(functions, &function)) /* only the runtime knows the old stack */
        *rule = (struct unwind_rule){.cfa = UNWIND_CFA_NONE, .cfa_add = UNWIND_NONE_COMPLEX};
    return start + changes;
}
