/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/files/file_info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void symbol_file_info_write(const char *path, const Elf64_Phdr *loads, uint32_t count,
                            struct sonde_buf *out) {
    if (!strchr(path, '\n') && strlen(path) < sizeof((struct symbol_file_info *)0)->path)
        sonde_buf_printf(out, "path %s\n", path);
    for (uint32_t i = 0; i < count; i++)
        sonde_buf_printf(out, "load %llx %llx %llx\n", (unsigned long long)loads[i].p_offset,
                         (unsigned long long)loads[i].p_filesz,
                         (unsigned long long)loads[i].p_vaddr);
}

/* Reads at most 16 digits and the blank after them. Returns NULL if there is no number. */
static const char *read_hex(const char *at, const char *end, uint64_t *value) {
    static const char digits[] = "0123456789abcdef";
    const char *start = at;
    *value = 0;
    for (; at < end && at - start < 16; at++) {
        const char *digit = memchr(digits, *at, 16);
        if (!digit)
            break;
        *value = *value << 4 | (uint64_t)(digit - digits);
    }
    return at > start && (at == end || *at == ' ') ? at + (at < end) : NULL;
}

static bool read_load(const char *at, const char *end, Elf64_Phdr *load) {
    uint64_t offset, size, vaddr;
    at = read_hex(at, end, &offset);
    if (at)
        at = read_hex(at, end, &size);
    if (at)
        at = read_hex(at, end, &vaddr);
    *load = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R | PF_X};
    if (!at || at != end)
        return false;
    load->p_offset = offset;
    load->p_filesz = load->p_memsz = size;
    load->p_vaddr = vaddr;
    return true;
}

static bool read_line(const char *at, const char *end, struct symbol_file_info *info) {
    size_t len = (size_t)(end - at);
    if (len > 5 && memcmp(at, "path ", 5) == 0 && len - 5 < sizeof info->path &&
        !memchr(at, 0, len)) {
        memcpy(info->path, at + 5, len - 5);
        info->path[len - 5] = 0;
    }
    Elf64_Phdr load;
    if (len <= 5 || memcmp(at, "load ", 5) != 0 || info->load_count >= ELF_MAX_SEGMENTS ||
        !read_load(at + 5, end, &load))
        return true;
    Elf64_Phdr *grown = realloc(info->loads, (info->load_count + 1) * sizeof *grown);
    if (!grown)
        return false;
    info->loads = grown;
    info->loads[info->load_count++] = load;
    return true;
}

bool symbol_file_info_read(struct sonde_slice text, struct symbol_file_info *info) {
    const char *at = text.data, *end = at + text.len;
    bool good = true;
    info->path[0] = 0;
    info->loads = NULL;
    info->load_count = 0;
    while (at < end && good) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline ? newline : end;
        good = read_line(at, stop, info);
        at = stop + (newline != NULL);
    }
    return good;
}

void symbol_file_info_finish(struct symbol_file_info *info) {
    free(info->loads);
    info->loads = NULL;
    info->load_count = 0;
}
