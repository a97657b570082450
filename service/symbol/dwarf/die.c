/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads DIEs and interprets their values. */
#include "service/symbol/dwarf/constants.h"
#include "service/symbol/dwarf/unit.h"

#define MAX_STRING 65536u

/* --- forms ------------------------------------------------------------------------------------ */

static uint64_t skip_block(struct cursor *cursor, uint64_t len) {
    cursor_skip(cursor, len);
    return 0;
}

static uint64_t read_string(const struct dwarf_unit *unit, struct cursor *cursor) {
    uint64_t offset = (uint64_t)((const char *)cursor->at - unit->file->of[DWARF_INFO].data);
    cursor_text(cursor);
    return offset;
}

/* Forms whose size depends on their bytes. */
static uint64_t read_long_form(const struct dwarf_unit *unit, struct cursor *cursor,
                               uint64_t form) {
    switch (form) {
    case FORM_string:
        return read_string(unit, cursor);
    case FORM_sdata:
        return (uint64_t)cursor_sleb(cursor);
    case FORM_udata:
    case FORM_ref_udata:
    case FORM_strx:
    case FORM_addrx:
    case FORM_loclistx:
    case FORM_rnglistx:
    case FORM_GNU_addr_index:
    case FORM_GNU_str_index:
        return cursor_uleb(cursor);
    case FORM_block:
    case FORM_exprloc:
        return skip_block(cursor, cursor_uleb(cursor));
    case FORM_block1:
        return skip_block(cursor, cursor_uint(cursor, 1));
    case FORM_block2:
        return skip_block(cursor, cursor_uint(cursor, 2));
    case FORM_block4:
        return skip_block(cursor, cursor_uint(cursor, 4));
    default:
        return cursor_fail(cursor);
    }
}

uint64_t dwarf_form_read(const struct dwarf_unit *unit, struct cursor *cursor, uint64_t form) {
    int size = dwarf_form_size(form, unit->shape);
    if (size < 0)
        return read_long_form(unit, cursor, form);
    if (size <= 8)
        return size == 0 ? 1 : cursor_uint(cursor, (unsigned)size);
    return skip_block(cursor, (uint64_t)size);
}

/* --- DIEs ------------------------------------------------------------------------------------- */

static void read_op(const struct dwarf_unit *unit, struct cursor *cursor, const struct dwarf_op *op,
                    struct dwarf_die *die) {
    uint64_t form = op->form, number;
    if (form == FORM_indirect)
        form = cursor_uleb(cursor); /* a second FORM_indirect fails */
    if (form == FORM_implicit_const)
        number = (uint64_t)op->constant;
    else if (op->size == 4) /* the most common size */
        number = cursor_uint(cursor, 4);
    else
        number = dwarf_form_read(unit, cursor, form);
    if (op->slot == SLOT_NONE || (die->present >> op->slot & 1))
        return;
    die->values[op->slot] = (struct dwarf_value){number, (uint16_t)form};
    die->present |= 1u << op->slot;
}

void dwarf_die_rest(const struct dwarf_unit *unit, struct cursor *cursor,
                    const struct dwarf_abbrev *abbrev, struct dwarf_die *die) {
    const struct dwarf_op *op = unit->abbrevs->ops + abbrev->first_op;
    die->abbrev = abbrev;
    die->present = 0;
    for (const struct dwarf_op *end = op + abbrev->op_count; op < end; op++) {
        cursor_skip(cursor, op->skip);
        read_op(unit, cursor, op, die);
    }
    cursor_skip(cursor, abbrev->tail);
    if (cursor->failed)
        die->present = 0;
}

void dwarf_die_skip(const struct dwarf_unit *unit, struct cursor *cursor,
                    const struct dwarf_abbrev *abbrev) {
    const struct dwarf_op *op = unit->abbrevs->ops + abbrev->first_op;
    for (const struct dwarf_op *end = op + abbrev->op_count; op < end; op++) {
        cursor_skip(cursor, op->skip);
        if (op->form == FORM_exprloc)
            cursor_skip(cursor, cursor_uleb(cursor));
        else
            dwarf_form_read(unit, cursor,
                            op->form == FORM_indirect ? cursor_uleb(cursor) : op->form);
    }
    cursor_skip(cursor, abbrev->tail);
}

