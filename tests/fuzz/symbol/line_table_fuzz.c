/* SPDX-License-Identifier: Apache-2.0
 *
 * A line table with any of its bytes changed and its checksum ignored. The input is a list of
 * patches, each with an offset (two bytes) and a value (four bytes). */
#include "service/symbol/lines/line_table_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct sonde_buf base;

static void add_function(struct line_table_builder *builder, uint32_t i) {
    char name[32];
    uint64_t start = 0x1000 + i * 64;
    snprintf(name, sizeof name, "_Z%df%uv", i < 10 ? 2 : 3, i);
    struct line_table_node outer = {LINE_TABLE_NO_NODE, 0, i * 64, 0};
    outer.function = line_table_add_function(builder, name, LINE_TABLE_IS_LINKAGE_NAME);
    line_table_begin_function(builder);
    uint32_t node = line_table_add_node(builder, outer);
    line_table_add_range(builder, start, start + 60, node, 0);
    struct line_table_node inner = {node, line_table_add_function(builder, "inlined", 0),
                                    line_table_add_file(builder, "/src/a.c"), i + 1};
    line_table_add_range(builder, start + 8, start + 40, line_table_add_node(builder, inner), 1);
    line_table_end_function(builder);
    line_table_add_row(builder, start, start + 30, line_table_add_file(builder, "/src/b.c"), i);
}

static void make_base(void) {
    struct line_table_builder *builder = line_table_builder_create(0x1000, 0x9000, -1);
    for (uint32_t i = 0; i < 40; i++)
        add_function(builder, i);
    if (line_table_write(builder, "fuzz", 0, 1, &base) != SONDE_OK)
        abort();
    line_table_builder_destroy(builder);
}

static void look_up(const struct line_table *full, size_t size) {
    for (uint64_t i = 0; i < 256; i++) {
        uint64_t vaddr = full->header->base + i * 11;
        uint32_t node = line_table_find_node(full, vaddr), file, line;
        if (node != LINE_TABLE_NO_NODE &&
            strlen(line_table_function_name(full, full->nodes[node].function)) >= size)
            abort();
        if (line_table_find_line(full, vaddr, &file, &line) &&
            strlen(line_table_file_name(full, file)) >= size)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (base.len == 0)
        make_base();
    char *image =
        malloc(base.len); /* exactly its size, so that a sanitizer detects reads beyond it */
    memcpy(image, base.data, base.len);
    for (size_t i = 0; i + 6 <= size; i += 6) {
        size_t at = ((size_t)data[i] << 8 | data[i + 1]) % (base.len - 3);
        memcpy(image + at, data + i + 2, 4);
    }
    struct line_table full;
    if (line_table_open(image, base.len, NULL, true, &full) == SONDE_OK)
        look_up(&full, base.len);
    free(image);
    return 0;
}
