/* SPDX-License-Identifier: Apache-2.0
 *
 * Names execute_native_thread_routine of a stripped libstdc++, which is in the stack of every
 * std::thread but is not exported. libstdc++ has only one such function: the one that the exported
 * std::thread::_M_start_thread passes to pthread_create as its third argument,
 *
 *     48 8d 15 <disp32>    lea start(%rip), %rdx
 *     ...
 *     e8 <disp32>          call pthread_create@plt
 *
 * and programs that were built before GCC 6 have one more. x86-64 only. */
#include "service/symbol/symtab/collect_symbols.h"

#include <string.h>

#define MAX_CODE 1024u

static const struct {
    const char *starter, *routine;
} starters[] = {
    {"_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE",
     "execute_native_thread_routine"},
    {"_ZNSt6thread15_M_start_threadESt10shared_ptrINS_10_Impl_baseEEPFvvE",
     "execute_native_thread_routine_compat"},
};

/* The code of a function, at most MAX_CODE bytes of it. */
struct code {
    uint8_t bytes[MAX_CODE];
    size_t len;
    uint64_t start;
};

static bool read_code(const struct elf_file *elf, const struct symbol_raw *symbol,
                      struct code *code) {
    uint64_t len = symbol->end - symbol->start;
    code->start = symbol->start;
    code->len = len < MAX_CODE ? (size_t)len : MAX_CODE;
    for (uint32_t i = 0; i < elf->segment_count; i++) {
        const Elf64_Phdr *segment = &elf->segments[i];
        if (segment->p_type == PT_LOAD && symbol->start >= segment->p_vaddr &&
            symbol->start - segment->p_vaddr < segment->p_filesz)
            return elf_read(&elf->input, segment->p_offset + (symbol->start - segment->p_vaddr),
                            code->bytes, code->len);
    }
    return false;
}

/* The address that the instruction at `at` refers to; it ends in a displacement after `size` bytes.
 */
static uint64_t referred(const struct code *code, size_t at, size_t size) {
    int32_t displacement;
    memcpy(&displacement, code->bytes + at + size, sizeof displacement);
    return code->start + at + size + sizeof displacement + (uint64_t)(int64_t)displacement;
}

static bool is_named(const struct symbol_collection *collection, const struct symbol_raw *symbol,
                     const char *name) {
    return strcmp(collection->names.data + symbol->name, name) == 0;
}

/* The place of a symbol with that name; NULL if there is none. */
static const struct symbol_raw *find(const struct symbol_collection *collection, const char *name) {
    for (size_t i = 0; i < collection->count; i++)
        if (is_named(collection, &collection->items[i], name))
            return &collection->items[i];
    return NULL;
}

/* Whether the first call after `at` is of pthread_create. */
static bool calls_pthread_create(const struct symbol_collection *collection,
                                 const struct code *code, size_t at) {
    while (at + 5 <= code->len && code->bytes[at] != 0xe8)
        at++;
    uint64_t target = at + 5 <= code->len ? referred(code, at, 1) : 0;
    for (size_t i = 0; i < collection->count && target; i++)
        if (collection->items[i].start == target &&
            is_named(collection, &collection->items[i], "pthread_create@plt"))
            return true;
    return false;
}

/* What the function passes to pthread_create; 0 if that is not clear. */
static uint64_t find_routine(const struct symbol_collection *collection, const struct code *code) {
    static const uint8_t lea[] = {0x48, 0x8d, 0x15};
    for (size_t at = 0; at + sizeof lea + 4 <= code->len; at++)
        if (memcmp(code->bytes + at, lea, sizeof lea) == 0 &&
            calls_pthread_create(collection, code, at + sizeof lea + 4))
            return referred(code, at, sizeof lea);
    return 0;
}

void symbol_collect_thread_start(const struct elf_file *elf, struct symbol_collection *collection) {
    if (elf->machine != EM_X86_64 || collection->names.failed)
        return;
    for (size_t i = 0; i < sizeof starters / sizeof starters[0]; i++) {
        struct code code;
        const struct symbol_raw *starter = find(collection, starters[i].starter);
        bool is_read = starter && read_code(elf, starter, &code);
        uint64_t routine = is_read ? find_routine(collection, &code) : 0;
        const struct symbol_text *text = symbol_collection_text(collection, routine);
        if (!text)
            continue;
        const char *name = starters[i].routine;
        struct symbol_raw item = {
            .start = routine, .end = routine, .limit = text->end, .binding = STB_LOCAL};
        item.name = symbol_collection_name(collection, name, strlen(name), "");
        symbol_collection_add(collection, item);
    }
}
