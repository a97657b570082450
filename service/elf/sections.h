/* SPDX-License-Identifier: Apache-2.0
 *
 * Contents of ELF sections: inflated where they are compressed, and the links from a program to its
 * debug files. The file is opened with api/elf. Thread safety: any thread. */
#ifndef SONDE_SERVICE_ELF_SECTIONS_H
#define SONDE_SERVICE_ELF_SECTIONS_H

#include "api/elf/elf.h"

/* Appends a section's bytes, inflated if it is compressed. SONDE_NOT_FOUND if the file has no bytes
 * for it (SHT_NOBITS), SONDE_TOO_LARGE over limit, SONDE_CORRUPT, SONDE_OUT_OF_MEMORY. `bytes` is
 * empty after an error. */
SONDE_MUST_USE sonde_err elf_load(const struct elf_file *elf, const Elf64_Shdr *section,
                                  size_t limit, struct sonde_buf *bytes);

/* The name and checksum in .gnu_debuglink. False if there is none or it is not a plain file name.
 */
bool elf_debuglink(const struct elf_file *elf, char *name, size_t name_size, uint32_t *crc);
/* The path and build-id in .gnu_debugaltlink. Returns the build-id's length; 0 if there is none. */
size_t elf_altlink(const struct elf_file *elf, char *path, size_t path_size,
                   uint8_t build_id[ELF_BUILD_ID_MAX]);
/* Whether the file has DWARF that is not empty. */
bool elf_has_dwarf(const struct elf_file *elf);

#endif
