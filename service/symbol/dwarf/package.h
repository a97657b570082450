/* SPDX-License-Identifier: Apache-2.0
 *
 * The index of a package (.dwp): the part of each section that belongs to a split unit. Version 2
 * is GNU's for DWARF 4, version 5 the standard's. Thread safety: any thread. */
#ifndef SONDE_SERVICE_SYMBOL_DWARF_PACKAGE_H
#define SONDE_SERVICE_SYMBOL_DWARF_PACKAGE_H

#include "service/symbol/dwarf/sections.h"

/* Sets `of` to the parts of the package's sections that belong to the unit with that id. Probing
 * consumes fuel. SONDE_NOT_FOUND, SONDE_CORRUPT. */
SONDE_MUST_USE sonde_err dwarf_package_find(const struct dwarf_sections *package, uint64_t id,
                                            uint64_t *fuel,
                                            struct sonde_slice of[DWARF_SECTION_COUNT]);

#endif
