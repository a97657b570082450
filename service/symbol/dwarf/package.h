/* SPDX-License-Identifier: Apache-2.0
 *
 * The index of a package (.dwp): which stretch of each section belongs to the split unit with an
 * id. Version 2 is GNU's for DWARF 4, version 5 the standard's. Thread safety: any thread. */
#ifndef SONDE_SERVICE_SYMBOL_DWARF_PACKAGE_H
#define SONDE_SERVICE_SYMBOL_DWARF_PACKAGE_H

#include "service/symbol/dwarf/sections.h"

/* Cuts the package's sections to the unit's own stretches. SONDE_NOT_FOUND, SONDE_CORRUPT. What is
 * probed is taken from *fuel. */
SONDE_MUST_USE sonde_err dwarf_package_find(const struct dwarf_sections *package, uint64_t id,
                                            uint64_t *fuel,
                                            struct sonde_slice of[DWARF_SECTION_COUNT]);

#endif
