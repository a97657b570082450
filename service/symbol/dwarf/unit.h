/* SPDX-License-Identifier: Apache-2.0
 *
 * Units of .debug_info and the DIEs in them. A file is its sections; a unit is a run of .debug_info
 * with its abbreviations and the bases of its indexed forms; a DIE is read into slots. What one
 * value means (a string, an address, another DIE) needs the unit it stands in.
 *
 * Nothing here believes a number: offsets are looked at before use, and everything that may be read
 * more than once is paid for from the file's fuel, some dozens of times its size, so that a hostile
 * file ends early instead of taking quadratic time. Thread safety: one thread per file. */
#ifndef SONDE_SERVICE_SYMBOL_DWARF_UNIT_H
#define SONDE_SERVICE_SYMBOL_DWARF_UNIT_H

#include "service/elf/cursor.h"
#include "service/symbol/dwarf/abbrev.h"
#include "service/symbol/dwarf/scopes.h"
#include "service/symbol/dwarf/sections.h"

struct dwarf_unit;

struct dwarf_file {
    struct sonde_slice of[DWARF_SECTION_COUNT];
    struct dwarf_file *alt; /* what dwz moved elsewhere; NULL = none */
    uint64_t *fuel;
    bool is_split;
    struct dwarf_abbrev_cache abbrevs;
    uint64_t *starts; /* of all units, once a reference between units asked */
    uint32_t start_count;
    struct dwarf_unit **opened; /* beside starts: units that references led to */
    size_t opened_count, opened_bytes;
};

struct dwarf_value {
    uint64_t number; /* constant, offset, index or address, as the form says */
    uint16_t form;
};

struct dwarf_die {
    uint64_t offset;
    const struct dwarf_abbrev *abbrev;
    uint32_t present; /* a bit per slot */
    struct dwarf_value values[SLOT_COUNT];
};

struct dwarf_unit {
    struct dwarf_file *file;
    uint64_t offset, first, end; /* in .debug_info: header, first DIE, behind the last */
    uint64_t abbrev_offset, dwo_id;
    struct dwarf_shape shape;
    uint8_t type;
    const struct dwarf_abbrevs *abbrevs;
    struct dwarf_die root;
    struct sonde_slice str_offsets, addresses; /* from their bases on */
    struct sonde_slice ranges;                 /* .debug_ranges from its base on */
    uint64_t rnglists_base, low_pc;
    struct dwarf_scopes scopes;
    bool has_scopes;
};

static inline bool dwarf_die_has(const struct dwarf_die *die, enum dwarf_slot slot) {
    return die->present >> slot & 1;
}

static inline bool dwarf_fuel_take(uint64_t *fuel, uint64_t amount) {
    bool enough = amount <= *fuel;
    *fuel = enough ? *fuel - amount : 0;
    return enough;
}

void dwarf_file_init(struct dwarf_file *file, const struct dwarf_sections *sections,
                     uint64_t *fuel);
/* Forgets tables and units when they have become large; between two units only. */
void dwarf_file_trim(struct dwarf_file *file);
void dwarf_file_finish(struct dwarf_file *file);

/* Reads a header; false at the end of the section or when nothing more can be found in it. Of a
 * unit in a version or shape that is not known `shape.version` is 0. */
bool dwarf_unit_header(struct dwarf_file *file, uint64_t offset, struct dwarf_unit *unit);
/* Reads abbreviations and the first DIE. Of a split unit `skeleton` is the one in the linked file
 * (its bases and its low_pc count), else NULL. */
bool dwarf_unit_open(struct dwarf_unit *unit, const struct dwarf_unit *skeleton);
/* The open unit around an offset of file's .debug_info; NULL when there is none. Borrowed until the
 * file is trimmed. `own` is a unit to look at first, NULL = none. */
struct dwarf_unit *dwarf_unit_at(struct dwarf_file *file, uint64_t offset, struct dwarf_unit *own);

/* The rest of a DIE whose code was read. */
void dwarf_die_rest(const struct dwarf_unit *unit, struct cursor *cursor,
                    const struct dwarf_abbrev *abbrev, struct dwarf_die *die);
/* The DIE at an offset within the unit; false when there is none. */
bool dwarf_die_at(const struct dwarf_unit *unit, uint64_t offset, struct dwarf_die *die);
/* Steps over a DIE without looking at it. */
void dwarf_die_skip(const struct dwarf_unit *unit, struct cursor *cursor,
                    const struct dwarf_abbrev *abbrev);
/* Reads one value, or steps over it. */
uint64_t dwarf_form_read(const struct dwarf_unit *unit, struct cursor *cursor, uint64_t form);
/* Behind the DIE's children, as it says itself; 0 = unknown. `at` is behind the DIE. */
uint64_t dwarf_die_sibling(const struct dwarf_unit *unit, const struct dwarf_die *die, uint64_t at);

/* NULL when there is none, or when it is longer than 64 KiB. */
const char *dwarf_value_string(const struct dwarf_unit *unit, struct dwarf_value value);
const char *dwarf_die_string(const struct dwarf_unit *unit, const struct dwarf_die *die,
                             enum dwarf_slot slot);
const char *dwarf_string_at(struct sonde_slice section, uint64_t offset);
bool dwarf_value_address(const struct dwarf_unit *unit, struct dwarf_value value,
                         uint64_t *address);
/* The address with that index in .debug_addr. */
bool dwarf_unit_address(const struct dwarf_unit *unit, uint64_t index, uint64_t *address);
/* Where a reference leads; false for references to type units and outside of a unit. */
bool dwarf_value_reference(const struct dwarf_unit *unit, struct dwarf_value value,
                           struct dwarf_file **file, uint64_t *offset);

#endif
