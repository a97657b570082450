/* SPDX-License-Identifier: Apache-2.0
 *
 * Units of .debug_info and their DIEs. A unit is a part of .debug_info with its abbreviations and
 * the bases of its indexed forms. A DIE is read into slots. To interpret a value (as a string, an
 * address or another DIE), its unit is needed.
 *
 * No number is trusted: offsets are checked before use. Everything that can be read more than once
 * consumes the file's fuel, which is a small multiple of its size. So a malicious file ends the
 * walk early instead of taking quadratic time. Thread safety: one thread per file. */
#ifndef SONDE_SERVICE_SYMBOL_DWARF_UNIT_H
#define SONDE_SERVICE_SYMBOL_DWARF_UNIT_H

#include "service/elf/cursor.h"
#include "service/symbol/dwarf/abbrev.h"
#include "service/symbol/dwarf/scopes.h"
#include "service/symbol/dwarf/sections.h"

struct dwarf_unit;

struct dwarf_file {
    struct sonde_slice of[DWARF_SECTION_COUNT];
    struct dwarf_file *alt; /* the file that dwz moved shared DWARF to; NULL = none */
    uint64_t *fuel;
    bool is_split;
    struct dwarf_abbrev_cache abbrevs;
    uint64_t *starts; /* of all units; NULL until the first reference between units */
    uint32_t start_count;
    struct dwarf_unit **opened; /* parallel to starts: units opened for references, or NULL */
    size_t opened_count, opened_bytes;
};

struct dwarf_value {
    uint64_t number; /* a constant, offset, index or address, depending on the form */
    uint16_t form;
};

struct dwarf_die {
    uint64_t offset;
    const struct dwarf_abbrev *abbrev;
    uint32_t present; /* one bit per slot */
    struct dwarf_value values[SLOT_COUNT];
};

struct dwarf_unit {
    struct dwarf_file *file;
    uint64_t offset, first, end; /* in .debug_info: header, first DIE, end */
    uint64_t abbrev_offset, dwo_id;
    struct dwarf_shape shape;
    uint8_t type;
    const struct dwarf_abbrevs *abbrevs;
    struct dwarf_die root;
    struct sonde_slice str_offsets, addresses; /* the sections from the unit's bases on */
    struct sonde_slice ranges;                 /* .debug_ranges from the unit's base on */
    uint64_t rnglists_base, low_pc;
    struct dwarf_scopes scopes;
    bool has_scopes;
};

static inline bool dwarf_die_has(const struct dwarf_die *die, enum dwarf_slot slot) {
    return die->present >> slot & 1;
}

/* DW_AT_language of a unit's root; 0 = none. */
static inline uint64_t dwarf_die_language(const struct dwarf_die *root) {
    return dwarf_die_has(root, SLOT_LANGUAGE) ? root->values[SLOT_LANGUAGE].number : 0;
}

static inline bool dwarf_fuel_take(uint64_t *fuel, uint64_t amount) {
    bool enough = amount <= *fuel;
    *fuel = enough ? *fuel - amount : 0;
    return enough;
}

void dwarf_file_init(struct dwarf_file *file, const struct dwarf_sections *sections,
                     uint64_t *fuel);
/* Frees tables and opened units if they have become large. Call it between two units. */
void dwarf_file_trim(struct dwarf_file *file);
void dwarf_file_finish(struct dwarf_file *file);

/* Reads a unit's header. False at the end of the section, and after damage that hides the next
 * unit. shape.version is 0 if the unit's version or sizes are not supported. */
bool dwarf_unit_header(struct dwarf_file *file, uint64_t offset, struct dwarf_unit *unit);
/* Reads the unit's abbreviations and root DIE. `skeleton` is a split unit's skeleton, whose bases
 * and low_pc apply; otherwise NULL. */
bool dwarf_unit_open(struct dwarf_unit *unit, const struct dwarf_unit *skeleton);
/* Opens the unit that contains an offset of the file's .debug_info. NULL if there is none. It is
 * valid until the file is trimmed. `own` is a unit to try first; NULL = none. */
struct dwarf_unit *dwarf_unit_at(struct dwarf_file *file, uint64_t offset, struct dwarf_unit *own);

/* Reads the attributes of a DIE whose code was read. */
void dwarf_die_rest(const struct dwarf_unit *unit, struct cursor *cursor,
                    const struct dwarf_abbrev *abbrev, struct dwarf_die *die);
/* Reads the DIE at an offset of the unit. False if there is none. */
bool dwarf_die_at(const struct dwarf_unit *unit, uint64_t offset, struct dwarf_die *die);
/* Skips the attributes of a DIE. */
void dwarf_die_skip(const struct dwarf_unit *unit, struct cursor *cursor,
                    const struct dwarf_abbrev *abbrev);
/* Reads one value. Blocks are skipped and read as 0. */
uint64_t dwarf_form_read(const struct dwarf_unit *unit, struct cursor *cursor, uint64_t form);
/* The offset after the DIE's children, by its sibling attribute; 0 = unknown. `at` is the offset
 * after its attributes. */
uint64_t dwarf_die_sibling(const struct dwarf_unit *unit, const struct dwarf_die *die, uint64_t at);

/* NULL if the value is not a string, or one of more than 64 KiB. */
const char *dwarf_value_string(const struct dwarf_unit *unit, struct dwarf_value value);
const char *dwarf_die_string(const struct dwarf_unit *unit, const struct dwarf_die *die,
                             enum dwarf_slot slot);
const char *dwarf_string_at(struct sonde_slice section, uint64_t offset);
bool dwarf_value_address(const struct dwarf_unit *unit, struct dwarf_value value,
                         uint64_t *address);
/* The address with that index in .debug_addr. */
bool dwarf_unit_address(const struct dwarf_unit *unit, uint64_t index, uint64_t *address);
/* The target of a reference. False for references to type units or outside the unit. */
bool dwarf_value_reference(const struct dwarf_unit *unit, struct dwarf_value value,
                           struct dwarf_file **file, uint64_t *offset);

#endif
