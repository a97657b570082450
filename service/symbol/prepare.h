/* SPDX-License-Identifier: Apache-2.0
 *
 * DWARF sections as libdw can read them. Compressed ones (zlib, and zstd, which Debian 12's libelf
 * does not know) are inflated once into a small ELF file of their own: opened again for every batch
 * of units, libdw would inflate them each time. Worker process only: the input is mapped. */
#ifndef SONDE_SERVICE_SYMBOL_PREPARE_H
#define SONDE_SERVICE_SYMBOL_PREPARE_H

#include "service/symbol/elf.h"

/* Whether the file has DWARF with bytes in it. */
bool symbol_has_dwarf(const struct symbol_elf *elf);
/* The descriptor to give to libdw: fd itself when nothing is compressed, else scratch, which is
 * filled. -1 when the sections are broken or larger than limit together. */
int symbol_prepare_dwarf(int fd, int scratch, uint64_t limit);

#endif
