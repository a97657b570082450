/* SPDX-License-Identifier: Apache-2.0 */
#include "service/elf/elf.h"

#include "service/elf/inflate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAMES_LIMIT ((size_t)16 << 20)
#define NOTES_LIMIT ((size_t)1 << 20)

bool symbol_elf_read(const struct symbol_elf_input *input, uint64_t offset, void *to, size_t len) {
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
            return false; /* the file was cut behind our back */
        done += (size_t)got;
    }
    return true;
}

bool symbol_elf_input_of_file(int fd, struct symbol_elf_input *input) {
    struct stat about;
    if (fd < 0 || fstat(fd, &about) != 0 || !S_ISREG(about.st_mode))
        return false;
    *input = (struct symbol_elf_input){.fd = fd, .size = (uint64_t)about.st_size};
    return true;
}

/* A copy of count items of item_size at offset; NULL when they do not lie in the input. */
static void *read_array(const struct symbol_elf_input *input, uint64_t offset, uint64_t count,
                        size_t item_size) {
    if (count == 0 || count > input->size / item_size)
        return NULL;
    void *items = malloc(count * item_size);
    if (items && !symbol_elf_read(input, offset, items, count * item_size)) {
        free(items);
        return NULL;
    }
    return items;
}

static bool header_is_ours(const Elf64_Ehdr *header) {
    return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
           header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB &&
           (header->e_phnum == 0 || header->e_phentsize == sizeof(Elf64_Phdr));
}

/* Section headers are a bonus: a file without them, or with broken ones, still has its segments. */
static void open_sections(struct symbol_elf *elf, const Elf64_Ehdr *header) {
    uint64_t count = header->e_shnum, names = header->e_shstrndx;
    Elf64_Shdr first;
    if (header->e_shoff == 0 || header->e_shentsize != sizeof(Elf64_Shdr) ||
        !symbol_elf_read(&elf->input, header->e_shoff, &first, sizeof first))
        return;
    if (count == 0)
        count = first.sh_size;
    if (names == SHN_XINDEX)
        names = first.sh_link;
    if (count > SYMBOL_ELF_MAX_SECTIONS)
        return;
    elf->sections = read_array(&elf->input, header->e_shoff, count, sizeof(Elf64_Shdr));
    elf->section_count = elf->sections ? (uint32_t)count : 0;
    if (names >= elf->section_count)
        return;
    struct sonde_buf text = {0};
    if (symbol_elf_load(elf, &elf->sections[names], NAMES_LIMIT, &text) == SONDE_OK)
        elf->section_names = sonde_buf_take(&text, &elf->section_names_len);
    sonde_buf_finish(&text);
}

sonde_err symbol_elf_open(const struct symbol_elf_input *input, struct symbol_elf *elf,
                          struct sonde_diag *diag) {
    *elf = (struct symbol_elf){.input = *input};
    Elf64_Ehdr header;
    if (!symbol_elf_read(input, 0, &header, sizeof header) || !header_is_ours(&header))
        return sonde_fail(diag, SONDE_CORRUPT, "not a 64-bit little-endian ELF file");
    elf->type = header.e_type;
    elf->machine = header.e_machine;
    if (header.e_phnum > SYMBOL_ELF_MAX_SEGMENTS)
        return sonde_fail(diag, SONDE_CORRUPT, "%u program headers; at most %u are read",
                          header.e_phnum, SYMBOL_ELF_MAX_SEGMENTS);
    if (header.e_phnum > 0) {
        elf->segments = read_array(input, header.e_phoff, header.e_phnum, sizeof(Elf64_Phdr));
        if (!elf->segments)
            return sonde_fail(diag, SONDE_CORRUPT, "the program headers lie outside the file");
        elf->segment_count = header.e_phnum;
    }
    open_sections(elf, &header);
    return SONDE_OK;
}

void symbol_elf_finish(struct symbol_elf *elf) {
    free(elf->segments);
    free(elf->sections);
    free(elf->section_names);
    *elf = (struct symbol_elf){0};
}

const char *symbol_elf_section_name(const struct symbol_elf *elf, const Elf64_Shdr *section) {
    return section->sh_name < elf->section_names_len ? elf->section_names + section->sh_name : "";
}

