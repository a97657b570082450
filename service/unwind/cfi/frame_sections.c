/* SPDX-License-Identifier: Apache-2.0 */
#include "service/unwind/cfi/frame_sections.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#define MAX_SEGMENTS  1024u
#define MAX_SECTIONS  (1u << 20)
#define MAX_NAMES     (64u << 20)
#define MAX_CONTENTS  (512u << 20)
#define MAX_NOTES     (64u << 10)
#define ZSTD_IN_ELF   2 /* ELFCOMPRESS_ZSTD of later headers */
#define DEFLATE_RATIO 1032u

sonde_err unwind_elf_read(const struct elf_file *file, uint64_t offset, void *bytes, uint64_t len) {
    const struct elf_source *source = &file->source;
    if (offset > source->size || len > source->size - offset)
        return SONDE_CORRUPT;
    if (source->fd < 0) {
        memcpy(bytes, source->base + offset, len);
        return SONDE_OK;
    }
    for (uint64_t done = 0; done < len;) {
        ssize_t got = pread(source->fd, (char *)bytes + done, len - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return SONDE_IO;
        if (got == 0)
            return SONDE_CORRUPT;
        done += (uint64_t)got;
    }
    return SONDE_OK;
}

static sonde_err read_new(const struct elf_file *file, uint64_t offset, uint64_t len,
                          uint8_t **bytes) {
    if (offset > file->source.size || len > file->source.size - offset)
        return SONDE_CORRUPT;
    *bytes = malloc(len + 1);
    if (!*bytes)
        return SONDE_OUT_OF_MEMORY;
    sonde_err err = unwind_elf_read(file, offset, *bytes, len);
    if (err != SONDE_OK) {
        free(*bytes);
        *bytes = NULL;
    } else {
        (*bytes)[len] = 0;
    }
    return err;
}

static sonde_err read_segments(struct elf_file *file) {
    const Elf64_Ehdr *header = &file->header;
    if (header->e_phnum == 0)
        return SONDE_OK;
    if (header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phnum > MAX_SEGMENTS)
        return SONDE_CORRUPT;
    file->segment_count = header->e_phnum;
    return read_new(file, header->e_phoff, header->e_phnum * sizeof(Elf64_Phdr),
                    (uint8_t **)&file->segments);
}

/* Large files keep count and name index in section 0. */
static sonde_err section_numbers(const struct elf_file *file, uint64_t *count, uint64_t *names) {
    Elf64_Shdr first;
    sonde_err err = unwind_elf_read(file, file->header.e_shoff, &first, sizeof first);
    *count = file->header.e_shnum ? file->header.e_shnum : first.sh_size;
    *names = file->header.e_shstrndx == SHN_XINDEX ? first.sh_link : file->header.e_shstrndx;
    return err;
}

static void drop_sections(struct elf_file *file) {
    free(file->sections);
    free(file->names);
    file->sections = NULL;
    file->names = NULL;
    file->section_count = 0;
}

/* Sections are a help, not a need: a broken table is as good as none. */
static void read_sections(struct elf_file *file) {
    uint64_t count, names;
    if (file->header.e_shoff == 0 || file->header.e_shentsize != sizeof(Elf64_Shdr) ||
        section_numbers(file, &count, &names) != SONDE_OK || count == 0 || count > MAX_SECTIONS ||
        names >= count)
        return;
    if (read_new(file, file->header.e_shoff, count * sizeof(Elf64_Shdr),
                 (uint8_t **)&file->sections) != SONDE_OK)
        return;
    file->section_count = (uint32_t)count;
    const Elf64_Shdr *table = &file->sections[names];
    file->names_bytes = table->sh_size;
    if (table->sh_type == SHT_NOBITS || table->sh_size > MAX_NAMES ||
        read_new(file, table->sh_offset, table->sh_size, (uint8_t **)&file->names) != SONDE_OK)
        drop_sections(file);
}

static bool is_ours(const Elf64_Ehdr *header) {
    return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
           header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB &&
           header->e_machine == EM_X86_64 &&
           (header->e_type == ET_EXEC || header->e_type == ET_DYN);
}

sonde_err unwind_elf_init(struct elf_file *file, struct elf_source source,
                          struct sonde_diag *diag) {
    struct stat status;
    *file = (struct elf_file){.source = source};
    if (source.fd >= 0) {
        if (fstat(source.fd, &status) != 0)
            return sonde_fail_os(diag, errno, "cannot read a mapped file");
        file->source.size = (uint64_t)status.st_size;
    }
    sonde_err err = unwind_elf_read(file, 0, &file->header, sizeof file->header);
    if (err == SONDE_IO)
        return sonde_fail(diag, err, "cannot read a mapped file");
    if (err != SONDE_OK || !is_ours(&file->header))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "a mapped file is not an ELF program or library for x86-64");
    err = read_segments(file);
    if (err != SONDE_OK) {
        unwind_elf_finish(file);
        return sonde_fail(diag, err, "a mapped file's program headers are broken");
    }
    read_sections(file);
    return SONDE_OK;
}

