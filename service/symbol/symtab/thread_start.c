/* SPDX-License-Identifier: Apache-2.0
 *
 * Names execute_native_thread_routine of a stripped libstdc++, which is in the stack of every
 * std::thread but is not exported. libstdc++ has only one such function: the one that the exported
 * std::thread::_M_start_thread passes to pthread_create as its third argument; and programs that
 * were built before GCC 6 have one more. */
#include "service/machine/machine.h"
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

static bool is_pthread_create(const struct symbol_collection *collection, uint64_t target) {
    for (size_t i = 0; i < collection->count; i++)
        if (collection->items[i].start == target &&
            is_named(collection, &collection->items[i], "pthread_create@plt"))
            return true;
    return false;
}

/* What the function passes to pthread_create; 0 if that is not clear. */
static uint64_t find_routine(const struct elf_file *elf, const struct symbol_collection *collection,
                             const struct code *code) {
    struct machine_text text = {code->bytes, code->len, code->start};
    struct machine_call call;
    for (size_t at = 0; machine_of(elf->machine)->next_call(&text, &at, &call);)
        if (is_pthread_create(collection, call.target))
            return call.argument;
    return 0;
}

void symbol_collect_thread_start(const struct elf_file *elf, struct symbol_collection *collection) {
    if (collection->names.failed)
        return;
    for (size_t i = 0; i < sizeof starters / sizeof starters[0]; i++) {
        struct code code;
        const struct symbol_raw *starter = find(collection, starters[i].starter);
        bool is_read = starter && read_code(elf, starter, &code);
        uint64_t routine = is_read ? find_routine(elf, collection, &code) : 0;
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
