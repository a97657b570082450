/* SPDX-License-Identifier: Apache-2.0
 *
 * Symbol tables built from symbols that are written by hand. */
#include "service/symbol/symtab/collect_symbols.h"
#include "service/symbol/symtab/symbol_table.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>

static struct symbol_collection collection;
static struct sonde_buf image;
static struct symbol_table names;

static void add_as(const char *name, uint64_t start, uint64_t size, uint8_t binding, bool exact) {
    struct symbol_raw item = {.start = start,
                              .end = start + size,
                              .limit = 0x9000,
                              .binding = binding,
                              .is_exact = exact};
    item.name = symbol_collection_name(&collection, name, strlen(name), "");
    symbol_collection_add(&collection, item);
}

static void add(const char *name, uint64_t start, uint64_t size) {
    add_as(name, start, size, STB_GLOBAL, false);
}

static void build(void) {
    sonde_buf_finish(&image);
    collection.quality = SYMBOL_NAMES;
    CHECK_INT(symbol_table_build(&collection, "id", 0, &image), ==, SONDE_OK);
    symbol_collection_finish(&collection);
    CHECK_INT(symbol_table_open(image.data, image.len, "id", false, &names), ==, SONDE_OK);
}

static const char *at(uint64_t address) {
    uint32_t symbol = symbol_table_find(&names, address);
    return symbol == SYMBOL_NO_SYMBOL ? "-" : symbol_table_name(&names, symbol);
}

TEST(an_empty_table_names_nothing) {
    build();
    CHECK_STR(at(0), "-");
    CHECK_STR(at(0x1000), "-");
    CHECK_STR(at(UINT64_MAX), "-");
}

TEST(a_sized_function_covers_its_bytes_and_no_more) {
    add("f", 0x1000, 0x10);
    add("g", 0x1020, 0x10);
    build();
    CHECK_STR(at(0xfff), "-");
    CHECK_STR(at(0x1000), "f");
    CHECK_STR(at(0x100f), "f");
    CHECK_STR(at(0x1010), "-");
    CHECK_STR(at(0x101f), "-");
    CHECK_STR(at(0x1020), "g");
    CHECK_STR(at(0x102f), "g");
    CHECK_STR(at(0x1030), "-");
}

TEST(trap_10_the_innermost_symbol_is_the_answer) {
    add("outer", 0x1000, 0x100);
    add("inner", 0x1040, 0x10);
    add("overlapping", 0x10f0, 0x40);
    build();
    CHECK_STR(at(0x1000), "outer");
    CHECK_STR(at(0x1045), "inner");
    CHECK_STR(at(0x1050), "outer");
    CHECK_STR(at(0x10f8), "overlapping");
    CHECK_STR(at(0x1120), "overlapping");
    CHECK_STR(at(0x1130), "-");
}

TEST(deeply_nested_symbols_are_flattened_in_order) {
    char name[16];
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "n%d", i);
        add(name, 0x1000 + (uint64_t)i, 0x1000 - 2 * (uint64_t)i);
    }
    build();
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "n%d", i);
        CHECK_STR(at(0x1000 + (uint64_t)i), name);
        CHECK_STR(at(0x1fff - (uint64_t)i), name);
    }
}

TEST(trap_6_a_symbol_without_size_ends_at_the_next_or_with_its_section) {
    add("label", 0x1000, 0);
    add("next", 0x1040, 0x10);
    add("last", 0x8ff0, 0);
    build();
    CHECK_STR(at(0x103f), "label");
    CHECK_STR(at(0x1040), "next");
    CHECK_STR(at(0x1050), "-");
    CHECK_STR(at(0x8fff), "last");
    CHECK_STR(at(0x9000), "-");
}

TEST(trap_6_a_label_in_a_function_does_not_split_it) {
    add("function", 0x1000, 0x100);
    add("label", 0x1080, 0);
    build();
    CHECK_STR(at(0x1090), "function");
}

TEST(trap_7_an_export_without_size_names_its_own_address_only) {
    add_as("export", 0x1000, 0, STB_GLOBAL, true);
    add("far", 0x1100, 0x10);
    build();
    CHECK_STR(at(0x1000), "export");
    CHECK_STR(at(0x1001), "-");
}

