/* SPDX-License-Identifier: Apache-2.0
 *
 * A bounded reader of ELF files for x86-64 and arm64: headers, segments, sections by name, notes.
 * It is in api/ because clients and the service share it: the command line inspects a program
 * before it starts it, sonded unwinds and symbolizes. What only sonded needs (compressed sections,
 * links to debug files) is in service/elf, with the libraries that it takes.
 *
 * We do not use libelf, for three reasons. It maps the file, so a file that is truncated meanwhile
 * kills the reader with SIGBUS; this reader uses pread. It trusts counts and sizes that a service
 * reading other users' files must not trust; here each has a limit. And this reader has one
 * interface for a file, the memory of a process and an image inside another section.
 *
 * Thread safety: any thread; an open reader is read-only. */
#ifndef SONDE_API_ELF_ELF_H
#define SONDE_API_ELF_ELF_H

#include "api/bytes.h"
#include "api/error.h"

#include <elf.h>

#define ELF_MAX_SEGMENTS 1024u
#define ELF_MAX_SECTIONS (1u << 18) /* 16 MiB of headers */
#define ELF_BUILD_ID_MAX 32u

/* Where the bytes are: in memory if `bytes` is set, else in fd from `base` on. */
struct elf_input {
    const uint8_t *bytes;
    int fd;
    uint64_t base;
    uint64_t size;
};

/* Copies len bytes at offset. False if the input ends before that or cannot be read. */
bool elf_read(const struct elf_input *input, uint64_t offset, void *to, size_t len);
/* Makes an input of a whole file; false if fd is not a regular file. fd is borrowed. */
bool elf_input_of_file(int fd, struct elf_input *input);

struct elf_file {
    struct elf_input input;
    uint16_t type, machine; /* one that elf_check_machine accepts */
    Elf64_Phdr *segments;
    uint32_t segment_count;
    Elf64_Shdr *sections; /* NULL if the file has no usable section headers */
    uint32_t section_count;
    bool has_unread_sections; /* it has section headers, but too many or broken ones */
    char *section_names;      /* NUL-terminated */
    size_t section_names_len;
};

/* SONDE_INVALID_ARGUMENT: not an ELF file, or one for another machine (machine.h), which the diag
 * names. SONDE_CORRUPT: its program headers are outside the file or too many. Call elf_finish after
 * either. */
SONDE_MUST_USE sonde_err elf_open(const struct elf_input *input, struct elf_file *elf,
                                  struct sonde_diag *diag);
void elf_finish(struct elf_file *elf);
/* Whether fd is an ELF file of another machine; the diag then has elf_open's sentence. */
bool elf_is_for_other_machine(int fd, struct sonde_diag *diag);

const char *elf_section_name(const struct elf_file *elf, const Elf64_Shdr *section);
/* The first section of that name or type; NULL if there is none. */
const Elf64_Shdr *elf_section(const struct elf_file *elf, const char *name);
const Elf64_Shdr *elf_section_of_type(const struct elf_file *elf, uint32_t type);
/* The section with that index; NULL if there is none. */
const Elf64_Shdr *elf_section_at(const struct elf_file *elf, uint32_t index);
/* Appends `size` bytes at an offset of the file. SONDE_TOO_LARGE over limit, SONDE_CORRUPT if they
 * are not all there, SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err elf_append(const struct elf_file *elf, uint64_t offset, uint64_t size,
                                    size_t limit, struct sonde_buf *bytes);
/* Finds the file offset of a vaddr, and the number of bytes of its segment that follow in the file.
 * Returns false if no segment holds it. */
bool elf_offset_of(const struct elf_file *elf, uint64_t vaddr, uint64_t *offset, uint64_t *len);

/* Copies the GNU build-id from the program headers, else from note sections. Returns its length; 0
 * if there is none. */
size_t elf_build_id(const struct elf_file *elf, uint8_t build_id[ELF_BUILD_ID_MAX]);
/* The same from a block of notes. */
size_t elf_build_id_of_notes(const uint8_t *notes, size_t len, uint8_t *build_id);
/* Whether the file is a program: ET_EXEC, or position-independent with an interpreter and without a
 * library's name. */
bool elf_is_program(const struct elf_file *elf);

#endif
