/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks once what readers of a table then rely on. An image comes from a disk cache or from
 * another process: a wrong byte may make the table unusable, but must never harm the target. */
#include "service/machine/own.h"
#include "service/machine/rules.h"
#include "service/unwind/table/table.h"

#include <elf.h>
#include <stdbool.h>
#include <string.h>

#define MIX 0x9e3779b97f4a7c15ull

static uint64_t word_at(const uint8_t *bytes, size_t len) {
    uint64_t word = 0;
    memcpy(&word, bytes, len < 8 ? len : 8);
    return word;
}

static uint64_t rotate(uint64_t value, int by) {
    return value << by | value >> (64 - by);
}

/* Four lanes, so that the multiplications overlap. Protects against damage, not against malice. */
static uint64_t mix_bytes(uint64_t seed, const uint8_t *bytes, size_t len) {
    uint64_t lanes[4] = {seed, seed ^ MIX, ~seed, seed + MIX};
    for (; len >= 32; bytes += 32, len -= 32)
        for (int i = 0; i < 4; i++)
            lanes[i] = rotate((lanes[i] ^ word_at(bytes + 8 * i, 8)) * MIX, 29);
    for (int i = 0; len > 0; i = (i + 1) & 3) {
        size_t part = len < 8 ? len : 8;
        lanes[i] = rotate((lanes[i] ^ word_at(bytes, part) ^ part) * MIX, 29);
        bytes += part, len -= part;
    }
    uint64_t sum = 0;
    for (int i = 0; i < 4; i++)
        sum = rotate((sum ^ lanes[i]) * MIX, 31);
    return sum ^ sum >> 29;
}

uint64_t unwind_table_checksum(const void *image, size_t size) {
    const uint8_t *bytes = image;
    uint64_t sum = mix_bytes(size, bytes, offsetof(struct unwind_header, checksum));
    return mix_bytes(sum, bytes + sizeof(struct unwind_header),
                     size - sizeof(struct unwind_header));
}

/* The parts have one order without gaps, so these equations show that all are inside the image. */
static bool layout_fits(const struct unwind_header *header, size_t size) {
    uint64_t hot = sizeof *header;
    uint64_t rules = hot + 8ull * header->rule_count;
    uint64_t pages = rules + sizeof(struct unwind_rule) * (uint64_t)header->rule_count;
    uint64_t rows = pages + 4ull * header->page_count + 4;
    uint64_t pcs = rows + 2ull * header->row_count;
    uint64_t end = (pcs + header->row_count + UNWIND_SLACK + 7) & ~7ull;
    return header->hot_offset == hot && header->rules_offset == rules &&
           header->pages_offset == pages && header->rows_offset == rows &&
           header->pcs_offset == pcs && header->total_bytes == end && size == end;
}

/* Tables of Sonde 0.2 name no machine, because it knew one. Its sonded may serve our guest. */
static uint32_t machine_of_table(const struct unwind_header *header) {
    return header->machine ? header->machine : EM_X86_64;
}

static bool header_sane(uint32_t machine, const struct unwind_header *header, size_t size) {
    if (header->magic != UNWIND_MAGIC || header->version != UNWIND_VERSION ||
        machine_of_table(header) != machine || !machine_rules_of(machine) ||
        header->header_bytes != sizeof *header || header->build_id_bytes > UNWIND_ID_BYTES)
        return false;
    if (header->rule_count == 0 || header->rule_count > UNWIND_MAX_RULES ||
        header->row_count == 0 || header->text_bytes == 0 || header->text_bytes > UNWIND_MAX_TEXT ||
        header->base + header->text_bytes < header->base)
        return false;
    return header->page_count == (header->text_bytes + UNWIND_PAGE - 1) / UNWIND_PAGE &&
           layout_fits(header, size);
}

static bool rules_sane(const struct unwind_header *header) {
    const uint8_t *image = (const uint8_t *)header;
    const uint64_t *hot = (const uint64_t *)(image + header->hot_offset);
    const struct unwind_rule *rules = (const struct unwind_rule *)(image + header->rules_offset);
    const struct machine_rules *machine = machine_rules_of(machine_of_table(header));
    for (uint32_t i = 0; i < header->rule_count; i++)
        if (!machine->is_sane(&rules[i]) || hot[i] != machine->hot(&rules[i]))
            return false;
    return true;
}

static bool page_rows_rise(const uint8_t *pcs, uint32_t from, uint32_t to) {
    for (uint32_t i = from + 1; i < to; i++)
        if (pcs[i] <= pcs[i - 1])
            return false;
    return true;
}

/* The index starts at row 0, never decreases, and ends at row_count. Row 0 is at pc 0, so every pc
 * has a row. */
static bool pages_sane(const struct unwind_header *header) {
    const uint8_t *image = (const uint8_t *)header;
    const uint32_t *pages = (const uint32_t *)(image + header->pages_offset);
    const uint8_t *pcs = image + header->pcs_offset;
    if (pages[0] != 0 || pages[1] == 0 || pcs[0] != 0 ||
        pages[header->page_count] != header->row_count)
        return false;
    for (uint32_t i = 0; i < header->page_count; i++)
        if (pages[i + 1] < pages[i] || pages[i + 1] > header->row_count ||
            !page_rows_rise(pcs, pages[i], pages[i + 1]))
            return false;
    return true;
}

static bool row_rules_sane(const struct unwind_header *header) {
    const uint16_t *rows = (const uint16_t *)((const uint8_t *)header + header->rows_offset);
    uint32_t highest = 0;
    for (uint32_t i = 0; i < header->row_count; i++)
        highest = rows[i] > highest ? rows[i] : highest;
    return highest < header->rule_count;
}

sonde_err unwind_table_check_for(uint32_t machine, const void *image, size_t size) {
    const struct unwind_header *header = image;
    if (size < sizeof *header || ((uintptr_t)image & 7) != 0 || !header_sane(machine, header, size))
        return SONDE_CORRUPT;
    if (unwind_table_checksum(image, size) != header->checksum)
        return SONDE_CORRUPT;
    if (!rules_sane(header) || !pages_sane(header) || !row_rules_sane(header))
        return SONDE_CORRUPT;
    return SONDE_OK;
}

sonde_err unwind_table_check(const void *image, size_t size) {
    return unwind_table_check_for(machine_own, image, size);
}