const Elf64_Shdr *symbol_elf_section(const struct symbol_elf *elf, const char *name) {
    for (uint32_t i = 0; i < elf->section_count; i++)
        if (strcmp(symbol_elf_section_name(elf, &elf->sections[i]), name) == 0)
            return &elf->sections[i];
    return NULL;
}

const Elf64_Shdr *symbol_elf_section_of_type(const struct symbol_elf *elf, uint32_t type) {
    for (uint32_t i = 0; i < elf->section_count; i++)
        if (elf->sections[i].sh_type == type)
            return &elf->sections[i];
    return NULL;
}

const Elf64_Shdr *symbol_elf_section_at(const struct symbol_elf *elf, uint32_t index) {
    return index < elf->section_count ? &elf->sections[index] : NULL;
}

static sonde_err load_plain(const struct symbol_elf *elf, uint64_t offset, uint64_t size,
                            size_t limit, struct sonde_buf *bytes) {
    if (size > limit)
        return SONDE_TOO_LARGE;
    if (offset > elf->input.size || size > elf->input.size - offset)
        return SONDE_CORRUPT;
    char *to = sonde_buf_extend(bytes, size);
    if (!to)
        return SONDE_OUT_OF_MEMORY;
    return symbol_elf_read(&elf->input, offset, to, size) ? SONDE_OK : SONDE_CORRUPT;
}

static sonde_err load_compressed(const struct symbol_elf *elf, const Elf64_Shdr *section,
                                 size_t limit, struct sonde_buf *bytes) {
    Elf64_Chdr header;
    if (section->sh_size < sizeof header ||
        !symbol_elf_read(&elf->input, section->sh_offset, &header, sizeof header))
        return SONDE_CORRUPT;
    if (header.ch_size > limit)
        return SONDE_TOO_LARGE;
    struct sonde_buf packed = {0};
    sonde_err err = load_plain(elf, section->sh_offset + sizeof header,
                               section->sh_size - sizeof header, limit, &packed);
    char *to = err == SONDE_OK ? sonde_buf_extend(bytes, header.ch_size) : NULL;
    if (err == SONDE_OK && !to)
        err = SONDE_OUT_OF_MEMORY;
    else if (err == SONDE_OK && header.ch_type == ELFCOMPRESS_ZLIB)
        err = symbol_inflate_zlib(packed.data, packed.len, to, header.ch_size);
    else if (err == SONDE_OK && header.ch_type == 2 /* ELFCOMPRESS_ZSTD: newer than our elf.h */)
        err = symbol_inflate_zstd(packed.data, packed.len, to, header.ch_size);
    else if (err == SONDE_OK)
        err = SONDE_CORRUPT;
    sonde_buf_finish(&packed);
    return err;
}

sonde_err symbol_elf_load(const struct symbol_elf *elf, const Elf64_Shdr *section, size_t limit,
                          struct sonde_buf *bytes) {
    if (section->sh_type == SHT_NOBITS)
        return SONDE_NOT_FOUND;
    sonde_err err = section->sh_flags & SHF_COMPRESSED
                        ? load_compressed(elf, section, limit, bytes)
                        : load_plain(elf, section->sh_offset, section->sh_size, limit, bytes);
    if (err != SONDE_OK) {
        bool failed = bytes->failed;
        bytes->len = 0;
        bytes->failed = failed;
    }
    return err;
}

static size_t align4(size_t value) {
    return (value + 3) & ~(size_t)3;
}

/* Walks a block of notes for NT_GNU_BUILD_ID. */
size_t symbol_build_id_of_notes(const uint8_t *notes, size_t len, uint8_t *build_id) {
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
            note.n_descsz <= SYMBOL_BUILD_ID_MAX) {
            memcpy(build_id, notes + at + name_len, note.n_descsz);
            return note.n_descsz;
        }
        if (desc_len > len - at - name_len)
            return 0;
        at += name_len + desc_len;
    }
    return 0;
}

static size_t build_id_at(const struct symbol_elf *elf, uint64_t offset, uint64_t size,
                          uint8_t *build_id) {
    struct sonde_buf notes = {0};
    size_t len = 0;
    if (load_plain(elf, offset, size, NOTES_LIMIT, &notes) == SONDE_OK)
        len = symbol_build_id_of_notes((const uint8_t *)notes.data, notes.len, build_id);
    sonde_buf_finish(&notes);
    return len;
}

