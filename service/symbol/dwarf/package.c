/* SPDX-License-Identifier: Apache-2.0
 *
 *     version, columns, units, slots | ids u64[slots] | rows u32[slots]
 *     | section of each column u32 | offsets u32[units][columns] | sizes u32[units][columns]
 *
 * A slot has an id and the number of its row, counted from 1; 0 = free. */
#include "service/symbol/dwarf/package.h"

#include "service/elf/cursor.h"

#define MAX_COLUMNS 16u
#define HEADER      16u

struct index {
    struct sonde_slice bytes;
    uint32_t version, columns, units, slots;
};

static uint64_t number_at(const struct index *index, uint64_t offset, unsigned size) {
    struct cursor cursor = cursor_at(index->bytes, offset, size);
    return cursor_uint(&cursor, size);
}

static bool open_index(struct sonde_slice bytes, struct index *index) {
    struct cursor cursor = cursor_at(bytes, 0, HEADER);
    *index = (struct index){.bytes = bytes};
    index->version = (uint32_t)cursor_uint(&cursor, 4) & 0xffff;
    index->columns = (uint32_t)cursor_uint(&cursor, 4);
    index->units = (uint32_t)cursor_uint(&cursor, 4);
    index->slots = (uint32_t)cursor_uint(&cursor, 4);
    uint64_t cells = ((uint64_t)index->units * 2 + 1) * index->columns;
    return !cursor.failed && (index->version == 2 || index->version == 5) &&
           index->columns <= MAX_COLUMNS && index->slots > 0 &&
           (index->slots & (index->slots - 1)) == 0 &&
           HEADER + (uint64_t)index->slots * 12 + cells * 4 <= bytes.len;
}

/* The row of an id, counted from 0; UINT32_MAX = not found. */
static uint32_t find_row(const struct index *index, uint64_t id, uint64_t *fuel) {
    uint64_t mask = index->slots - 1, at = id & mask, step = (id >> 32 & mask) | 1;
    for (uint32_t i = 0; i<index->slots && * fuel> 0; i++, at = (at + step) & mask, --*fuel) {
        uint32_t row = (uint32_t)number_at(index, HEADER + 8ull * index->slots + 4 * at, 4);
        if (row == 0 || row > index->units)
            return UINT32_MAX;
        if (number_at(index, HEADER + 8 * at, 8) == id)
            return row - 1;
    }
    return UINT32_MAX;
}

/* The section of a column; DWARF_SECTION_COUNT = none of ours. */
static enum dwarf_section section_of(uint32_t version, uint64_t column) {
    switch (column) {
    case 1:
        return DWARF_INFO;
    case 3:
        return DWARF_ABBREV;
    case 4:
        return DWARF_LINE;
    case 6:
        return DWARF_STR_OFFSETS;
    case 8:
        return version == 5 ? DWARF_RNGLISTS : DWARF_SECTION_COUNT;
    default:
        return DWARF_SECTION_COUNT;
    }
}

sonde_err dwarf_package_find(const struct dwarf_sections *package, uint64_t id, uint64_t *fuel,
                             struct sonde_slice of[DWARF_SECTION_COUNT]) {
    struct index index;
    if (!open_index(package->of[DWARF_CU_INDEX], &index))
        return SONDE_CORRUPT;
    uint32_t row = find_row(&index, id, fuel);
    if (row == UINT32_MAX)
        return SONDE_NOT_FOUND;
    memcpy(of, package->of, sizeof package->of);
    uint64_t columns = HEADER + 12ull * index.slots, offsets = columns + 4ull * index.columns;
    uint64_t sizes = offsets + 4ull * index.columns * index.units;
    for (uint32_t i = 0; i < index.columns; i++) {
        enum dwarf_section which =
            section_of(index.version, number_at(&index, columns + 4ull * i, 4));
        uint64_t cell = 4 * ((uint64_t)row * index.columns + i);
        uint64_t offset = number_at(&index, offsets + cell, 4);
        uint64_t size = number_at(&index, sizes + cell, 4);
        if (which == DWARF_SECTION_COUNT)
            continue;
        if (offset > of[which].len || size > of[which].len - offset)
            return SONDE_CORRUPT;
        of[which] = (struct sonde_slice){package->of[which].data + offset, size};
    }
    return SONDE_OK;
}
