/* SPDX-License-Identifier: Apache-2.0 */
#include "api/elf/elf.h"

#include "api/elf/machine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAMES_LIMIT ((size_t)16 << 20)
#define NOTES_LIMIT ((size_t)1 << 20)
#define NOTES       64u

bool elf_read(const struct elf_input *input, uint64_t offset, void *to, size_t len) {
    if (offset > input->size || len > input->size - offset)
        return false;
    if (input->bytes) {
        memcpy(to, input->bytes + offset, len);
        return true;
    }
    for (size_t done = 0; done < len;) {
        ssize_t got =
            pread(input->fd, (char *)to + done, len - done, (off_t)(input->base + offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false; /* the file was truncated since */
        done += (size_t)got;
    }
    return true;
}

bool elf_input_of_file(int fd, struct elf_input *input) {
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        return false;
    *input = (struct elf_input){.fd = fd, .size = (uint64_t)info.st_size};
    return true;
}

/* Copies count items of item_size at offset. NULL if they are not all in the input. */
static void *read_array(const struct elf_input *input, uint64_t offset, uint64_t count,
                        size_t item_size) {
    if (count == 0 || count > input->size / item_size)
        return NULL;
    void *items = malloc(count * item_size);
    if (items && !elf_read(input, offset, items, count * item_size)) {
        free(items);
        return NULL;
    }
    return items;
}

/* Section headers are optional: a file without them, or with broken ones, still has its segments.
 * Large files keep the number of sections and the index of the names in section 0. */
static void open_sections(struct elf_file *elf, const Elf64_Ehdr *header) {
    uint64_t count = header->e_shnum, names = header->e_shstrndx;
    Elf64_Shdr first;
    elf->has_unread_sections = header->e_shoff != 0;
    if (header->e_shoff == 0 || header->e_shentsize != sizeof(Elf64_Shdr) ||
        !elf_read(&elf->input, header->e_shoff, &first, sizeof first))
        return;
    if (count == 0)
        count = first.sh_size;
    if (names == SHN_XINDEX)
        names = first.sh_link;
    if (count > ELF_MAX_SECTIONS)
        return;
    elf->sections = read_array(&elf->input, header->e_shoff, count, sizeof(Elf64_Shdr));
    elf->section_count = elf->sections ? (uint32_t)count : 0;
    elf->has_unread_sections = !elf->sections;
    if (names >= elf->section_count)
        return;
    const Elf64_Shdr *table = &elf->sections[names];
    struct sonde_buf text = {0};
    if (table->sh_type != SHT_NOBITS &&
        elf_append(elf, table->sh_offset, table->sh_size, NAMES_LIMIT, &text) == SONDE_OK)
        elf->section_names = sonde_buf_take(&text, &elf->section_names_len);
    sonde_buf_finish(&text);
}

static sonde_err open_segments(struct elf_file *elf, const Elf64_Ehdr *header,
                               struct sonde_diag *diag) {
    if (header->e_phnum == 0)
        return SONDE_OK;
    if (header->e_phnum > ELF_MAX_SEGMENTS)
        return sonde_fail(diag, SONDE_CORRUPT, "%u program headers; the limit is %u",
                          header->e_phnum, ELF_MAX_SEGMENTS);
    if (header->e_phentsize == sizeof(Elf64_Phdr))
        elf->segments =
            read_array(&elf->input, header->e_phoff, header->e_phnum, sizeof(Elf64_Phdr));
    if (!elf->segments)
        return sonde_fail(diag, SONDE_CORRUPT, "the program headers are not in the file");
    elf->segment_count = header->e_phnum;
    return SONDE_OK;
}

sonde_err elf_open(const struct elf_input *input, struct elf_file *elf, struct sonde_diag *diag) {
    *elf = (struct elf_file){.input = *input};
    Elf64_Ehdr header;
    if (!elf_read(input, 0, &header, sizeof header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "not a 64-bit little-endian ELF file");
    sonde_err err = elf_check_machine(&header, diag);
    if (err)
        return err;
    elf->type = header.e_type;
    elf->machine = header.e_machine;
    err = open_segments(elf, &header, diag);
    if (!err)
        open_sections(elf, &header);
    return err;
}

bool elf_is_for_other_machine(int fd, struct sonde_diag *diag) {
    struct elf_input input;
    Elf64_Ehdr header;
    return elf_input_of_file(fd, &input) && elf_read(&input, 0, &header, sizeof header) &&
           memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
           elf_check_machine(&header, diag) != SONDE_OK;
}

void elf_finish(struct elf_file *elf) {
    free(elf->segments);
    free(elf->sections);
    free(elf->section_names);
    *elf = (struct elf_file){0};
}

const char *elf_section_name(const struct elf_file *elf, const Elf64_Shdr *section) {
    return section->sh_name < elf->section_names_len ? elf->section_names + section->sh_name : "";
}

const Elf64_Shdr *elf_section(const struct elf_file *elf, const char *name) {
    for (uint32_t i = 0; i < elf->section_count; i++)
        if (strcmp(elf_section_name(elf, &elf->sections[i]), name) == 0)
            return &elf->sections[i];
    return NULL;
}

const Elf64_Shdr *elf_section_of_type(const struct elf_file *elf, uint32_t type) {
    for (uint32_t i = 0; i < elf->section_count; i++)
        if (elf->sections[i].sh_type == type)
            return &elf->sections[i];
    return NULL;
}

const Elf64_Shdr *elf_section_at(const struct elf_file *elf, uint32_t index) {
    return index < elf->section_count ? &elf->sections[index] : NULL;
}

sonde_err elf_append(const struct elf_file *elf, uint64_t offset, uint64_t size, size_t limit,
                     struct sonde_buf *bytes) {
    if (size > limit)
        return SONDE_TOO_LARGE;
    if (offset > elf->input.size || size > elf->input.size - offset)
        return SONDE_CORRUPT;
    char *to = sonde_buf_extend(bytes, size);
    if (!to)
        return SONDE_OUT_OF_MEMORY;
    return elf_read(&elf->input, offset, to, size) ? SONDE_OK : SONDE_CORRUPT;
}

bool elf_offset_of(const struct elf_file *elf, uint64_t vaddr, uint64_t *offset, uint64_t *len) {
    for (uint32_t i = 0; i < elf->segment_count; i++) {
        const Elf64_Phdr *segment = &elf->segments[i];
        uint64_t at = vaddr - segment->p_vaddr;
        if (segment->p_type != PT_LOAD || vaddr < segment->p_vaddr || at >= segment->p_filesz)
            continue;
        uint64_t in_segment = segment->p_filesz - at;
        *offset = segment->p_offset + at;
        if (*offset < at || *offset >= elf->input.size)
            return false;
        uint64_t in_file = elf->input.size - *offset;
        *len = in_segment < in_file ? in_segment : in_file;
        return true;
    }
    return false;
}

static size_t align4(size_t value) {
    return (value + 3) & ~(size_t)3;
}

size_t elf_build_id_of_notes(const uint8_t *notes, size_t len, uint8_t *build_id) {
    size_t at = 0;
    while (len - at >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr note;
        memcpy(&note, notes + at, sizeof note);
        at += sizeof note;
        size_t name_len = align4(note.n_namesz), desc_len = align4(note.n_descsz);
        if (note.n_namesz > len || note.n_descsz > len || name_len > len - at ||
            note.n_descsz > len - at - name_len)
            return 0;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            memcmp(notes + at, "GNU", 4) == 0 && note.n_descsz > 0 &&
            note.n_descsz <= ELF_BUILD_ID_MAX) {
            memcpy(build_id, notes + at + name_len, note.n_descsz);
            return note.n_descsz;
        }
        if (desc_len > len - at - name_len)
            return 0;
        at += name_len + desc_len;
    }
    return 0;
}

static size_t build_id_at(const struct elf_file *elf, uint64_t offset, uint64_t size,
                          uint8_t *build_id) {
    struct sonde_buf notes = {0};
    size_t len = 0;
    if (elf_append(elf, offset, size, NOTES_LIMIT, &notes) == SONDE_OK)
        len = elf_build_id_of_notes((const uint8_t *)notes.data, notes.len, build_id);
    sonde_buf_finish(&notes);
    return len;
}

size_t elf_build_id(const struct elf_file *elf, uint8_t build_id[ELF_BUILD_ID_MAX]) {
    size_t len = 0;
    for (uint32_t i = 0; i < elf->segment_count && len == 0; i++)
        if (elf->segments[i].p_type == PT_NOTE)
            len = build_id_at(elf, elf->segments[i].p_offset, elf->segments[i].p_filesz, build_id);
    /* In a debug file the program headers point at bytes it does not have; its notes are sections.
     * A broken file may have any number of them. */
    for (uint32_t i = 0, notes = 0; i < elf->section_count && len == 0 && notes < NOTES; i++)
        if (elf->sections[i].sh_type == SHT_NOTE && ++notes)
            len = build_id_at(elf, elf->sections[i].sh_offset, elf->sections[i].sh_size, build_id);
    return len;
}

static void read_dynamic(const struct elf_file *elf, const Elf64_Phdr *dynamic, bool *is_pie,
                         bool *has_soname) {
    Elf64_Dyn entry;
    for (uint64_t at = 0; at + sizeof entry <= dynamic->p_filesz && at < 65536;
         at += sizeof entry) {
        if (!elf_read(&elf->input, dynamic->p_offset + at, &entry, sizeof entry) ||
            entry.d_tag == DT_NULL)
            return;
        *is_pie |= entry.d_tag == DT_FLAGS_1 && (entry.d_un.d_val & DF_1_PIE);
        *has_soname |= entry.d_tag == DT_SONAME;
    }
}

bool elf_is_program(const struct elf_file *elf) {
    bool interpreter = false, is_pie = false, has_soname = false;
    for (uint32_t i = 0; i < elf->segment_count; i++) {
        interpreter |= elf->segments[i].p_type == PT_INTERP;
        if (elf->segments[i].p_type == PT_DYNAMIC)
            read_dynamic(elf, &elf->segments[i], &is_pie, &has_soname);
    }
    return elf->type == ET_EXEC || is_pie || (interpreter && !has_soname);
}
