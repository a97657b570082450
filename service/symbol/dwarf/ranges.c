/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/dwarf/ranges.h"

#include "api/base/array.h"
#include "service/symbol/dwarf/constants.h"

#include <stdlib.h>

static void add(struct dwarf_ranges *ranges, uint64_t start, uint64_t end) {
    if (start >= end)
        return;
    if (!array_room(&ranges->items, &ranges->capacity, ranges->count, 1))
        return;
    ranges->items[ranges->count++] = (struct dwarf_range){start, end};
}

/* DWARF 2 to 4: pairs of addresses. (0, 0) ends the list; (-1, ADDRESS) sets the base. */
static void add_pairs(struct dwarf_ranges *ranges, const struct dwarf_unit *unit, uint64_t offset) {
    struct cursor cursor = cursor_at(unit->ranges, offset, UINT64_MAX);
    uint8_t size = unit->shape.address_size;
    uint64_t base = unit->low_pc, most = size == 8 ? UINT64_MAX : UINT32_MAX;
    while (!cursor.failed && dwarf_fuel_take(unit->file->fuel, 16)) {
        uint64_t start = cursor_uint(&cursor, size);
        uint64_t end = cursor_uint(&cursor, size);
        if (cursor.failed || (start == 0 && end == 0))
            return;
        if (start == most)
            base = end;
        else
            add(ranges, base + start, base + end);
    }
}

static uint64_t indexed(const struct dwarf_unit *unit, struct cursor *cursor) {
    uint64_t address;
    if (!dwarf_unit_address(unit, cursor_uleb(cursor), &address))
        return cursor_fail(cursor);
    return address;
}

/* Adds one entry of a DWARF 5 list. False at the end of the list. */
static bool add_entry(struct dwarf_ranges *ranges, const struct dwarf_unit *unit,
                      struct cursor *cursor, uint64_t *base) {
    uint8_t kind = cursor_u8(cursor), size = unit->shape.address_size;
    uint64_t start = 0, end = 0;
    switch (kind) {
    case RLE_base_addressx:
        *base = indexed(unit, cursor);
        break;
    case RLE_base_address:
        *base = cursor_uint(cursor, size);
        break;
    case RLE_startx_endx:
        start = indexed(unit, cursor);
        end = indexed(unit, cursor);
        break;
    case RLE_startx_length:
        start = indexed(unit, cursor);
        end = start + cursor_uleb(cursor);
        break;
    case RLE_offset_pair:
        start = *base + cursor_uleb(cursor);
        end = *base + cursor_uleb(cursor);
        break;
    case RLE_start_end:
        start = cursor_uint(cursor, size);
        end = cursor_uint(cursor, size);
        break;
    case RLE_start_length:
        start = cursor_uint(cursor, size);
        end = start + cursor_uleb(cursor);
        break;
    default:
        return false;
    }
    if (cursor->failed)
        return false;
    add(ranges, start, end);
    return true;
}

static void add_list(struct dwarf_ranges *ranges, const struct dwarf_unit *unit, uint64_t offset) {
    struct cursor cursor = cursor_at(unit->file->of[DWARF_RNGLISTS], offset, UINT64_MAX);
    uint64_t base = unit->low_pc;
    while (!cursor.failed && dwarf_fuel_take(unit->file->fuel, 8) &&
           add_entry(ranges, unit, &cursor, &base))
        continue;
}

/* The offset of the list with that index. */
static uint64_t list_offset(const struct dwarf_unit *unit, uint64_t index) {
    uint64_t offset = unit->rnglists_base + index * unit->shape.offset_size;
    struct cursor cursor = cursor_at(unit->file->of[DWARF_RNGLISTS], offset, UINT64_MAX);
    return unit->rnglists_base + cursor_uint(&cursor, unit->shape.offset_size);
}

static void add_listed(struct dwarf_ranges *ranges, const struct dwarf_unit *unit,
                       struct dwarf_value value) {
    if (unit->shape.version < 5)
        add_pairs(ranges, unit, value.number);
    else
        add_list(ranges, unit,
                 value.form == FORM_rnglistx ? list_offset(unit, value.number) : value.number);
}

void dwarf_ranges_add(struct dwarf_ranges *ranges, const struct dwarf_unit *unit,
                      const struct dwarf_die *die) {
    uint64_t start, end;
    if (dwarf_die_has(die, SLOT_LOW_PC) && dwarf_die_has(die, SLOT_HIGH_PC)) {
        if (!dwarf_value_address(unit, die->values[SLOT_LOW_PC], &start))
            return;
        struct dwarf_value high = die->values[SLOT_HIGH_PC];
        if (!dwarf_value_address(unit, high, &end))
            end = start + high.number;
        add(ranges, start, end);
    } else if (dwarf_die_has(die, SLOT_RANGES)) {
        add_listed(ranges, unit, die->values[SLOT_RANGES]);
    }
}

static int compare(const void *left, const void *right) {
    const struct dwarf_range *a = left, *b = right;
    return (a->start > b->start) - (a->start < b->start);
}

void dwarf_ranges_merge(struct dwarf_ranges *ranges) {
    size_t kept = 0;
    if (ranges->count > 1)
        qsort(ranges->items, ranges->count, sizeof *ranges->items, compare);
    for (size_t i = 1; i < ranges->count; i++) {
        struct dwarf_range *last = &ranges->items[kept], next = ranges->items[i];
        if (next.start > last->end)
            ranges->items[++kept] = next;
        else if (next.end > last->end)
            last->end = next.end;
    }
    ranges->count = ranges->count ? kept + 1 : 0;
}

void dwarf_ranges_finish(struct dwarf_ranges *ranges) {
    free(ranges->items);
    *ranges = (struct dwarf_ranges){0};
}
