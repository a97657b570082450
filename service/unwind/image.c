/* SPDX-License-Identifier: Apache-2.0 */
#include "service/unwind/image.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 1024u

static const struct unwind_rule none = {
    .cfa = UNWIND_CFA_NONE,
    .saved = {UNWIND_SAME, UNWIND_SAME, UNWIND_SAME, UNWIND_SAME, UNWIND_SAME, UNWIND_SAME}};

static uint32_t rule_hash(const struct unwind_rule *rule) {
    uint64_t words[3];
    _Static_assert(sizeof *rule == sizeof words, "a rule is three words");
    memcpy(words, rule, sizeof words);
    uint64_t mixed = (words[0] * 0x9e3779b97f4a7c15ull ^ words[1]) * 0xbf58476d1ce4e5b9ull;
    mixed = (mixed ^ mixed >> 29 ^ words[2]) * 0x94d049bb133111ebull;
    return (uint32_t)(mixed >> 32);
}

/* The slot where rule is, or where it belongs. */
static uint16_t *find_slot(const struct image *image, const struct unwind_rule *rule) {
    uint32_t mask = image->slot_count - 1;
    uint32_t at = rule_hash(rule) & mask;
    while (image->slots[at] != 0 &&
           memcmp(&image->rules[image->slots[at] - 1], rule, sizeof *rule) != 0)
        at = (at + 1) & mask;
    return &image->slots[at];
}

static bool grow_rules(struct image *image) {
    uint32_t slot_count = image->slot_count ? image->slot_count * 2 : FIRST_SLOTS;
    uint32_t capacity = slot_count / 2;
    struct unwind_rule *rules = realloc(image->rules, capacity * sizeof *rules);
    if (rules)
        image->rules = rules;
    uint16_t *slots = calloc(slot_count, sizeof *slots);
    if (!rules || !slots) {
        free(slots);
        return false;
    }
    free(image->slots);
    image->slots = slots;
    image->slot_count = slot_count;
    image->rule_capacity = capacity;
    for (uint32_t i = 0; i < image->rule_count; i++)
        *find_slot(image, &rules[i]) = (uint16_t)(i + 1);
    return true;
}

/* The number of rule; NONE's when there are too many. */
static uint16_t intern(struct image *image, const struct unwind_rule *rule) {
    if (image->failed)
        return 0;
    uint16_t *slot = find_slot(image, rule);
    if (*slot)
        return (uint16_t)(*slot - 1);
    if (image->rule_count == UNWIND_MAX_RULES - 1) {
        image->complex_rows++;
        return 0;
    }
    image->rules[image->rule_count] = *rule;
    *slot = (uint16_t)++image->rule_count;
    if (image->rule_count == image->rule_capacity && !grow_rules(image))
        image->failed = true;
    return (uint16_t)(image->rule_count - 1);
}

void image_init(struct image *image) {
    *image = (struct image){0};
    struct unwind_rule end = none;
    end.cfa = UNWIND_CFA_END;
    image->failed = !grow_rules(image);
    intern(image, &none);
    intern(image, &end);
}

void image_finish(struct image *image) {
    free(image->rows);
    free(image->rules);
    free(image->slots);
    *image = (struct image){0};
}

static bool room_for_row(struct image *image) {
    if (image->row_count < image->row_capacity)
        return true;
    size_t capacity = image->row_capacity ? image->row_capacity * 2 : 4096;
    struct image_row *rows = realloc(image->rows, capacity * sizeof *rows);
    if (!rows) {
        image->failed = true;
        return false;
    }
    image->rows = rows;
    image->row_capacity = capacity;
    return true;
}

static void add_row(struct image *image, uint32_t pc, uint16_t rule) {
    if (image->row_count && image->rows[image->row_count - 1].pc == pc)
        image->row_count--;
    if (image->row_count && image->rows[image->row_count - 1].rule == rule)
        return;
    if (room_for_row(image))
        image->rows[image->row_count++] = (struct image_row){pc, rule};
}

