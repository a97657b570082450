/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/dwarf/unit.h"

#include "api/base/array.h"
#include "service/symbol/dwarf/constants.h"

#include <stdlib.h>

#define MAX_OPENED_BYTES ((size_t)16 << 20)

/* --- headers ---------------------------------------------------------------------------------- */

static bool shape_is_known(struct dwarf_shape shape) {
    return shape.version >= 2 && shape.version <= 5 &&
           (shape.address_size == 8 || shape.address_size == 4);
}

static bool has_id(uint8_t type) {
    return type == UT_skeleton || type == UT_split_compile;
}

bool dwarf_unit_header(struct dwarf_file *file, uint64_t offset, struct dwarf_unit *unit) {
    struct sonde_slice info = file->of[DWARF_INFO];
    struct cursor cursor = cursor_at(info, offset, UINT64_MAX);
    uint8_t offset_size;
    uint64_t len = cursor_length(&cursor, &offset_size);
    if (cursor.failed || len == 0 || len > cursor_left(&cursor) || !dwarf_fuel_take(file->fuel, 16))
        return false;
    cursor.end = cursor.at + len;
    *unit = (struct dwarf_unit){.file = file, .offset = offset, .type = UT_compile};
    unit->end = (uint64_t)(cursor.end - (const uint8_t *)info.data);
    uint64_t version = cursor_uint(&cursor, 2);
    struct dwarf_shape shape = {version <= 5 ? (uint8_t)version : 0, 0, offset_size};
    if (shape.version >= 5) {
        unit->type = cursor_u8(&cursor);
        shape.address_size = cursor_u8(&cursor);
    }
    unit->abbrev_offset = cursor_uint(&cursor, offset_size);
    if (shape.version < 5)
        shape.address_size = cursor_u8(&cursor);
    else if (has_id(unit->type))
        unit->dwo_id = cursor_uint(&cursor, 8);
    unit->first = (uint64_t)(cursor.at - (const uint8_t *)info.data);
    if (!cursor.failed && shape_is_known(shape))
        unit->shape = shape;
    return true;
}

static struct sonde_slice from_base(struct sonde_slice section, uint64_t base) {
    if (base >= section.len)
        return (struct sonde_slice){0};
    return (struct sonde_slice){section.data + base, section.len - base};
}

static uint64_t base_of(const struct dwarf_die *die, enum dwarf_slot slot, uint64_t otherwise) {
    return dwarf_die_has(die, slot) ? die->values[slot].number : otherwise;
}

/* Without a base attribute, a unit's part of a section begins after a header; version 4 has
 * none. */
static void find_own_bases(struct dwarf_unit *unit) {
    const struct dwarf_file *file = unit->file;
    uint64_t header = unit->shape.version < 5 ? 0 : unit->shape.offset_size == 8 ? 16 : 8;
    uint64_t lists = unit->shape.offset_size == 8 ? 20 : 12;
    unit->str_offsets =
        from_base(file->of[DWARF_STR_OFFSETS], base_of(&unit->root, SLOT_STR_OFFSETS_BASE, header));
    unit->rnglists_base = base_of(&unit->root, SLOT_RNGLISTS_BASE, lists);
}

static void find_bases(struct dwarf_unit *unit, const struct dwarf_unit *skeleton) {
    const struct dwarf_file *file = unit->file;
    find_own_bases(unit);
    if (skeleton) {
        unit->addresses = skeleton->addresses;
        unit->low_pc = skeleton->low_pc;
        unit->ranges = from_base(skeleton->file->of[DWARF_RANGES],
                                 base_of(&skeleton->root, SLOT_RANGES_BASE, 0));
        return;
    }
    unit->addresses = from_base(file->of[DWARF_ADDR], base_of(&unit->root, SLOT_ADDR_BASE,
                                                              unit->shape.version < 5 ? 0 : 8));
    unit->ranges = file->of[DWARF_RANGES];
    if (dwarf_die_has(&unit->root, SLOT_LOW_PC) &&
        !dwarf_value_address(unit, unit->root.values[SLOT_LOW_PC], &unit->low_pc))
        unit->low_pc = 0;
}

bool dwarf_unit_open(struct dwarf_unit *unit, const struct dwarf_unit *skeleton) {
    struct dwarf_file *file = unit->file;
    if (unit->shape.version == 0)
        return false;
    unit->abbrevs = dwarf_abbrevs_get(&file->abbrevs, file->of[DWARF_ABBREV], unit->abbrev_offset,
                                      unit->shape, file->fuel);
    if (!unit->abbrevs || !dwarf_die_at(unit, unit->first, &unit->root))
        return false;
    find_bases(unit, skeleton);
    if (dwarf_die_has(&unit->root, SLOT_DWO_ID))
        unit->dwo_id = unit->root.values[SLOT_DWO_ID].number;
    return true;
}

/* --- files ------------------------------------------------------------------------------------ */

void dwarf_file_init(struct dwarf_file *file, const struct dwarf_sections *sections,
                     uint64_t *fuel) {
    *file = (struct dwarf_file){.fuel = fuel};
    memcpy(file->of, sections->of, sizeof file->of);
}

static void close_units(struct dwarf_file *file) {
    for (uint32_t i = 0; i < file->start_count && file->opened_count > 0; i++) {
        if (!file->opened[i])
            continue;
        dwarf_scopes_finish(&file->opened[i]->scopes);
        free(file->opened[i]);
        file->opened[i] = NULL;
        file->opened_count--;
    }
    file->opened_bytes = 0;
}

void dwarf_file_trim(struct dwarf_file *file) {
    if (file->abbrevs.bytes + file->opened_bytes < MAX_OPENED_BYTES)
        return;
    close_units(file);
    dwarf_abbrev_cache_finish(&file->abbrevs);
}

void dwarf_file_finish(struct dwarf_file *file) {
    close_units(file);
    dwarf_abbrev_cache_finish(&file->abbrevs);
    free(file->starts);
    free(file->opened);
    *file = (struct dwarf_file){0};
}

/* --- units by offset -------------------------------------------------------------------------- */

static void index_units(struct dwarf_file *file) {
    struct dwarf_unit unit;
    uint32_t capacity = 0;
    for (uint64_t at = 0; dwarf_unit_header(file, at, &unit); at = unit.end) {
        if (!array_room(&file->starts, &capacity, file->start_count, 1))
            break;
        file->starts[file->start_count++] = at;
    }
    file->opened = calloc(file->start_count + 1, sizeof(struct dwarf_unit *));
    if (!file->opened)
        file->start_count = 0;
}

static struct dwarf_unit *open_at(struct dwarf_file *file, uint64_t start) {
    struct dwarf_unit *unit = calloc(1, sizeof *unit);
    if (unit && dwarf_unit_header(file, start, unit) && dwarf_unit_open(unit, NULL))
        return unit;
    free(unit);
    return NULL;
}

struct dwarf_unit *dwarf_unit_at(struct dwarf_file *file, uint64_t offset, struct dwarf_unit *own) {
    if (own && own->file == file && offset >= own->first && offset < own->end)
        return own;
    if (!file->opened)
        index_units(file);
    uint32_t low = 0, high = file->start_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (file->starts[middle] <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || !file->opened)
        return NULL;
    struct dwarf_unit **place = &file->opened[low - 1];
    if (!*place) {
        *place = open_at(file, file->starts[low - 1]);
        file->opened_count += *place != NULL;
        file->opened_bytes += *place ? sizeof **place : 0;
    }
    return *place && offset >= (*place)->first && offset < (*place)->end ? *place : NULL;
}
