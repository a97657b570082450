/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/dwarf/abbrev.h"

#include "api/base/array.h"
#include "service/elf/cursor.h"
#include "service/symbol/dwarf/constants.h"

#include <stdlib.h>

#define MAX_FORM 0xffff

/* --- forms ------------------------------------------------------------------------------------ */

#define VARIES  (-1)
#define ADDRESS (-2)
#define OFFSET  (-3)

static const int8_t form_sizes[] = {
    [0] = VARIES,
    [FORM_addr] = ADDRESS,
    [2] = VARIES,
    [FORM_block2] = VARIES,
    [FORM_block4] = VARIES,
    [FORM_data2] = 2,
    [FORM_data4] = 4,
    [FORM_data8] = 8,
    [FORM_string] = VARIES,
    [FORM_block] = VARIES,
    [FORM_block1] = VARIES,
    [FORM_data1] = 1,
    [FORM_flag] = 1,
    [FORM_sdata] = VARIES,
    [FORM_strp] = OFFSET,
    [FORM_udata] = VARIES,
    [FORM_ref_addr] = OFFSET,
    [FORM_ref1] = 1,
    [FORM_ref2] = 2,
    [FORM_ref4] = 4,
    [FORM_ref8] = 8,
    [FORM_ref_udata] = VARIES,
    [FORM_indirect] = VARIES,
    [FORM_sec_offset] = OFFSET,
    [FORM_exprloc] = VARIES,
    [FORM_flag_present] = 0,
    [FORM_strx] = VARIES,
    [FORM_addrx] = VARIES,
    [FORM_ref_sup4] = 4,
    [FORM_strp_sup] = OFFSET,
    [FORM_data16] = 16,
    [FORM_line_strp] = OFFSET,
    [FORM_ref_sig8] = 8,
    [FORM_implicit_const] = 0,
    [FORM_loclistx] = VARIES,
    [FORM_rnglistx] = VARIES,
    [FORM_ref_sup8] = 8,
    [FORM_strx1] = 1,
    [FORM_strx2] = 2,
    [FORM_strx3] = 3,
    [FORM_strx4] = 4,
    [FORM_addrx1] = 1,
    [FORM_addrx2] = 2,
    [FORM_addrx3] = 3,
    [FORM_addrx4] = 4,
};

int dwarf_form_size(uint64_t form, struct dwarf_shape shape) {
    if (form == FORM_GNU_ref_alt || form == FORM_GNU_strp_alt)
        return shape.offset_size;
    if (form >= sizeof form_sizes)
        return VARIES;
    if (form == FORM_ref_addr && shape.version < 3)
        return shape.address_size;
    int size = form_sizes[form];
    return size == ADDRESS ? shape.address_size : size == OFFSET ? shape.offset_size : size;
}

/* --- roles ------------------------------------------------------------------------------------ */

static enum dwarf_role role_of(uint64_t tag) {
    switch (tag) {
    case TAG_compile_unit:
    case TAG_partial_unit:
    case TAG_type_unit:
    case TAG_skeleton_unit:
        return ROLE_UNIT;
    case TAG_namespace:
    case TAG_class_type:
    case TAG_structure_type:
    case TAG_union_type:
        return ROLE_SCOPE;
    case TAG_enumeration_type:
    case TAG_module:
        return ROLE_HOLDER;
    case TAG_lexical_block:
        return ROLE_BLOCK;
    case TAG_try_block:
    case TAG_catch_block:
        return ROLE_CATCH;
    case TAG_subprogram:
        return ROLE_FUNCTION;
    case TAG_inlined_subroutine:
        return ROLE_INLINED;
    default:
        return ROLE_NONE;
    }
}

struct attribute {
    uint16_t name;
    uint8_t slot;
    uint8_t roles; /* the roles that need it, one bit each */
};

#define FOR(role) (1u << ROLE_##role)
#define ALL_ROLES 0xffu
#define CODE      (FOR(UNIT) | FOR(FUNCTION) | FOR(INLINED))

