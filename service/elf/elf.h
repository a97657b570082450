/* SPDX-License-Identifier: Apache-2.0
 *
 * A bounded reader of 64-bit little-endian ELF files.
 *
 * Our own rather than libelf, for three reasons. libelf maps the file, and a file that is cut while
 * it is mapped ends the reader with SIGBUS; here every byte comes through pread. libelf trusts
 * counts and sizes further than a service may that reads other users' files; here each has a
 * written bound. And the same few calls read a file, the memory of a process and an image inside
 * another section.
 *
 * Thread safety: any thread; an open reader is read-only. */
#ifndef SONDE_SERVICE_ELF_ELF_H
#define SONDE_SERVICE_ELF_ELF_H

#include "api/bytes.h"
#include "api/error.h"

#include <elf.h>

#define SYMBOL_ELF_MAX_SEGMENTS 1024u
#define SYMBOL_ELF_MAX_SECTIONS 65536u
#define SYMBOL_BUILD_ID_MAX     32u

/* Where the bytes are: in memory when `bytes` is set, else in fd from `base` on. */
struct symbol_elf_input {
    const uint8_t *bytes;
    int fd;
    uint64_t base;
    uint64_t size;
};

/* All len bytes at offset, or false. */
bool symbol_elf_read(const struct symbol_elf_input *input, uint64_t offset, void *to, size_t len);
/* A whole file; false when it is no regular file. fd is borrowed. */
bool symbol_elf_input_of_file(int fd, struct symbol_elf_input *input);

struct symbol_elf {
    struct symbol_elf_input input;
    uint16_t type, machine;
    Elf64_Phdr *segments;
    uint32_t segment_count;
    Elf64_Shdr *sections; /* none when the file has no usable section headers */
    uint32_t section_count;
    char *section_names;
    size_t section_names_len;
};

/* SONDE_CORRUPT when it is no ELF file of ours or its program headers do not fit. */
SONDE_MUST_USE sonde_err symbol_elf_open(const struct symbol_elf_input *input,
                                         struct symbol_elf *elf, struct sonde_diag *diag);
void symbol_elf_finish(struct symbol_elf *elf);

const char *symbol_elf_section_name(const struct symbol_elf *elf, const Elf64_Shdr *section);
/* The first of that name or type; NULL when there is none. */
const Elf64_Shdr *symbol_elf_section(const struct symbol_elf *elf, const char *name);
const Elf64_Shdr *symbol_elf_section_of_type(const struct symbol_elf *elf, uint32_t type);
/* The section with that index, NULL when there is none. */
const Elf64_Shdr *symbol_elf_section_at(const struct symbol_elf *elf, uint32_t index);
/* A section's bytes, inflated when it is compressed. SONDE_TOO_LARGE over limit. */
SONDE_MUST_USE sonde_err symbol_elf_load(const struct symbol_elf *elf, const Elf64_Shdr *section,
                                         size_t limit, struct sonde_buf *bytes);

/* Length of the GNU build-id, 0 = none. From the program headers, else from note sections. */
size_t symbol_elf_build_id(const struct symbol_elf *elf, uint8_t build_id[SYMBOL_BUILD_ID_MAX]);
/* The same from a block of notes. */
size_t symbol_build_id_of_notes(const uint8_t *notes, size_t len, uint8_t *build_id);
/* A program: ET_EXEC, or position-independent with an interpreter and without a library's name. */
bool symbol_elf_is_program(const struct symbol_elf *elf);
/* The name and checksum in .gnu_debuglink; false when there is none that is a plain file name. */
bool symbol_elf_debuglink(const struct symbol_elf *elf, char *name, size_t name_size,
                          uint32_t *crc);
/* The path and build-id in .gnu_debugaltlink; length of the build-id, 0 = none. */
size_t symbol_elf_altlink(const struct symbol_elf *elf, char *path, size_t path_size,
                          uint8_t build_id[SYMBOL_BUILD_ID_MAX]);
/* Whether it has DWARF with bytes in it. */
bool symbol_has_dwarf(const struct symbol_elf *elf);

#endif
