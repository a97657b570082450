/* SPDX-License-Identifier: Apache-2.0
 *
 * Arbitrary bytes as the DWARF sections of a file, of the file that dwz moved shared DWARF to, and
 * of a package of split units. The input is a list of sections, each with its number (one byte:
 * file * 16 + section), its length (two bytes, little-endian) and its bytes. dwarf_seeds.sh writes
 * such lists from real programs. */
#include "service/symbol/dwarf/dwarf.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_BASE  0x1000u
#define TEXT_LIMIT 0x10000000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAIN, ALT, PACKAGE, FILE_COUNT };

static struct dwarf_sections files[FILE_COUNT];

static void forget(void) {
    for (int i = 0; i < FILE_COUNT; i++) {
        for (int j = 0; j < DWARF_SECTION_COUNT; j++)
            free((char *)files[i].of[j].data);
        files[i] = (struct dwarf_sections){0};
    }
}

/* Copies each section to memory of exactly its size, so that a sanitizer detects reads beyond
 * it. */
static void cut(const uint8_t *data, size_t size) {
    while (size >= 3) {
        size_t len = (size_t)data[1] | (size_t)data[2] << 8, file = data[0] / 16 % FILE_COUNT;
        struct sonde_slice *slice = &files[file].of[data[0] % 16 % DWARF_SECTION_COUNT];
        data += 3;
        size -= 3;
        len = len < size ? len : size;
        if (!slice->data && len > 0) {
            char *bytes = malloc(len);
            *slice = (struct sonde_slice){memcpy(bytes, data, len), len};
        }
        data += len;
        size -= len;
    }
}

static void look_up(const struct sonde_buf *image) {
    struct line_table full;
    if (line_table_open(image->data, image->len, "fuzz", false, &full) != SONDE_OK)
        abort();
    for (uint64_t vaddr = TEXT_BASE; vaddr < TEXT_BASE + 0x2000; vaddr += 7) {
        uint32_t node = line_table_find_node(&full, vaddr), file, line;
        for (int depth = 0; node != LINE_TABLE_NO_NODE; node = full.nodes[node].parent)
            if (node >= full.header->node_count || depth++ > 1000)
                abort();
        if (line_table_find_line(&full, vaddr, &file, &line) &&
            strlen(line_table_file_name(&full, file)) >= image->len)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    cut(data, size);
    struct dwarf_input input = {.main = &files[MAIN],
                                .alt = files[ALT].of[DWARF_INFO].len ? &files[ALT] : NULL,
                                .package = &files[PACKAGE],
                                .base = TEXT_BASE};
    struct dwarf_result result;
    struct line_table_builder *builder = line_table_builder_create(TEXT_BASE, TEXT_LIMIT, -1);
    if (dwarf_walk_all(&input, builder, &result) == SONDE_OK) {
        struct sonde_buf image = {0};
        if (line_table_write(builder, "fuzz", 0, result.units, &image) == SONDE_OK)
            look_up(&image);
        sonde_buf_finish(&image);
    }
    line_table_builder_destroy(builder);
    forget();
    return 0;
}
