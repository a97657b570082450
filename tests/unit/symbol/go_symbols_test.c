/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of a stripped Go program from .gopclntab: those of a real one against the symbols of the
 * same program before it was stripped, and damaged ones. */
#include "service/symbol/symtab/collect_symbols.h"
#include "tests/unit/check.h"
#include "tests/unit/symbol/fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char source[] = "package main\n"
                             "type box struct{ sum int }\n"
                             "//go:noinline\n"
                             "func (b *box) spin(n int) { for i := 0; i < n; i++ { b.sum += i } }\n"
                             "func main() { b := &box{}; b.spin(7); println(b.sum) }\n";

static void build_program(void) {
    fixture_write("spin.go", source);
    fixture_must("go",
                 "HOME=. GOFLAGS= GO111MODULE=off GOCACHE=$PWD/cache go build -o full spin.go");
    fixture_must("strip", "strip -s -o stripped full");
}

TEST(a_stripped_go_program_has_all_its_names) {
    char line[4096], name[4000], type;
    unsigned long long address;
    uint32_t checked = 0, wrong = 0;
    build_program();
    struct symbol_store *store = fixture_store(NULL, NULL);
    struct fixture_answer spin = fixture_name_in(store, fixture_path("stripped"),
                                                 fixture_nm(fixture_path("full"), "main.main"));
    CHECK_STR(spin.name, "main.main");
    CHECK_INT(spin.quality, ==, SYMBOL_NAMES);
    struct symbol_module *module = fixture_module(store, fixture_path("stripped"));
    CHECK(!symbol_module_is_stripped(module)); /* it needs no advice */
    symbol_module_release(module);
    fixture_run(
        "nm full | grep -E ' [tT] (main|runtime|sync)\\.' | grep -v 'runtime.[et]*text$' > names");
    FILE *names = fopen(fixture_path("names"), "r");
    CHECK(names);
    while (fgets(line, sizeof line, names) && checked < 500) {
        if (sscanf(line, "%llx %c %3999[^\n]", &address, &type, name) != 3)
            continue;
        struct fixture_answer got = fixture_name_in(store, fixture_path("stripped"), address);
        checked++;
        wrong += strncmp(got.name, name, strlen(got.name)) != 0 || got.offset != 0;
    }
    fclose(names);
    CHECK_INT(checked, >, 100);
    /* Assembly functions have symbols of their own for their parts. */
    CHECK_INT(wrong, <=, checked / 50);
    symbol_store_destroy(store);
}

/* --- damaged tables --------------------------------------------------------------------------- */

static char *file;
static size_t file_bytes;
static Elf64_Shdr *found;

static void load_program(void) {
    build_program();
    FILE *in = fopen(fixture_path("stripped"), "r");
    CHECK(in);
    CHECK(fseek(in, 0, SEEK_END) == 0);
    file_bytes = (size_t)ftell(in);
    rewind(in);
    file = malloc(file_bytes);
    CHECK(file && fread(file, 1, file_bytes, in) == file_bytes);
    fclose(in);
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)file;
    Elf64_Shdr *sections = (Elf64_Shdr *)(file + header->e_shoff);
    const char *names = file + sections[header->e_shstrndx].sh_offset;
    for (int i = 0; i < header->e_shnum; i++)
        if (strcmp(names + sections[i].sh_name, ".gopclntab") == 0)
            found = &sections[i];
    CHECK(found);
}

static bool collect(struct symbol_collection *collection) {
    struct elf_input input = {.bytes = (const uint8_t *)file, .fd = -1, .size = file_bytes};
    struct elf_file elf = {0};
    CHECK_INT(elf_open(&input, &elf, NULL), ==, SONDE_OK);
    CHECK_INT(symbol_collect(&elf, NULL, collection), ==, SONDE_OK);
    elf_finish(&elf);
    return collection->quality == SYMBOL_NAMES;
}

/* Whatever the table says, all names end inside of the names, and all functions inside of code. */
static void check_bounds(const struct symbol_collection *collection) {
    for (size_t i = 0; i < collection->count; i++) {
        const struct symbol_raw *item = &collection->items[i];
        CHECK_INT(item->name, <, collection->names.len);
        CHECK(memchr(collection->names.data + item->name, 0, collection->names.len - item->name));
        CHECK_INT(item->start, <=, item->end);
        CHECK_INT(item->end, <=, item->limit);
    }
}

static void collect_and_check(void) {
    struct symbol_collection collection;
    (void)collect(&collection);
    check_bounds(&collection);
    symbol_collection_finish(&collection);
}

TEST(a_damaged_table_names_only_what_it_has) {
    struct symbol_collection collection;
    load_program();
    char *table = file + found->sh_offset, saved[4096];
    CHECK(collect(&collection));
    symbol_collection_finish(&collection);
    for (int word = 0; word < 8; word++) { /* every word of the header, at its extremes */
        static const uint64_t values[] = {0, 1, UINT32_MAX, UINT64_MAX, 1ull << 40};
        uint64_t before;
        memcpy(&before, table + 8 + 8 * word, 8);
        for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
            memcpy(table + 8 + 8 * word, &values[i], 8);
            collect_and_check();
        }
        memcpy(table + 8 + 8 * word, &before, 8);
    }
    uint32_t random = 7;
    for (int round = 0; round < 40; round++) { /* a page of nonsense anywhere */
        random = random * 1664525u + 1013904223u;
        size_t at = random % (found->sh_size - sizeof saved);
        memcpy(saved, table + at, sizeof saved);
        memset(table + at, (int)(random >> 24), sizeof saved);
        collect_and_check();
        memcpy(table + at, saved, sizeof saved);
    }
    found->sh_size = 40; /* the header is cut */
    CHECK(!collect(&collection));
    symbol_collection_finish(&collection);
    free(file);
}

TEST(an_unknown_version_of_the_table_is_left_alone) {
    struct symbol_collection collection;
    load_program();
    file[found->sh_offset] = 0x17;
    CHECK(!collect(&collection));
    symbol_collection_finish(&collection);
    free(file);
}
