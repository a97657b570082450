/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/process/vdso.h"

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

#define NAME "__vdso_clock_gettime"
#define PAGE 4096u

struct image {
    const uint8_t *bytes;
    size_t size;
};

static const void *part(const struct image *image, uint64_t offset, uint64_t bytes) {
    bool fits = offset <= image->size && bytes <= image->size - offset;
    return fits ? image->bytes + offset : NULL;
}

static const Elf64_Shdr *section(const struct image *image, const Elf64_Ehdr *header,
                                 uint32_t number) {
    return part(image, header->e_shoff + (uint64_t)number * sizeof(Elf64_Shdr), sizeof(Elf64_Shdr));
}

static bool is_clock(const struct image *image, const Elf64_Shdr *strings,
                     const Elf64_Sym *symbol) {
    if (symbol->st_name >= strings->sh_size || sizeof NAME > strings->sh_size - symbol->st_name)
        return false;
    const char *name = part(image, strings->sh_offset + symbol->st_name, sizeof NAME);
    return name && memcmp(name, NAME, sizeof NAME) == 0 && symbol->st_shndx != SHN_UNDEF &&
           symbol->st_value < image->size;
}

/* The vdso is linked at address 0, so values are offsets. */
static const void *find_in_table(const struct image *image, const Elf64_Ehdr *header,
                                 const Elf64_Shdr *table) {
    const Elf64_Shdr *strings =
        table->sh_link < header->e_shnum ? section(image, header, table->sh_link) : NULL;
    for (uint64_t i = 0; strings && i < table->sh_size / sizeof(Elf64_Sym); i++) {
        const Elf64_Sym *symbol =
            part(image, table->sh_offset + i * sizeof *symbol, sizeof *symbol);
        if (!symbol)
            return NULL;
        if (is_clock(image, strings, symbol))
            return image->bytes + symbol->st_value;
    }
    return NULL;
}

vdso_clock_function *vdso_find_clock_in(const void *memory, size_t bytes) {
    struct image image = {memory, bytes};
    const Elf64_Ehdr *header = part(&image, 0, sizeof *header);
    if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_shentsize != sizeof(Elf64_Shdr))
        return NULL;
    for (uint32_t i = 0; i < header->e_shnum; i++) {
        const Elf64_Shdr *table = section(&image, header, i);
        const void *found =
            table && table->sh_type == SHT_DYNSYM ? find_in_table(&image, header, table) : NULL;
        if (found)
            return (vdso_clock_function *)(uintptr_t)found;
    }
    return NULL;
}

/* Its section headers are at its end. */
vdso_clock_function *vdso_find_clock(void) {
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)getauxval(AT_SYSINFO_EHDR);
    if (!header)
        return NULL;
    size_t bytes = header->e_shoff + (size_t)header->e_shnum * sizeof(Elf64_Shdr);
    return vdso_find_clock_in(header, (bytes + PAGE - 1) / PAGE * PAGE);
}