bool dwarf_die_at(const struct dwarf_unit *unit, uint64_t offset, struct dwarf_die *die) {
    if (offset < unit->first || offset >= unit->end)
        return false;
    struct cursor cursor = cursor_at(unit->file->of[DWARF_INFO], offset, unit->end - offset);
    uint64_t code = cursor_uleb(&cursor);
    const struct dwarf_abbrev *abbrev = code ? dwarf_abbrev_find(unit->abbrevs, code) : NULL;
    if (!abbrev)
        return false;
    die->offset = offset;
    dwarf_die_rest(unit, &cursor, abbrev, die);
    return !cursor.failed;
}

uint64_t dwarf_die_sibling(const struct dwarf_unit *unit, const struct dwarf_die *die,
                           uint64_t at) {
    struct dwarf_file *file;
    uint64_t offset;
    if (!dwarf_die_has(die, SLOT_SIBLING) ||
        !dwarf_value_reference(unit, die->values[SLOT_SIBLING], &file, &offset) ||
        file != unit->file || offset < at || offset > unit->end)
        return 0;
    return offset;
}

/* --- values ----------------------------------------------------------------------------------- */

const char *dwarf_string_at(struct sonde_slice section, uint64_t offset) {
    if (offset >= section.len)
        return NULL;
    size_t rest = section.len - offset;
    const char *text = section.data + offset;
    return memchr(text, 0, rest < MAX_STRING ? rest : MAX_STRING) ? text : NULL;
}

static const char *string_by_index(const struct dwarf_unit *unit, uint64_t index) {
    uint8_t size = unit->shape.offset_size;
    if (index >= unit->str_offsets.len / size)
        return NULL;
    uint64_t offset = 0;
    memcpy(&offset, unit->str_offsets.data + index * size, size);
    return dwarf_string_at(unit->file->of[DWARF_STR], offset);
}

const char *dwarf_value_string(const struct dwarf_unit *unit, struct dwarf_value value) {
    const struct dwarf_file *file = unit->file;
    switch (value.form) {
    case FORM_string:
        return dwarf_string_at(file->of[DWARF_INFO], value.number);
    case FORM_strp:
        return dwarf_string_at(file->of[DWARF_STR], value.number);
    case FORM_line_strp:
        return dwarf_string_at(file->of[DWARF_LINE_STR], value.number);
    case FORM_GNU_strp_alt:
    case FORM_strp_sup:
        return file->alt ? dwarf_string_at(file->alt->of[DWARF_STR], value.number) : NULL;
    case FORM_strx:
    case FORM_strx1:
    case FORM_strx2:
    case FORM_strx3:
    case FORM_strx4:
    case FORM_GNU_str_index:
        return string_by_index(unit, value.number);
    default:
        return NULL;
    }
}

const char *dwarf_die_string(const struct dwarf_unit *unit, const struct dwarf_die *die,
                             enum dwarf_slot slot) {
    return dwarf_die_has(die, slot) ? dwarf_value_string(unit, die->values[slot]) : NULL;
}

bool dwarf_unit_address(const struct dwarf_unit *unit, uint64_t index, uint64_t *address) {
    uint8_t size = unit->shape.address_size;
    *address = 0;
    if (index >= unit->addresses.len / size)
        return false;
    memcpy(address, unit->addresses.data + index * size, size);
    return true;
}

bool dwarf_value_address(const struct dwarf_unit *unit, struct dwarf_value value,
                         uint64_t *address) {
    switch (value.form) {
    case FORM_addr:
        *address = value.number;
        return true;
    case FORM_addrx:
    case FORM_addrx1:
    case FORM_addrx2:
    case FORM_addrx3:
    case FORM_addrx4:
    case FORM_GNU_addr_index:
        return dwarf_unit_address(unit, value.number, address);
    default:
        return false;
    }
}

bool dwarf_value_reference(const struct dwarf_unit *unit, struct dwarf_value value,
                           struct dwarf_file **file, uint64_t *offset) {
    *file = unit->file;
    *offset = value.number;
    switch (value.form) {
    case FORM_ref1:
    case FORM_ref2:
    case FORM_ref4:
    case FORM_ref8:
    case FORM_ref_udata:
        *offset += unit->offset;
        return value.number < unit->end - unit->offset + 1;
    case FORM_ref_addr:
        return true;
    case FORM_GNU_ref_alt:
    case FORM_ref_sup4:
    case FORM_ref_sup8:
        *file = unit->file->alt;
        return *file != NULL;
    default:
        return false;
    }
}