TEST(trap_2_the_best_known_alias_is_chosen) {
    add_as("zz_local", 0x1000, 8, STB_LOCAL, false);
    add_as("weak", 0x1000, 8, STB_WEAK, false);
    add_as("__global", 0x1000, 8, STB_GLOBAL, false);
    add_as("global_long", 0x1000, 8, STB_GLOBAL, false);
    add_as("global_b", 0x1000, 8, STB_GLOBAL, false);
    add_as("global_a", 0x1000, 8, STB_GLOBAL, false);
    add_as("a", 0x1000, 0, STB_GLOBAL, false);
    build();
    CHECK_STR(at(0x1004), "global_a");
}

TEST(trap_2_the_public_alias_of_a_function_of_libc_is_chosen) {
    add_as("__GI___libc_write", 0x1000, 8, STB_LOCAL, false);
    add_as("w", 0x1000, 8, STB_LOCAL, false);
    add_as("__write", 0x1000, 8, STB_GLOBAL, false);
    add_as("write", 0x1000, 8, STB_WEAK, false);
    add_as("_write", 0x1000, 8, STB_GLOBAL, false);
    build();
    CHECK_STR(at(0x1004), "write");
}

TEST(trap_2_the_choice_does_not_depend_on_the_order_of_the_file) {
    const char *all[] = {"_ZN1AC1Ev", "_ZN1AC2Ev", "other", "_other", "x1"};
    for (int turn = 0; turn < 5; turn++) {
        for (int i = 0; i < 5; i++)
            add(all[(turn + i) % 5], 0x1000, 8);
        build();
        CHECK_STR(at(0x1000), "x1");
    }
}

static bool folded(uint64_t address) {
    return names.symbols[symbol_table_find(&names, address)].flags & SYMBOL_IS_FOLDED;
}

TEST(folded_code_is_marked_and_constructor_variants_are_not) {
    add("_ZN1AC1Ev", 0x1000, 8);
    add("_ZN1AC2Ev", 0x1000, 8);
    add("_ZN1A3getEv", 0x2000, 8);
    add("_ZN1B3getEv", 0x2000, 8);
    add("read", 0x3000, 8);
    add("__read", 0x3000, 8);
    build();
    CHECK(!folded(0x1000));
    CHECK(folded(0x2000));
    CHECK(!folded(0x3000));
}

TEST(a_random_table_agrees_with_a_simple_search) {
    struct plain {
        uint64_t start, size;
    } all[500];
    srand(7);
    for (int i = 0; i < 500; i++) {
        char name[16];
        snprintf(name, sizeof name, "s%d", i);
        all[i] = (struct plain){0x1000 + (uint64_t)i * 32 + (uint64_t)(rand() % 32),
                                1 + (uint64_t)(rand() % 200)};
        add(name, all[i].start, all[i].size);
    }
    build();
    for (uint64_t address = 0xff0; address < 0x1000 + 500 * 32 + 300; address++) {
        int best = -1;
        for (int i = 0; i < 500; i++)
            if (address >= all[i].start && address - all[i].start < all[i].size &&
                (best < 0 || all[i].start > all[best].start))
                best = i;
        char name[16] = "-";
        if (best >= 0)
            snprintf(name, sizeof name, "s%d", best);
        CHECK_STR(at(address), name);
    }
}

TEST(any_flipped_bit_of_a_symbol_table_is_detected) {
    add("f", 0x1000, 0x10);
    add("g", 0x1020, 0x10);
    build();
    for (size_t i = 0; i < image.len; i++) {
        struct symbol_table damaged;
        image.data[i] ^= 1;
        CHECK_INT(symbol_table_open(image.data, image.len, "id", false, &damaged), ==,
                  SONDE_CORRUPT);
        image.data[i] ^= 1;
    }
    CHECK_INT(symbol_table_open(image.data, image.len, "id", false, &names), ==, SONDE_OK);
    CHECK_INT(symbol_table_open(image.data, image.len, "other", false, &names), ==, SONDE_CORRUPT);
    CHECK_INT(symbol_table_open(image.data, image.len - 1, "id", false, &names), ==, SONDE_CORRUPT);
}

TEST(symbols_four_gigabytes_apart_do_not_wrap) {
    struct symbol_raw item = {.start = 0x1000, .end = 0x1010, .limit = 0x2000};
    item.name = symbol_collection_name(&collection, "near", 4, "");
    symbol_collection_add(&collection, item);
    item = (struct symbol_raw){.start = 0x200001000, .end = 0x200001010, .limit = 0x200002000};
    item.name = symbol_collection_name(&collection, "far", 3, "");
    symbol_collection_add(&collection, item);
    build();
    CHECK_STR(at(0x1008), "near");
    CHECK_STR(at(0x200001008), "-");
}