void unwind_elf_finish(struct elf_file *file) {
    drop_sections(file);
    free(file->segments);
    *file = (struct elf_file){.source.fd = -1};
}

const Elf64_Shdr *unwind_elf_section(const struct elf_file *file, const char *name) {
    for (uint32_t i = 0; i < file->section_count; i++) {
        const Elf64_Shdr *section = &file->sections[i];
        if (section->sh_type != SHT_NOBITS && section->sh_type != SHT_NULL &&
            section->sh_name < file->names_bytes &&
            strcmp(file->names + section->sh_name, name) == 0)
            return section;
    }
    return NULL;
}

/* The size said in the header is believed only as far as the compressed bytes could give it. */
static sonde_err inflate_section(const uint8_t *packed, uint64_t len, uint8_t **bytes,
                                 uint64_t *size) {
    Elf64_Chdr header;
    if (len < sizeof header)
        return SONDE_CORRUPT;
    memcpy(&header, packed, sizeof header);
    packed += sizeof header, len -= sizeof header;
    if (header.ch_size > MAX_CONTENTS)
        return SONDE_TOO_LARGE;
    if (header.ch_type == ELFCOMPRESS_ZLIB && header.ch_size / DEFLATE_RATIO > len + 1)
        return SONDE_CORRUPT;
    *bytes = malloc(header.ch_size + 1);
    if (!*bytes)
        return SONDE_OUT_OF_MEMORY;
    *size = header.ch_size;
    uLongf got = header.ch_size;
    bool good = false;
    if (header.ch_type == ELFCOMPRESS_ZLIB)
        good = uncompress(*bytes, &got, packed, len) == Z_OK && got == header.ch_size;
    else if (header.ch_type == ZSTD_IN_ELF)
        good = ZSTD_decompress(*bytes, header.ch_size, packed, len) == header.ch_size;
    if (good)
        return SONDE_OK;
    free(*bytes);
    *bytes = NULL;
    return SONDE_CORRUPT;
}

sonde_err unwind_elf_contents(const struct elf_file *file, const Elf64_Shdr *section,
                              uint8_t **bytes, uint64_t *size) {
    uint8_t *raw;
    if (section->sh_size > MAX_CONTENTS)
        return SONDE_TOO_LARGE;
    sonde_err err = read_new(file, section->sh_offset, section->sh_size, &raw);
    if (err != SONDE_OK || !(section->sh_flags & SHF_COMPRESSED)) {
        *bytes = err == SONDE_OK ? raw : NULL;
        *size = section->sh_size;
        return err;
    }
    err = inflate_section(raw, section->sh_size, bytes, size);
    free(raw);
    return err;
}

bool unwind_elf_offset_of(const struct elf_file *file, uint64_t vaddr, uint64_t *offset,
                          uint64_t *len) {
    for (uint32_t i = 0; i < file->segment_count; i++) {
        const Elf64_Phdr *segment = &file->segments[i];
        uint64_t at = vaddr - segment->p_vaddr;
        if (segment->p_type != PT_LOAD || vaddr < segment->p_vaddr || at >= segment->p_filesz)
            continue;
        uint64_t left = segment->p_filesz - at;
        *offset = segment->p_offset + at;
        if (*offset < at || *offset >= file->source.size)
            return false;
        *len = left < file->source.size - *offset ? left : file->source.size - *offset;
        return true;
    }
    return false;
}

static uint32_t find_build_id(const uint8_t *notes, uint64_t len, uint8_t *id, uint32_t capacity) {
    while (len >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr note;
        memcpy(&note, notes, sizeof note);
        uint64_t name_bytes = (note.n_namesz + 3ull) & ~3ull;
        uint64_t bytes = sizeof note + name_bytes + ((note.n_descsz + 3ull) & ~3ull);
        if (bytes > len)
            return 0;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            memcmp(notes + sizeof note, "GNU", 4) == 0) {
            uint32_t size = note.n_descsz < capacity ? note.n_descsz : capacity;
            memcpy(id, notes + sizeof note + name_bytes, size);
            return size;
        }
        notes += bytes, len -= bytes;
    }
    return 0;
}

uint32_t unwind_elf_build_id(const struct elf_file *file, uint8_t *id, uint32_t capacity) {
    for (uint32_t i = 0; i < file->segment_count; i++) {
        const Elf64_Phdr *segment = &file->segments[i];
        uint8_t *notes;
        if (segment->p_type != PT_NOTE || segment->p_filesz > MAX_NOTES ||
            read_new(file, segment->p_offset, segment->p_filesz, &notes) != SONDE_OK)
            continue;
        uint32_t size = find_build_id(notes, segment->p_filesz, id, capacity);
        free(notes);
        if (size)
            return size;
    }
    return 0;
}