static const struct attribute attributes[] = {
    {AT_sibling, SLOT_SIBLING, ALL_ROLES},
    {AT_name, SLOT_NAME, FOR(UNIT) | FOR(SCOPE) | FOR(FUNCTION)},
    {AT_stmt_list, SLOT_STMT_LIST, FOR(UNIT)},
    {AT_low_pc, SLOT_LOW_PC, CODE},
    {AT_high_pc, SLOT_HIGH_PC, CODE},
    {AT_language, SLOT_LANGUAGE, FOR(UNIT)},
    {AT_comp_dir, SLOT_COMP_DIR, FOR(UNIT)},
    {AT_abstract_origin, SLOT_ORIGIN, FOR(FUNCTION) | FOR(INLINED)},
    {AT_specification, SLOT_SPECIFICATION, FOR(FUNCTION)},
    {AT_entry_pc, SLOT_ENTRY_PC, FOR(FUNCTION)},
    {AT_ranges, SLOT_RANGES, CODE},
    {AT_call_file, SLOT_CALL_FILE, FOR(INLINED)},
    {AT_call_line, SLOT_CALL_LINE, FOR(INLINED)},
    {AT_linkage_name, SLOT_LINKAGE_NAME, FOR(FUNCTION)},
    {AT_str_offsets_base, SLOT_STR_OFFSETS_BASE, FOR(UNIT)},
    {AT_addr_base, SLOT_ADDR_BASE, FOR(UNIT)},
    {AT_rnglists_base, SLOT_RNGLISTS_BASE, FOR(UNIT)},
    {AT_dwo_name, SLOT_DWO_NAME, FOR(UNIT)},
    {AT_MIPS_linkage_name, SLOT_LINKAGE_NAME, FOR(FUNCTION)},
    {AT_GNU_dwo_name, SLOT_DWO_NAME, FOR(UNIT)},
    {AT_GNU_dwo_id, SLOT_DWO_ID, FOR(UNIT)},
    {AT_GNU_ranges_base, SLOT_RANGES_BASE, FOR(UNIT)},
    {AT_GNU_addr_base, SLOT_ADDR_BASE, FOR(UNIT)},
};

/* The slot of an attribute; SLOT_NONE = not needed in that role. */
static enum dwarf_slot slot_of(uint64_t name, enum dwarf_role role) {
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (attributes[i].name == name)
            return attributes[i].roles & 1u << role ? (enum dwarf_slot)attributes[i].slot
                                                    : SLOT_NONE;
    return SLOT_NONE;
}

/* --- reading ---------------------------------------------------------------------------------- */

static bool add_op(struct dwarf_abbrevs *abbrevs, struct dwarf_op op) {
    if (!array_room(&abbrevs->ops, &abbrevs->op_capacity, abbrevs->op_count, 1))
        return false;
    abbrevs->ops[abbrevs->op_count++] = op;
    return true;
}

/* Compiles one abbreviation. False if the table ends early or a skip is absurdly long. */
static bool read_ops(struct cursor *cursor, struct dwarf_abbrevs *abbrevs,
                     struct dwarf_abbrev *abbrev) {
    abbrev->first_op = abbrevs->op_count;
    for (;;) {
        uint64_t name = cursor_uleb(cursor), form = cursor_uleb(cursor);
        int64_t constant = form == FORM_implicit_const ? cursor_sleb(cursor) : 0;
        if (cursor->failed || form > MAX_FORM || abbrev->tail > UINT32_MAX / 2)
            return false;
        if (name == 0 && form == 0)
            break;
        int size = dwarf_form_size(form, abbrevs->shape);
        enum dwarf_slot slot = slot_of(name, (enum dwarf_role)abbrev->role);
        if (slot == SLOT_SIBLING && !abbrev->has_children)
            slot = SLOT_NONE;
        if (slot == SLOT_NONE && size >= 0) {
            abbrev->tail += (uint32_t)size;
            continue;
        }
        struct dwarf_op op = {constant, abbrev->tail, (uint16_t)form, (uint8_t)slot, (int8_t)size};
        if (!add_op(abbrevs, op))
            return false;
        abbrev->tail = 0;
    }
    abbrev->op_count = abbrevs->op_count - abbrev->first_op;
    return true;
}

static int compare_codes(const void *left, const void *right) {
    const struct dwarf_abbrev *a = left, *b = right;
    return (a->code > b->code) - (a->code < b->code);
}

