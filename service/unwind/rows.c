/* SPDX-License-Identifier: Apache-2.0 */
#include "service/unwind/rows.h"

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
static uint16_t *find_slot(const struct unwind_rows *rows, const struct unwind_rule *rule) {
    uint32_t mask = rows->slot_count - 1;
    uint32_t at = rule_hash(rule) & mask;
    while (rows->slots[at] != 0 &&
           memcmp(&rows->rules[rows->slots[at] - 1], rule, sizeof *rule) != 0)
        at = (at + 1) & mask;
    return &rows->slots[at];
}

static bool grow_rules(struct unwind_rows *rows) {
    uint32_t slot_count = rows->slot_count ? rows->slot_count * 2 : FIRST_SLOTS;
    uint32_t capacity = slot_count / 2;
    struct unwind_rule *rules = realloc(rows->rules, capacity * sizeof *rules);
    if (rules)
        rows->rules = rules;
    uint16_t *slots = calloc(slot_count, sizeof *slots);
    if (!rules || !slots) {
        free(slots);
        return false;
    }
    free(rows->slots);
    rows->slots = slots;
    rows->slot_count = slot_count;
    rows->rule_capacity = capacity;
    for (uint32_t i = 0; i < rows->rule_count; i++)
        *find_slot(rows, &rules[i]) = (uint16_t)(i + 1);
    return true;
}

/* The number of rule; NONE's when there are too many. */
static uint16_t intern(struct unwind_rows *rows, const struct unwind_rule *rule) {
    if (rows->failed)
        return 0;
    uint16_t *slot = find_slot(rows, rule);
    if (*slot)
        return (uint16_t)(*slot - 1);
    if (rows->rule_count == UNWIND_MAX_RULES - 1) {
        rows->complex_rows++;
        return 0;
    }
    rows->rules[rows->rule_count] = *rule;
    *slot = (uint16_t)++rows->rule_count;
    if (rows->rule_count == rows->rule_capacity && !grow_rules(rows))
        rows->failed = true;
    return (uint16_t)(rows->rule_count - 1);
}

void unwind_rows_init(struct unwind_rows *rows) {
    *rows = (struct unwind_rows){0};
    struct unwind_rule end = none;
    end.cfa = UNWIND_CFA_END;
    rows->failed = !grow_rules(rows);
    intern(rows, &none);
    intern(rows, &end);
}

void unwind_rows_finish(struct unwind_rows *rows) {
    free(rows->items);
    free(rows->rules);
    free(rows->slots);
    *rows = (struct unwind_rows){0};
}

static bool room_for_row(struct unwind_rows *rows) {
    if (rows->item_count < rows->item_capacity)
        return true;
    size_t capacity = rows->item_capacity ? rows->item_capacity * 2 : 4096;
    struct unwind_row *items = realloc(rows->items, capacity * sizeof *items);
    if (!items) {
        rows->failed = true;
        return false;
    }
    rows->items = items;
    rows->item_capacity = capacity;
    return true;
}

static void add_row(struct unwind_rows *rows, uint32_t pc, uint16_t rule) {
    if (rows->item_count && rows->items[rows->item_count - 1].pc == pc)
        rows->item_count--;
    if (rows->item_count && rows->items[rows->item_count - 1].rule == rule)
        return;
    if (room_for_row(rows))
        rows->items[rows->item_count++] = (struct unwind_row){pc, rule};
}

void unwind_rows_add(struct unwind_rows *rows, uint32_t pc, const struct unwind_rule *rule) {
    add_row(rows, pc, intern(rows, rule));
}

void unwind_rows_gap(struct unwind_rows *rows, uint32_t pc) {
    add_row(rows, pc, 0);
}

/* The parts' places; see layout_fits in check.c. */
static void lay_out(const struct unwind_rows *rows, struct unwind_header *header) {
    uint32_t span = rows->items[rows->item_count - 1].pc - rows->items[0].pc;
    *header = (struct unwind_header){
        .magic = UNWIND_MAGIC,
        .version = UNWIND_VERSION,
        .header_bytes = sizeof *header,
        .base = rows->origin + rows->items[0].pc,
        .text_bytes = span,
        .row_count = (uint32_t)rows->item_count - 1, /* without the gap after the last */
        .rule_count = rows->rule_count,
        .page_count = (span + UNWIND_PAGE - 1) / UNWIND_PAGE,
        .fde_count = rows->fde_count,
        .complex_rows = rows->complex_rows,
        .build_id_bytes = rows->build_id_bytes,
        .hot_offset = sizeof *header,
    };
    memcpy(header->build_id, rows->build_id, sizeof header->build_id);
    header->rules_offset = header->hot_offset + 8ull * header->rule_count;
    header->pages_offset =
        header->rules_offset + sizeof(struct unwind_rule) * (uint64_t)header->rule_count;
    header->rows_offset = header->pages_offset + 4ull * header->page_count + 4;
    header->pcs_offset = header->rows_offset + 2ull * header->row_count;
    header->total_bytes = (header->pcs_offset + header->row_count + UNWIND_SLACK + 7) & ~7ull;
    for (size_t i = 0; i < header->row_count; i++)
        if (rows->items[i].rule != 0)
            header->covered_bytes += rows->items[i + 1].pc - rows->items[i].pc;
}

static void write_rules(const struct unwind_rows *rows, const struct unwind_header *header,
                        uint8_t *bytes) {
    uint64_t *hot = (uint64_t *)(bytes + header->hot_offset);
    memcpy(bytes + header->rules_offset, rows->rules, rows->rule_count * sizeof *rows->rules);
    for (uint32_t i = 0; i < rows->rule_count; i++)
        hot[i] = unwind_rule_hot(&rows->rules[i]);
}

static void write_rows(const struct unwind_rows *rows, const struct unwind_header *header,
                       uint8_t *bytes) {
    uint32_t *pages = (uint32_t *)(bytes + header->pages_offset);
    uint16_t *rules = (uint16_t *)(bytes + header->rows_offset);
    uint8_t *pcs = bytes + header->pcs_offset;
    uint32_t page = 0, first = rows->items[0].pc;
    for (uint32_t i = 0; i < header->row_count; i++) {
        uint32_t pc = rows->items[i].pc - first;
        while (page <= pc / UNWIND_PAGE)
            pages[page++] = i;
        rules[i] = rows->items[i].rule;
        pcs[i] = (uint8_t)pc;
    }
    while (page <= header->page_count)
        pages[page++] = header->row_count;
}

sonde_err unwind_rows_write(const struct unwind_rows *rows, struct sonde_buf *table) {
    if (rows->failed)
        return SONDE_OUT_OF_MEMORY;
    if (rows->item_count < 2)
        return SONDE_NOT_AVAILABLE;
    struct unwind_header header;
    lay_out(rows, &header);
    uint8_t *bytes = (uint8_t *)sonde_buf_extend(table, header.total_bytes);
    if (!bytes)
        return SONDE_OUT_OF_MEMORY;
    memset(bytes + header.pcs_offset, 0, header.total_bytes - header.pcs_offset);
    memcpy(bytes, &header, sizeof header);
    write_rules(rows, &header, bytes);
    write_rows(rows, &header, bytes);
    header.checksum = unwind_table_checksum(bytes, header.total_bytes);
    memcpy(bytes, &header, sizeof header);
    return SONDE_OK;
}
