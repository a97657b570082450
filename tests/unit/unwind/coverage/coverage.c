/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unwind/coverage/coverage.h"

#include "service/elf/sections.h"
#include "service/unwind/table/table_build.h"
#include "service/unwind/table/table_lookup.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* nop, udf #0 (zeros), and words of literal pools are not told from code. */
static uint64_t arm64_nop_at(const uint8_t *bytes, uint64_t len) {
    static const uint8_t nop[] = {0x1f, 0x20, 0x03, 0xd5}, udf[4] = {0};
    return len >= 4 && (memcmp(bytes, nop, 4) == 0 || memcmp(bytes, udf, 4) == 0) ? 4 : 0;
}

/* The length of the padding instruction at bytes: int3, zero, nop and its long forms (prefixes 66
 * and 2e, 0f 1f with an address). 0 if it is another instruction. */
static uint64_t nop_at(const uint8_t *bytes, uint64_t len) {
    uint64_t at = 0;
    if (bytes[0] == 0xcc || bytes[0] == 0x00)
        return 1;
    while (at < len && (bytes[at] == 0x66 || bytes[at] == 0x2e))
        at++;
    if (at < len && bytes[at] == 0x90)
        return at + 1;
    if (len - at < 3 || bytes[at] != 0x0f || bytes[at + 1] != 0x1f)
        return 0;
    uint8_t kind = bytes[at + 2];
    uint64_t whole = at + 3 + ((kind & 7) == 4) + (kind >> 6 == 1 ? 1 : kind >> 6 == 2 ? 4 : 0);
    return whole <= len ? whole : 0;
}

/* Counts bytes that belong to no function. */
static void add_gap(struct coverage *coverage, const uint8_t *bytes, uint64_t len) {
    bool is_arm64 = coverage->machine == EM_AARCH64;
    for (uint64_t at = 0; at < len;) {
        uint64_t nop = is_arm64 ? arm64_nop_at(bytes + at, len - at) : nop_at(bytes + at, len - at);
        coverage->padding += nop;
        coverage->bare += nop == 0;
        at += nop ? nop : 1;
    }
}

static bool loses_a_register(uint32_t machine, const struct unwind_rule *rule) {
    bool loses = rule->arm64.frame == UNWIND_LOST || rule->arm64.link == UNWIND_LOST;
    for (int i = 0; i < UNWIND_NEAR_COUNT && machine == EM_AARCH64; i++)
        loses |= rule->arm64.near[i] == UNWIND_NEAR_LOST;
    for (int i = 0; i < UNWIND_SAVED_COUNT && machine != EM_AARCH64; i++)
        loses |= rule->saved[i] == UNWIND_LOST;
    return loses;
}

static void add_covered(struct coverage *coverage, const struct unwind_rule *rule) {
    bool loses = loses_a_register(coverage->machine, rule);
    coverage->covered++;
    coverage->by_cfa[rule->cfa]++;
    coverage->lost += loses;
}

static void add_section(struct coverage *coverage, const void *image, const uint8_t *bytes,
                        uint64_t vaddr, uint64_t len) {
    uint64_t gap = 0; /* length of the gap that ends at `at` */
    coverage->text += len;
    for (uint64_t at = 0; at < len; at++) {
        const struct unwind_rule *rule = unwind_table_rule(image, vaddr + at);
        bool is_gap = rule->cfa == UNWIND_CFA_NONE && rule->cfa_add != UNWIND_NONE_COMPLEX;
        if (!is_gap && gap)
            add_gap(coverage, bytes + at - gap, gap);
        gap = is_gap ? gap + 1 : 0;
        if (rule->cfa != UNWIND_CFA_NONE)
            add_covered(coverage, rule);
        else if (!is_gap)
            coverage->complex++;
    }
    add_gap(coverage, bytes + len - gap, gap);
}

static sonde_err add_sections(struct coverage *coverage, const void *image,
                              const struct elf_file *file) {
    sonde_err err = SONDE_OK;
    for (uint32_t i = 0; i < file->section_count && !err; i++) {
        const Elf64_Shdr *section = &file->sections[i];
        struct sonde_buf bytes = {0};
        if (!(section->sh_flags & SHF_EXECINSTR) || section->sh_type != SHT_PROGBITS)
            continue;
        err = elf_load(file, section, SIZE_MAX, &bytes);
        if (!err)
            add_section(coverage, image, (const uint8_t *)bytes.data, section->sh_addr, bytes.len);
        sonde_buf_finish(&bytes);
    }
    return err;
}

sonde_err coverage_of(const char *path, struct coverage *coverage, struct sonde_diag *diag) {
    struct sonde_buf table = {0};
    struct elf_input input = {0};
    struct elf_file file = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return sonde_fail(diag, SONDE_NOT_FOUND, "%s not found", path);
    *coverage = (struct coverage){0};
    sonde_err err = SONDE_CORRUPT;
    if (elf_input_of_file(fd, &input))
        err = unwind_table_build_any(&input, &table, diag);
    if (!err)
        err = elf_open(&input, &file, diag);
    if (!err) {
        const struct unwind_header *header = (const struct unwind_header *)table.data;
        coverage->machine = header->machine;
        coverage->functions = header->fde_count;
        coverage->rows = header->row_count;
        coverage->rules = header->rule_count;
        coverage->table_bytes = header->total_bytes;
        err = add_sections(coverage, table.data, &file);
    }
    elf_finish(&file);
    sonde_buf_finish(&table);
    close(fd);
    return err;
}

double coverage_share(const struct coverage *coverage) {
    uint64_t code = coverage->text - coverage->padding;
    return code ? (double)coverage->covered / (double)code : 1;
}
