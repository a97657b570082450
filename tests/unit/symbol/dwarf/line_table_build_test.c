/* SPDX-License-Identifier: Apache-2.0
 *
 * Line tables built by hand: nesting, overlapping functions, rows. */
#include "service/symbol/lines/line_table_build.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

static struct line_table_builder *builder;
static struct sonde_buf image;
static struct line_table full;

static void begin(void) {
    line_table_builder_destroy(builder);
    builder = line_table_builder_create(0x1000, 0x10000, -1);
}

static void build(void) {
    sonde_buf_finish(&image);
    CHECK_INT(line_table_write(builder, "id", 0, 1, &image), ==, SONDE_OK);
    CHECK_INT(line_table_open(image.data, image.len, "id", false, &full), ==, SONDE_OK);
}

static uint32_t node_of(const char *name, uint32_t parent, uint32_t line) {
    struct line_table_node node = {
        parent, line_table_add_function(builder, name, 0),
        parent == LINE_TABLE_NO_NODE ? 0 : line_table_add_file(builder, "/f.c"), line};
    return line_table_add_node(builder, node);
}

/* "innermost<outer" at an address. */
static const char *chain(uint64_t vaddr) {
    static char text[256];
    uint32_t node = line_table_find_node(&full, vaddr);
    text[0] = 0;
    while (node != LINE_TABLE_NO_NODE) {
        strcat(text, text[0] ? "<" : "");
        strcat(text, line_table_function_name(&full, full.nodes[node].function));
        node = full.nodes[node].parent;
    }
    return text;
}

TEST(inlined_calls_nest_and_the_deepest_wins) {
    begin();
    line_table_begin_function(builder);
    uint32_t f = node_of("f", LINE_TABLE_NO_NODE, 0), g = node_of("g", f, 10),
             h = node_of("h", g, 20);
    line_table_add_range(builder, 0x2000, 0x2100, f, 0);
    line_table_add_range(builder, 0x2000, 0x2040, g, 1); /* starts with its parent */
    line_table_add_range(builder, 0x2010, 0x2020, h, 2);
    line_table_add_range(builder, 0x2080, 0x2090, g, 1); /* a second part */
    line_table_end_function(builder);
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
    line_table_begin_function(builder);
    uint32_t f = node_of("f", LINE_TABLE_NO_NODE, 0), g = node_of("g", f, 1);
    line_table_add_range(builder, 0x3000, 0x3010, f, 0);
    line_table_add_range(builder, 0x1100, 0x1120, f, 0);
    line_table_add_range(builder, 0x1110, 0x1118, g, 1);
    line_table_end_function(builder);
    build();
    CHECK_STR(chain(0x1100), "f");
    CHECK_STR(chain(0x1110), "g<f");
    CHECK_STR(chain(0x3005), "f");
}

TEST(chains_of_overlapping_functions_are_not_mixed) {
    begin();
    static const char *const names[][2] = {{"a", "a_inner"}, {"b", "b_inner"}};
    for (int i = 0; i < 2; i++) {
        line_table_begin_function(builder);
        uint32_t outer = node_of(names[i][0], LINE_TABLE_NO_NODE, 0);
        uint32_t inner = node_of(names[i][1], outer, 5);
        line_table_add_range(builder, 0x2000, 0x2040, outer, 0);
        line_table_add_range(builder, i ? 0x2000 : 0x2020, i ? 0x2010 : 0x2030, inner, 1);
        line_table_end_function(builder);
    }
    build();
    for (uint64_t at = 0x2000; at < 0x2040; at++)
        CHECK(strchr(chain(at), 'a') && !strchr(chain(at), 'b'));
}

TEST(discarded_code_is_left_out) {
    begin();
    line_table_begin_function(builder);
    uint32_t f = node_of("f", LINE_TABLE_NO_NODE, 0);
    line_table_add_range(builder, 0, 0x2000, f, 0);
    line_table_add_range(builder, UINT64_MAX - 0x10, UINT64_MAX, f, 0);
    line_table_add_range(builder, 0x2000, 0x2000, f, 0);
    line_table_end_function(builder);
    line_table_add_row(builder, 0, 0x3000, line_table_add_file(builder, "/f.c"), 7);
    build();
    CHECK_STR(chain(0x1800), "");
    uint32_t file, line;
    CHECK(!line_table_find_line(&full, 0x1800, &file, &line));
}

TEST(overlapping_rows_belong_to_the_first_run) {
    begin();
    uint32_t a = line_table_add_file(builder, "/a.c"), b = line_table_add_file(builder, "/b.c");
    line_table_add_row(builder, 0x2000, 0x2010, a, 1);
    line_table_add_row(builder, 0x2010, 0x2020, a, 2);
    line_table_add_row(builder, 0x2018, 0x2030, b, 9);
    line_table_add_row(builder, 0x1000, 0x1004, b, 100000);
    build();
    uint32_t file, line;
    CHECK(line_table_find_line(&full, 0x200f, &file, &line));
    CHECK_STR(line_table_file_name(&full, file), "/a.c");
    CHECK_INT(line, ==, 1);
    CHECK(line_table_find_line(&full, 0x201f, &file, &line));
    CHECK_INT(line, ==, 2);
    CHECK(line_table_find_line(&full, 0x2020, &file, &line));
    CHECK_STR(line_table_file_name(&full, file), "/b.c");
    CHECK(line_table_find_line(&full, 0x1003, &file, &line));
    CHECK_INT(line, ==, 100000);
    CHECK(!line_table_find_line(&full, 0x1004, &file, &line));
    CHECK(!line_table_find_line(&full, 0x2030, &file, &line));
}

