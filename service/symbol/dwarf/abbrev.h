/* SPDX-License-Identifier: Apache-2.0
 *
 * Abbreviations, compiled to short programs. An abbreviation lists the attributes of a DIE and
 * their forms. It is compiled to a list of steps: skip N bytes, then read or step over one
 * attribute. Attributes of fixed size that the walk does not need become part of the skip, so a DIE
 * without needed attributes is skipped by one addition. Thread safety: one thread per cache. */
#ifndef SONDE_SERVICE_SYMBOL_DWARF_ABBREV_H
#define SONDE_SERVICE_SYMBOL_DWARF_ABBREV_H

#include "api/bytes.h"

/* The attributes of a DIE that the walk reads. */
enum dwarf_slot {
    SLOT_NONE, /* not needed, but of variable size, so it must be stepped over */
    SLOT_SIBLING,
    SLOT_NAME,
    SLOT_LINKAGE_NAME,
    SLOT_LOW_PC,
    SLOT_HIGH_PC,
    SLOT_RANGES,
    SLOT_ENTRY_PC,
    SLOT_CALL_FILE,
    SLOT_CALL_LINE,
    SLOT_ORIGIN,
    SLOT_SPECIFICATION,
    SLOT_STMT_LIST,
    SLOT_COMP_DIR,
    SLOT_STR_OFFSETS_BASE,
    SLOT_ADDR_BASE,
    SLOT_RNGLISTS_BASE,
    SLOT_RANGES_BASE, /* GNU's, for split DWARF 4 */
    SLOT_DWO_NAME,
    SLOT_DWO_ID,
    SLOT_LANGUAGE,
    SLOT_COUNT,
};

/* What a DIE means for the walk. */
enum dwarf_role {
    ROLE_NONE,   /* nothing of interest in it or below it */
    ROLE_UNIT,   /* the root of a unit */
    ROLE_SCOPE,  /* its name is part of its members' names */
    ROLE_HOLDER, /* can contain functions */
    ROLE_BLOCK,  /* a block in a function */
    ROLE_CATCH,  /* the same, but of interest only inside a function */
    ROLE_FUNCTION,
    ROLE_INLINED,
};

struct dwarf_op {
    int64_t constant; /* the value, for FORM_implicit_const */
    uint32_t skip;    /* bytes before the attribute */
    uint16_t form;
    uint8_t slot;
    int8_t size; /* of the form; -1 = it depends on the bytes */
};

struct dwarf_abbrev {
    uint64_t code;
    uint32_t first_op, op_count;
    uint32_t tail; /* bytes to skip after the last op */
    uint16_t tag;
    uint8_t role;
    bool has_children;
};

/* The sizes of some forms depend on these. */
struct dwarf_shape {
    uint8_t version, address_size, offset_size;
};

struct dwarf_abbrevs {
    struct dwarf_abbrevs *next; /* in the same bucket */
    uint64_t offset;
    struct dwarf_shape shape;
    struct dwarf_abbrev *items; /* sorted by code */
    struct dwarf_op *ops;
    uint32_t count, capacity, op_count, op_capacity;
    bool is_dense; /* the item of a code is items[code - 1] */
};

/* Tables by their offset, because units share tables. Zeroed memory is an empty cache. */
#define DWARF_ABBREV_BUCKETS 256u
struct dwarf_abbrev_cache {
    struct dwarf_abbrevs *buckets[DWARF_ABBREV_BUCKETS];
    size_t bytes;
};

/* Returns a table that is valid until the cache is emptied; NULL if it is damaged or out of memory.
 * Reading it consumes fuel. */
const struct dwarf_abbrevs *dwarf_abbrevs_get(struct dwarf_abbrev_cache *cache,
                                              struct sonde_slice section, uint64_t offset,
                                              struct dwarf_shape shape, uint64_t *fuel);
void dwarf_abbrev_cache_finish(struct dwarf_abbrev_cache *cache);

const struct dwarf_abbrev *dwarf_abbrev_search(const struct dwarf_abbrevs *abbrevs, uint64_t code);

/* NULL if the table does not have the code. */
static inline const struct dwarf_abbrev *dwarf_abbrev_find(const struct dwarf_abbrevs *abbrevs,
                                                           uint64_t code) {
    if (!abbrevs->is_dense)
        return dwarf_abbrev_search(abbrevs, code);
    return code - 1 < abbrevs->count ? &abbrevs->items[code - 1] : NULL;
}

/* The size of a form in a unit of that shape; -1 = it depends on the bytes. */
int dwarf_form_size(uint64_t form, struct dwarf_shape shape);

#endif