size_t symbol_elf_build_id(const struct symbol_elf *elf, uint8_t build_id[SYMBOL_BUILD_ID_MAX]) {
    size_t len = 0;
    for (uint32_t i = 0; i < elf->segment_count && len == 0; i++)
        if (elf->segments[i].p_type == PT_NOTE)
            len = build_id_at(elf, elf->segments[i].p_offset, elf->segments[i].p_filesz, build_id);
    /* A file of debug information keeps its notes as sections; its program headers point nowhere.
     */
    for (uint32_t i = 0; i < elf->section_count && len == 0; i++)
        if (elf->sections[i].sh_type == SHT_NOTE)
            len = build_id_at(elf, elf->sections[i].sh_offset, elf->sections[i].sh_size, build_id);
    return len;
}

static void read_dynamic(const struct symbol_elf *elf, const Elf64_Phdr *dynamic, bool *is_pie,
                         bool *has_soname) {
    Elf64_Dyn entry;
    for (uint64_t at = 0; at + sizeof entry <= dynamic->p_filesz && at < 65536;
         at += sizeof entry) {
        if (!symbol_elf_read(&elf->input, dynamic->p_offset + at, &entry, sizeof entry) ||
            entry.d_tag == DT_NULL)
            return;
        *is_pie |= entry.d_tag == DT_FLAGS_1 && (entry.d_un.d_val & DF_1_PIE);
        *has_soname |= entry.d_tag == DT_SONAME;
    }
}

bool symbol_elf_is_program(const struct symbol_elf *elf) {
    bool interpreter = false, is_pie = false, has_soname = false;
    for (uint32_t i = 0; i < elf->segment_count; i++) {
        interpreter |= elf->segments[i].p_type == PT_INTERP;
        if (elf->segments[i].p_type == PT_DYNAMIC)
            read_dynamic(elf, &elf->segments[i], &is_pie, &has_soname);
    }
    return elf->type == ET_EXEC || is_pie || (interpreter && !has_soname);
}

/* The text a link section starts with; its length, 0 = not there or not ended. */
static size_t link_text(const struct symbol_elf *elf, const char *section_name,
                        struct sonde_buf *bytes) {
    const Elf64_Shdr *section = symbol_elf_section(elf, section_name);
    if (!section || symbol_elf_load(elf, section, 4096 + 64, bytes) != SONDE_OK)
        return 0;
    size_t len = strnlen(bytes->data, bytes->len);
    return len < bytes->len && len < 4096 ? len : 0;
}

bool symbol_elf_debuglink(const struct symbol_elf *elf, char *name, size_t name_size,
                          uint32_t *crc) {
    struct sonde_buf bytes = {0};
    size_t len = link_text(elf, ".gnu_debuglink", &bytes);
    size_t crc_at = align4(len + 1); /* counted from the section's start, aligned there or not */
    bool found = len > 0 && len < name_size && crc_at + 4 <= bytes.len &&
                 !strchr(bytes.data, '/') && strcmp(bytes.data, "..") != 0;
    if (found) {
        memcpy(name, bytes.data, len + 1);
        memcpy(crc, bytes.data + crc_at, 4);
    }
    sonde_buf_finish(&bytes);
    return found;
}

size_t symbol_elf_altlink(const struct symbol_elf *elf, char *path, size_t path_size,
                          uint8_t build_id[SYMBOL_BUILD_ID_MAX]) {
    struct sonde_buf bytes = {0};
    size_t len = link_text(elf, ".gnu_debugaltlink", &bytes);
    size_t id_len = len > 0 ? bytes.len - len - 1 : 0;
    if (len >= path_size || id_len > SYMBOL_BUILD_ID_MAX)
        id_len = 0;
    if (id_len > 0) {
        memcpy(path, bytes.data, len + 1);
        memcpy(build_id, bytes.data + len + 1, id_len);
    }
    sonde_buf_finish(&bytes);
    return id_len;
}

bool symbol_has_dwarf(const struct symbol_elf *elf) {
    const Elf64_Shdr *info = symbol_elf_section(elf, ".debug_info");
    info = info ? info : symbol_elf_section(elf, ".zdebug_info");
    return info && info->sh_type != SHT_NOBITS && info->sh_size > 0;
}