TEST(equal_names_and_equal_chains_of_a_function_are_stored_once) {
    begin();
    for (uint64_t i = 0; i < 100; i++) {
        uint64_t start = 0x2000 + i * 64;
        line_table_begin_function(builder);
        uint32_t f = node_of("f", LINE_TABLE_NO_NODE, 0);
        line_table_add_range(builder, start, start + 40, f, 0);
        line_table_add_range(builder, start + 2, start + 4, node_of("g", f, 3), 1);
        line_table_add_range(builder, start + 8, start + 9, node_of("g", f, 3), 1); /* unrolled */
        line_table_end_function(builder);
    }
    build();
    CHECK_INT(full.header->node_count, ==, 200);
    CHECK_INT(full.header->function_count, ==, 2);
    CHECK_INT(full.header->file_count, ==, 1);
    CHECK_STR(chain(0x2002 + 99 * 64), "g<f");
    CHECK_STR(chain(0x2008 + 99 * 64), "g<f");
}

TEST(a_function_is_found_by_its_range) {
    begin();
    CHECK(!line_table_has_range(builder, 0x2000, 0x2040));
    line_table_begin_function(builder);
    line_table_add_range(builder, 0x2000, 0x2040, node_of("f", LINE_TABLE_NO_NODE, 0), 0);
    line_table_end_function(builder);
    CHECK(line_table_has_range(builder, 0x2000, 0x2040));
    CHECK(!line_table_has_range(builder, 0x2000, 0x2030));
    CHECK(!line_table_has_range(builder, 0, 0x40)); /* discarded code belongs to no function */
}

/* Starts at all distances from each other, over a large address space. */
TEST(starts_are_found_near_and_far) {
    line_table_builder_destroy(builder);
    builder = line_table_builder_create(0x1000, 0x1000 + 0xf0000000u, -1);
    uint32_t file = line_table_add_file(builder, "/a.c"), line = 0;
    for (uint64_t at = 0x1000, step = 1; at + step < 0xe0000000u; at += step, step += step / 3 + 1)
        line_table_add_row(builder, at, at + step, file, ++line);
    build();
    uint32_t wanted = 0, found_file, found;
    for (uint64_t at = 0x1000, step = 1; at + step < 0xe0000000u;
         at += step, step += step / 3 + 1) {
        wanted++;
        CHECK(line_table_find_line(&full, at, &found_file, &found));
        CHECK_INT(found, ==, wanted);
        CHECK(line_table_find_line(&full, at + step - 1, &found_file, &found));
        CHECK_INT(found, ==, wanted);
    }
}

/* More than stays in memory, so lists move to the scratch file. The table is written to a file,
 * too. */
TEST(a_large_table_goes_through_files_and_comes_out_the_same) {
    static const uint32_t count = 5u << 18;
    struct sonde_buf wanted = {0};
    for (int with_files = 0; with_files < 2; with_files++) {
        FILE *scratch = tmpfile(), *out = tmpfile();
        CHECK(scratch && out);
        line_table_builder_destroy(builder);
        builder = line_table_builder_create(0x1000, 0xf0000000u, with_files ? fileno(scratch) : -1);
        uint32_t file = line_table_add_file(builder, "/a.c");
        uint32_t f = line_table_add_function(builder, "f", 0);
        for (uint32_t i = 0; i < count; i++) {
            uint64_t start = 0x1000 + (uint64_t)(i ^ 0x155) * 64; /* not in order */
            struct line_table_node node = {LINE_TABLE_NO_NODE, f, (uint32_t)start - 0x1000, 0};
            line_table_begin_function(builder);
            line_table_add_range(builder, start, start + 60, line_table_add_node(builder, node), 0);
            line_table_end_function(builder);
            line_table_add_row(builder, start, start + 60, file, i);
            if (i % 100000 == 0)
                line_table_drop_pages(builder);
        }
        if (!with_files) {
            CHECK_INT(line_table_write(builder, "id", 0, 1, &wanted), ==, SONDE_OK);
            continue;
        }
        struct stat info;
        CHECK_INT(line_table_write_file(builder, "id", 0, 1, fileno(out)), ==, SONDE_OK);
        CHECK_INT(fstat(fileno(scratch), &info), ==, 0);
        CHECK_INT(info.st_size, >, 8 << 20);
        CHECK_INT(fstat(fileno(out), &info), ==, 0);
        CHECK_INT(info.st_size, ==, (long)wanted.len);
        void *bytes = mmap(NULL, wanted.len, PROT_READ, MAP_SHARED, fileno(out), 0);
        CHECK(bytes != MAP_FAILED);
        CHECK_INT(memcmp(bytes, wanted.data, wanted.len), ==, 0);
        munmap(bytes, wanted.len);
        fclose(scratch);
        fclose(out);
    }
    sonde_buf_finish(&wanted);
}

TEST(any_flipped_bit_of_a_line_table_is_detected) {
    begin();
    line_table_begin_function(builder);
    line_table_add_range(builder, 0x2000, 0x2100, node_of("f", LINE_TABLE_NO_NODE, 0), 0);
    line_table_end_function(builder);
    build();
    for (size_t i = 0; i < image.len; i++) {
        struct line_table damaged;
        image.data[i] ^= 0x10;
        CHECK_INT(line_table_open(image.data, image.len, "id", false, &damaged), ==, SONDE_CORRUPT);
        image.data[i] ^= 0x10;
    }
}
