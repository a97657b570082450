/* SPDX-License-Identifier: Apache-2.0
 *
 * The full table made by hand: nesting, overlapping claims, rows. */
#include "service/symbol/full_build.h"
#include "tests/unit/check.h"

#include <stdlib.h>

static struct symbol_full_builder *builder;
static struct sonde_buf image;
static struct symbol_full full;

static void begin(void) {
    symbol_full_builder_destroy(builder);
    builder = symbol_full_builder_create(0x1000, 0x10000);
}

static void build(void) {
    sonde_buf_finish(&image);
    CHECK_INT(symbol_full_write(builder, "id", 0, 1, &image), ==, SONDE_OK);
    CHECK_INT(symbol_full_open(image.data, image.len, "id", false, &full), ==, SONDE_OK);
}

static uint32_t node_of(const char *name, uint32_t parent, uint32_t line) {
    struct symbol_node node = {parent, symbol_full_add_function(builder, name, 0),
                               parent == SYMBOL_NO_NODE ? 0 : symbol_full_add_file(builder, "/f.c"),
                               line};
    return symbol_full_add_node(builder, node);
}

/* "innermost<outer" at an address. */
static const char *chain(uint64_t vaddr) {
    static char text[256];
    uint32_t node = symbol_full_find(&full, vaddr);
    text[0] = 0;
    while (node != SYMBOL_NO_NODE) {
        strcat(text, text[0] ? "<" : "");
        strcat(text, symbol_full_function(&full, full.nodes[node].function));
        node = full.nodes[node].parent;
    }
    return text;
}

TEST(inlined_calls_nest_and_the_deepest_wins) {
    begin();
    symbol_full_begin(builder);
    uint32_t f = node_of("f", SYMBOL_NO_NODE, 0), g = node_of("g", f, 10), h = node_of("h", g, 20);
    symbol_full_add_range(builder, 0x2000, 0x2100, f, 0);
    symbol_full_add_range(builder, 0x2000, 0x2040, g, 1); /* starts with its parent */
    symbol_full_add_range(builder, 0x2010, 0x2020, h, 2);
    symbol_full_add_range(builder, 0x2080, 0x2090, g, 1); /* a second part */
    symbol_full_end(builder);
    build();
    CHECK_STR(chain(0x1fff), "");
    CHECK_STR(chain(0x2000), "g<f");
    CHECK_STR(chain(0x2010), "h<g<f");
    CHECK_STR(chain(0x2020), "g<f");
    CHECK_STR(chain(0x2040), "f");
    CHECK_STR(chain(0x2085), "g<f");
    CHECK_STR(chain(0x20ff), "f");
    CHECK_STR(chain(0x2100), "");
}

TEST(a_cold_part_far_away_belongs_to_its_function) {
    begin();
    symbol_full_begin(builder);
    uint32_t f = node_of("f", SYMBOL_NO_NODE, 0), g = node_of("g", f, 1);
    symbol_full_add_range(builder, 0x3000, 0x3010, f, 0);
    symbol_full_add_range(builder, 0x1100, 0x1120, f, 0);
    symbol_full_add_range(builder, 0x1110, 0x1118, g, 1);
    symbol_full_end(builder);
    build();
    CHECK_STR(chain(0x1100), "f");
    CHECK_STR(chain(0x1110), "g<f");
    CHECK_STR(chain(0x3005), "f");
}

TEST(functions_that_claim_the_same_code_are_never_mixed) {
    begin();
    static const char *const names[][2] = {{"a", "a_inner"}, {"b", "b_inner"}};
    for (int i = 0; i < 2; i++) {
        symbol_full_begin(builder);
        uint32_t outer = node_of(names[i][0], SYMBOL_NO_NODE, 0);
        uint32_t inner = node_of(names[i][1], outer, 5);
        symbol_full_add_range(builder, 0x2000, 0x2040, outer, 0);
        symbol_full_add_range(builder, i ? 0x2000 : 0x2020, i ? 0x2010 : 0x2030, inner, 1);
        symbol_full_end(builder);
    }
    build();
    for (uint64_t at = 0x2000; at < 0x2040; at++)
        CHECK(strchr(chain(at), 'a') && !strchr(chain(at), 'b'));
}

TEST(discarded_code_is_left_out) {
    begin();
    symbol_full_begin(builder);
    uint32_t f = node_of("f", SYMBOL_NO_NODE, 0);
    symbol_full_add_range(builder, 0, 0x2000, f, 0);
    symbol_full_add_range(builder, UINT64_MAX - 0x10, UINT64_MAX, f, 0);
    symbol_full_add_range(builder, 0x2000, 0x2000, f, 0);
    symbol_full_end(builder);
    symbol_full_add_row(builder, 0, 0x3000, symbol_full_add_file(builder, "/f.c"), 7);
    build();
    CHECK_STR(chain(0x1800), "");
    uint32_t file, line;
    CHECK(!symbol_full_line(&full, 0x1800, &file, &line));
}

TEST(rows_cover_their_runs_and_the_first_keeps_what_two_claim) {
    begin();
    uint32_t a = symbol_full_add_file(builder, "/a.c"), b = symbol_full_add_file(builder, "/b.c");
    symbol_full_add_row(builder, 0x2000, 0x2010, a, 1);
    symbol_full_add_row(builder, 0x2010, 0x2020, a, 2);
    symbol_full_add_row(builder, 0x2018, 0x2030, b, 9);
    symbol_full_add_row(builder, 0x1000, 0x1004, b, 100000);
    build();
    uint32_t file, line;
    CHECK(symbol_full_line(&full, 0x200f, &file, &line));
    CHECK_STR(symbol_full_file(&full, file), "/a.c");
    CHECK_INT(line, ==, 1);
    CHECK(symbol_full_line(&full, 0x201f, &file, &line));
    CHECK_INT(line, ==, 2);
    CHECK(symbol_full_line(&full, 0x2020, &file, &line));
    CHECK_STR(symbol_full_file(&full, file), "/b.c");
    CHECK(symbol_full_line(&full, 0x1003, &file, &line));
    CHECK_INT(line, ==, 100000);
    CHECK(!symbol_full_line(&full, 0x1004, &file, &line));
    CHECK(!symbol_full_line(&full, 0x2030, &file, &line));
}

TEST(equal_chains_files_and_names_are_kept_once) {
    begin();
    for (uint64_t i = 0; i < 100; i++) {
        symbol_full_begin(builder);
        uint32_t f = node_of("f", SYMBOL_NO_NODE, 0);
        symbol_full_add_range(builder, 0x2000 + i * 16, 0x2008 + i * 16, f, 0);
        symbol_full_add_range(builder, 0x2002 + i * 16, 0x2004 + i * 16, node_of("g", f, 3), 1);
        symbol_full_end(builder);
    }
    build();
    CHECK_INT(full.header->node_count, ==, 2);
    CHECK_INT(full.header->function_count, ==, 2);
    CHECK_INT(full.header->file_count, ==, 1);
    CHECK_STR(chain(0x2002 + 99 * 16), "g<f");
}

TEST(any_flipped_bit_of_a_full_image_is_noticed) {
    begin();
    symbol_full_begin(builder);
    symbol_full_add_range(builder, 0x2000, 0x2100, node_of("f", SYMBOL_NO_NODE, 0), 0);
    symbol_full_end(builder);
    build();
    for (size_t i = 0; i < image.len; i++) {
        struct symbol_full damaged;
        image.data[i] ^= 0x10;
        CHECK_INT(symbol_full_open(image.data, image.len, "id", false, &damaged), ==,
                  SONDE_CORRUPT);
        image.data[i] ^= 0x10;
    }
}