void image_row(struct image *image, uint32_t pc, const struct unwind_rule *rule) {
    add_row(image, pc, intern(image, rule));
}

void image_gap(struct image *image, uint32_t pc) {
    add_row(image, pc, 0);
}

/* The parts' places; see layout_fits in check.c. */
static void lay_out(const struct image *image, struct unwind_header *header) {
    uint32_t span = image->rows[image->row_count - 1].pc - image->rows[0].pc;
    *header = (struct unwind_header){
        .magic = UNWIND_MAGIC,
        .version = UNWIND_VERSION,
        .header_bytes = sizeof *header,
        .base = image->origin + image->rows[0].pc,
        .text_bytes = span,
        .row_count = (uint32_t)image->row_count - 1, /* without the gap after the last */
        .rule_count = image->rule_count,
        .page_count = (span + UNWIND_PAGE - 1) / UNWIND_PAGE,
        .fde_count = image->fde_count,
        .complex_rows = image->complex_rows,
        .build_id_bytes = image->build_id_bytes,
        .hot_offset = sizeof *header,
    };
    memcpy(header->build_id, image->build_id, sizeof header->build_id);
    header->rules_offset = header->hot_offset + 8ull * header->rule_count;
    header->pages_offset =
        header->rules_offset + sizeof(struct unwind_rule) * (uint64_t)header->rule_count;
    header->rows_offset = header->pages_offset + 4ull * header->page_count + 4;
    header->pcs_offset = header->rows_offset + 2ull * header->row_count;
    header->total_bytes = (header->pcs_offset + header->row_count + UNWIND_SLACK + 7) & ~7ull;
    for (size_t i = 0; i < header->row_count; i++)
        if (image->rows[i].rule != 0)
            header->covered_bytes += image->rows[i + 1].pc - image->rows[i].pc;
}

static void write_rules(const struct image *image, const struct unwind_header *header,
                        uint8_t *bytes) {
    uint64_t *hot = (uint64_t *)(bytes + header->hot_offset);
    memcpy(bytes + header->rules_offset, image->rules, image->rule_count * sizeof *image->rules);
    for (uint32_t i = 0; i < image->rule_count; i++)
        hot[i] = unwind_rule_hot(&image->rules[i]);
}

static void write_rows(const struct image *image, const struct unwind_header *header,
                       uint8_t *bytes) {
    uint32_t *pages = (uint32_t *)(bytes + header->pages_offset);
    uint16_t *rules = (uint16_t *)(bytes + header->rows_offset);
    uint8_t *pcs = bytes + header->pcs_offset;
    uint32_t page = 0, first = image->rows[0].pc;
    for (uint32_t i = 0; i < header->row_count; i++) {
        uint32_t pc = image->rows[i].pc - first;
        while (page <= pc / UNWIND_PAGE)
            pages[page++] = i;
        rules[i] = image->rows[i].rule;
        pcs[i] = (uint8_t)pc;
    }
    while (page <= header->page_count)
        pages[page++] = header->row_count;
}

sonde_err image_write(const struct image *image, struct sonde_buf *table) {
    if (image->failed)
        return SONDE_OUT_OF_MEMORY;
    if (image->row_count < 2)
        return SONDE_NOT_AVAILABLE;
    struct unwind_header header;
    lay_out(image, &header);
    uint8_t *bytes = (uint8_t *)sonde_buf_extend(table, header.total_bytes);
    if (!bytes)
        return SONDE_OUT_OF_MEMORY;
    memset(bytes + header.pcs_offset, 0, header.total_bytes - header.pcs_offset);
    memcpy(bytes, &header, sizeof header);
    write_rules(image, &header, bytes);
    write_rows(image, &header, bytes);
    header.checksum = unwind_table_checksum(bytes, header.total_bytes);
    memcpy(bytes, &header, sizeof header);
    return SONDE_OK;
}
