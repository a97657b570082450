/* SPDX-License-Identifier: Apache-2.0
 *
 * As much of an ELF file as unwinding needs: the places of its frame sections and its code, and its
 * build-id. It reads by pread rather than by mapping, so that a file that shrinks meanwhile is an
 * error and not a SIGBUS. Only 64-bit x86-64 files; every number is checked against the file. One
 * thread at a time. */
#ifndef SONDE_SERVICE_UNWIND_CFI_FRAME_SECTIONS_H
#define SONDE_SERVICE_UNWIND_CFI_FRAME_SECTIONS_H

#include "api/error.h"

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where the bytes come from: a file, or memory when fd is -1. */
struct elf_source {
    int fd;
    const uint8_t *base;
    uint64_t size;
};

struct elf_file {
    struct elf_source source;
    Elf64_Ehdr header;
    Elf64_Phdr *segments;
    uint32_t segment_count;
    Elf64_Shdr *sections; /* NULL when stripped or broken: segments then must do */
    uint32_t section_count;
    char *names; /* of sections, NUL-terminated */
    uint64_t names_bytes;
};

/* Reads the headers. SONDE_INVALID_ARGUMENT when it is not an ELF file for x86-64, SONDE_CORRUPT,
 * SONDE_IO. */
SONDE_MUST_USE sonde_err unwind_elf_init(struct elf_file *file, struct elf_source source,
                                         struct sonde_diag *diag);
void unwind_elf_finish(struct elf_file *file);

/* Bytes at a file offset. SONDE_CORRUPT when they are not all there. */
SONDE_MUST_USE sonde_err unwind_elf_read(const struct elf_file *file, uint64_t offset, void *bytes,
                                         uint64_t len);
/* The first section of that name that has bytes in the file; NULL. */
const Elf64_Shdr *unwind_elf_section(const struct elf_file *file, const char *name);
/* A section's contents, uncompressed; to be freed. *size may be 0, and then *bytes is not NULL
 * either. */
SONDE_MUST_USE sonde_err unwind_elf_contents(const struct elf_file *file, const Elf64_Shdr *section,
                                             uint8_t **bytes, uint64_t *size);
/* The file offset of a vaddr and how many bytes of the file follow it in its segment; false when it
 * is in none. */
bool unwind_elf_offset_of(const struct elf_file *file, uint64_t vaddr, uint64_t *offset,
                          uint64_t *len);
/* The GNU build-id, cut at capacity; returns its length, 0 when there is none. */
uint32_t unwind_elf_build_id(const struct elf_file *file, uint8_t *id, uint32_t capacity);

#endif