static bool read_table(struct cursor *cursor, struct dwarf_abbrevs *abbrevs) {
    bool in_order = true;
    abbrevs->is_dense = true;
    for (uint64_t code; (code = cursor_uleb(cursor)) != 0;) {
        struct dwarf_abbrev abbrev = {.code = code};
        uint64_t tag = cursor_uleb(cursor);
        abbrev.tag = tag <= UINT16_MAX ? (uint16_t)tag : 0;
        abbrev.role = (uint8_t)role_of(tag);
        abbrev.has_children = cursor_u8(cursor) != 0;
        if (!read_ops(cursor, abbrevs, &abbrev) ||
            !array_room(&abbrevs->items, &abbrevs->capacity, abbrevs->count, 1))
            return false;
        in_order &= abbrevs->count == 0 || abbrevs->items[abbrevs->count - 1].code < code;
        abbrevs->items[abbrevs->count++] = abbrev;
        abbrevs->is_dense &= code == abbrevs->count;
    }
    if (!in_order)
        qsort(abbrevs->items, abbrevs->count, sizeof *abbrevs->items, compare_codes);
    return !cursor->failed;
}

const struct dwarf_abbrev *dwarf_abbrev_search(const struct dwarf_abbrevs *abbrevs, uint64_t code) {
    struct dwarf_abbrev key = {.code = code};
    if (abbrevs->count == 0)
        return NULL;
    return bsearch(&key, abbrevs->items, abbrevs->count, sizeof key, compare_codes);
}

/* --- the cache -------------------------------------------------------------------------------- */

static void abbrevs_destroy(struct dwarf_abbrevs *abbrevs) {
    free(abbrevs->items);
    free(abbrevs->ops);
    free(abbrevs);
}

static bool same_shape(struct dwarf_shape a, struct dwarf_shape b) {
    return a.version == b.version && a.address_size == b.address_size &&
           a.offset_size == b.offset_size;
}

static struct dwarf_abbrevs *abbrevs_create(struct sonde_slice section, uint64_t offset,
                                            struct dwarf_shape shape, uint64_t *fuel) {
    struct cursor cursor = cursor_at(section, offset, *fuel);
    size_t before = cursor_left(&cursor);
    struct dwarf_abbrevs *abbrevs = calloc(1, sizeof *abbrevs);
    if (!abbrevs)
        return NULL;
    abbrevs->offset = offset;
    abbrevs->shape = shape;
    bool good =
        array_room(&abbrevs->ops, &abbrevs->op_capacity, 0, 1) && read_table(&cursor, abbrevs);
    *fuel -= before - cursor_left(&cursor);
    if (good)
        return abbrevs;
    abbrevs_destroy(abbrevs);
    return NULL;
}

const struct dwarf_abbrevs *dwarf_abbrevs_get(struct dwarf_abbrev_cache *cache,
                                              struct sonde_slice section, uint64_t offset,
                                              struct dwarf_shape shape, uint64_t *fuel) {
    uint32_t bucket = (uint32_t)(offset * 0x9e3779b97f4a7c15ull >> 56) % DWARF_ABBREV_BUCKETS;
    struct dwarf_abbrevs **first = &cache->buckets[bucket];
    for (struct dwarf_abbrevs *at = *first; at; at = at->next)
        if (at->offset == offset && same_shape(at->shape, shape))
            return at;
    struct dwarf_abbrevs *made = abbrevs_create(section, offset, shape, fuel);
    if (!made)
        return NULL;
    made->next = *first;
    *first = made;
    cache->bytes +=
        sizeof *made + made->capacity * sizeof *made->items + made->op_capacity * sizeof *made->ops;
    return made;
}

void dwarf_abbrev_cache_finish(struct dwarf_abbrev_cache *cache) {
    for (uint32_t i = 0; i < DWARF_ABBREV_BUCKETS; i++) {
        for (struct dwarf_abbrevs *at = cache->buckets[i], *next; at; at = next) {
            next = at->next;
            abbrevs_destroy(at);
        }
    }
    *cache = (struct dwarf_abbrev_cache){0};
}
