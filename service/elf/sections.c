/* SPDX-License-Identifier: Apache-2.0 */
#include "service/elf/sections.h"

#include "service/elf/inflate.h"

#include <string.h>

#define ZSTD_IN_ELF   2     /* ELFCOMPRESS_ZSTD, which Debian 12's elf.h lacks */
#define DEFLATE_RATIO 1032u /* deflate cannot compress better */

static sonde_err inflate_section(const Elf64_Chdr *header, const struct sonde_buf *packed,
                                 struct sonde_buf *bytes) {
    bool is_zlib = header->ch_type == ELFCOMPRESS_ZLIB;
    if (!is_zlib && header->ch_type != ZSTD_IN_ELF)
        return SONDE_CORRUPT;
    if (is_zlib && header->ch_size / DEFLATE_RATIO > packed->len + 1)
        return SONDE_CORRUPT; /* before memory is taken for a size that cannot be true */
    char *to = sonde_buf_extend(bytes, header->ch_size);
    if (!to)
        return SONDE_OUT_OF_MEMORY;
    return is_zlib ? inflate_zlib(packed->data, packed->len, to, header->ch_size)
                   : inflate_zstd(packed->data, packed->len, to, header->ch_size);
}

static sonde_err load_compressed(const struct elf_file *elf, const Elf64_Shdr *section,
                                 size_t limit, struct sonde_buf *bytes) {
    Elf64_Chdr header;
    if (section->sh_size < sizeof header ||
        !elf_read(&elf->input, section->sh_offset, &header, sizeof header))
        return SONDE_CORRUPT;
    if (header.ch_size > limit)
        return SONDE_TOO_LARGE;
    struct sonde_buf packed = {0};
    sonde_err err = elf_append(elf, section->sh_offset + sizeof header,
                               section->sh_size - sizeof header, limit, &packed);
    if (!err)
        err = inflate_section(&header, &packed, bytes);
    sonde_buf_finish(&packed);
    return err;
}

sonde_err elf_load(const struct elf_file *elf, const Elf64_Shdr *section, size_t limit,
                   struct sonde_buf *bytes) {
    if (section->sh_type == SHT_NOBITS)
        return SONDE_NOT_FOUND;
    sonde_err err = section->sh_flags & SHF_COMPRESSED
                        ? load_compressed(elf, section, limit, bytes)
                        : elf_append(elf, section->sh_offset, section->sh_size, limit, bytes);
    if (err != SONDE_OK) {
        bool failed = bytes->failed;
        bytes->len = 0;
        bytes->failed = failed;
    }
    return err;
}

/* Loads a link section, which begins with a text. Returns the text's length; 0 if there is no such
 * section or its text has no end. */
static size_t link_text(const struct elf_file *elf, const char *section_name,
                        struct sonde_buf *bytes) {
    const Elf64_Shdr *section = elf_section(elf, section_name);
    if (!section || elf_load(elf, section, 4096 + 64, bytes) != SONDE_OK)
        return 0;
    size_t len = strnlen(bytes->data, bytes->len);
    return len < bytes->len && len < 4096 ? len : 0;
}

bool elf_debuglink(const struct elf_file *elf, char *name, size_t name_size, uint32_t *crc) {
    struct sonde_buf bytes = {0};
    size_t len = link_text(elf, ".gnu_debuglink", &bytes);
    /* The CRC is at the next multiple of 4 from the section's start. */
    size_t crc_at = (len + 1 + 3) & ~(size_t)3;
    bool found = len > 0 && len < name_size && crc_at + 4 <= bytes.len &&
                 !strchr(bytes.data, '/') && strcmp(bytes.data, "..") != 0;
    if (found) {
        memcpy(name, bytes.data, len + 1);
        memcpy(crc, bytes.data + crc_at, 4);
    }
    sonde_buf_finish(&bytes);
    return found;
}

size_t elf_altlink(const struct elf_file *elf, char *path, size_t path_size,
                   uint8_t build_id[ELF_BUILD_ID_MAX]) {
    struct sonde_buf bytes = {0};
    size_t len = link_text(elf, ".gnu_debugaltlink", &bytes);
    size_t id_len = len > 0 ? bytes.len - len - 1 : 0;
    if (len >= path_size || id_len > ELF_BUILD_ID_MAX)
        id_len = 0;
    if (id_len > 0) {
        memcpy(path, bytes.data, len + 1);
        memcpy(build_id, bytes.data + len + 1, id_len);
    }
    sonde_buf_finish(&bytes);
    return id_len;
}

bool elf_has_dwarf(const struct elf_file *elf) {
    const Elf64_Shdr *info = elf_section(elf, ".debug_info");
    info = info ? info : elf_section(elf, ".zdebug_info");
    return info && info->sh_type != SHT_NOBITS && info->sh_size > 0;
}
