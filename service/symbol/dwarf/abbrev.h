/* SPDX-License-Identifier: Apache-2.0
 *
 * Abbreviations as programs. A unit's table says for each code which attributes in which forms a
 * DIE has. It is read once into a short list of steps: skip so many bytes, then read (or step over)
 * one attribute. Attributes that nobody here wants and whose size is fixed melt into one skip, so
 * that a DIE of no interest costs one addition. Thread safety: one thread per cache. */
#ifndef SONDE_SERVICE_SYMBOL_DWARF_ABBREV_H
#define SONDE_SERVICE_SYMBOL_DWARF_ABBREV_H

#include "api/bytes.h"

/* What is read of a DIE. */
enum dwarf_slot {
    SLOT_NONE, /* a form without a fixed size, to be stepped over */
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
    SLOT_RANGES_BASE, /* GNU's, of split DWARF 4 */
    SLOT_DWO_NAME,
    SLOT_DWO_ID,
    SLOT_LANGUAGE,
    SLOT_COUNT,
};

/* What a DIE is to the walk. */
enum dwarf_role {
    ROLE_NONE,   /* nothing in it, nor below it */
    ROLE_UNIT,   /* the first one */
    ROLE_SCOPE,  /* gives its name to what is inside */
    ROLE_HOLDER, /* may hold functions */
    ROLE_BLOCK,  /* part of a function */
    ROLE_CATCH,  /* the same, but never outside of one */
    ROLE_FUNCTION,
    ROLE_INLINED,
};

struct dwarf_op {
    int64_t constant; /* of FORM_implicit_const */
    uint32_t skip;    /* bytes before the attribute */
    uint16_t form;
    uint8_t slot;
    int8_t size; /* of the form, -1 = it depends on the bytes */
};

struct dwarf_abbrev {
    uint64_t code;
    uint32_t first_op, op_count;
    uint32_t tail; /* bytes after the last op */
    uint16_t tag;
    uint8_t role;
    bool has_children;
};

/* On what the size of some forms depends. */
struct dwarf_shape {
    uint8_t version, address_size, offset_size;
};

struct dwarf_abbrevs {
    struct dwarf_abbrevs *next; /* of the same bucket */
    uint64_t offset;
    struct dwarf_shape shape;
    struct dwarf_abbrev *items; /* by code */
    struct dwarf_op *ops;
    uint32_t count, capacity, op_count, op_capacity;
    bool is_dense; /* items[code - 1] */
};

/* Tables by offset: many units may share one. Zeroed memory is an empty cache. */
#define DWARF_ABBREV_BUCKETS 256u
struct dwarf_abbrev_cache {
    struct dwarf_abbrevs *buckets[DWARF_ABBREV_BUCKETS];
    size_t bytes;
};

/* Borrowed until the cache is emptied; NULL when the table is broken or memory is out. What is read
 * is taken from *fuel. */
const struct dwarf_abbrevs *dwarf_abbrevs_get(struct dwarf_abbrev_cache *cache,
                                              struct sonde_slice section, uint64_t offset,
                                              struct dwarf_shape shape, uint64_t *fuel);
void dwarf_abbrev_cache_finish(struct dwarf_abbrev_cache *cache);

const struct dwarf_abbrev *dwarf_abbrev_search(const struct dwarf_abbrevs *abbrevs, uint64_t code);

/* NULL when the table has no such code. */
static inline const struct dwarf_abbrev *dwarf_abbrev_find(const struct dwarf_abbrevs *abbrevs,
                                                           uint64_t code) {
    if (!abbrevs->is_dense)
        return dwarf_abbrev_search(abbrevs, code);
    return code - 1 < abbrevs->count ? &abbrevs->items[code - 1] : NULL;
}

/* Bytes that a form takes in a unit of that shape, -1 = it depends on the bytes. */
int dwarf_form_size(uint64_t form, struct dwarf_shape shape);

#endif
