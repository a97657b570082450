/* SPDX-License-Identifier: Apache-2.0 */
#include "service/unwind/table/rows.h"

#include "service/machine/own.h"
#include "service/machine/rules.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_RULES 512u
#define FIRST_ROWS  4096u
#define FIRST_PAGES 1024u
#define NO_NUMBER   UINT32_MAX

static const struct unwind_rule none = {
    .cfa = UNWIND_CFA_NONE,
    .saved = {UNWIND_SAME, UNWIND_SAME, UNWIND_SAME, UNWIND_SAME, UNWIND_SAME, UNWIND_SAME}};

/* A rule as words, which compare faster than memcmp does. */
struct words {
    uint64_t at[3];
};
_Static_assert(sizeof(struct words) == sizeof(struct unwind_rule), "a rule is three words");

static inline struct words words_of(const struct unwind_rule *rule) {
    struct words words;
    memcpy(&words, rule, sizeof words);
    return words;
}

static inline uint32_t hash_of(const struct unwind_rows *rows, struct words words) {
    const struct hash_index *index = &rows->rule_index;
    return hash_index_words(index, hash_index_mix(index, words.at[0], words.at[1]), words.at[2]);
}

/* HASH_INDEX_NONE when the rule is new. */
static inline uint32_t find_rule(const struct unwind_rows *rows, uint32_t hash,
                                 struct words words) {
    struct hash_probe probe = hash_probe(hash);
    uint32_t number;
    while ((number = hash_index_next(&rows->rule_index, &probe)) != HASH_INDEX_NONE) {
        struct words there = words_of(&rows->rules[number]);
        if (((there.at[0] ^ words.at[0]) | (there.at[1] ^ words.at[1]) |
             (there.at[2] ^ words.at[2])) == 0)
            break;
    }
    return number;
}

static bool grow_rules(struct unwind_rows *rows) {
    uint32_t capacity = rows->rule_capacity ? rows->rule_capacity * 2 : FIRST_RULES;
    struct unwind_rule *rules = realloc(rows->rules, capacity * sizeof *rules);
    if (!rules)
        return false;
    rows->rules = rules;
    rows->rule_capacity = capacity;
    return true;
}

/* Returns the new rule's number; NONE's when there are too many rules, or when memory runs out. */
static __attribute__((noinline)) uint16_t add_rule(struct unwind_rows *rows, uint32_t hash,
                                                   const struct unwind_rule *rule) {
    if (rows->failed)
        return 0;
    if (rows->rule_count == UNWIND_MAX_RULES - 1) {
        rows->complex_rows++;
        return 0;
    }
    rows->failed = (rows->rule_count == rows->rule_capacity && !grow_rules(rows)) ||
                   !hash_index_add(&rows->rule_index, hash, rows->rule_count);
    if (rows->failed)
        return 0;
    rows->rules[rows->rule_count] = *rule;
    return (uint16_t)rows->rule_count++;
}

void unwind_rows_init(struct unwind_rows *rows) {
    *rows = (struct unwind_rows){.machine = machine_own, .last_number = NO_NUMBER};
    struct unwind_rule end = none;
    end.cfa = UNWIND_CFA_END;
    hash_index_init(&rows->rule_index);
    unwind_rows_rule(rows, &none);
    unwind_rows_rule(rows, &end);
}

void unwind_rows_finish(struct unwind_rows *rows) {
    free(rows->numbers);
    free(rows->lows);
    free(rows->page_ends);
    free(rows->rules);
    hash_index_finish(&rows->rule_index);
    *rows = (struct unwind_rows){0};
}

static bool grow_rows(struct unwind_rows *rows) {
    size_t capacity = rows->capacity ? rows->capacity * 2 : FIRST_ROWS;
    uint16_t *numbers = realloc(rows->numbers, capacity * sizeof *numbers);
    if (numbers)
        rows->numbers = numbers;
    uint8_t *lows = realloc(rows->lows, capacity);
    if (lows)
        rows->lows = lows;
    if (numbers && lows)
        rows->capacity = capacity;
    return numbers && lows;
}

static bool grow_pages(struct unwind_rows *rows, size_t needed) {
    size_t capacity = rows->page_capacity ? rows->page_capacity * 2 : FIRST_PAGES;
    while (capacity < needed)
        capacity *= 2;
    uint32_t *ends = realloc(rows->page_ends, capacity * sizeof *ends);
    if (!ends)
        return false;
    memset(ends + rows->page_capacity, 0, (capacity - rows->page_capacity) * sizeof *ends);
    rows->page_ends = ends;
    rows->page_capacity = capacity;
    return true;
}

/* Removes the last row, because another one begins at its pc. (Never called twice in a row: the new
 * row's pc is higher than that of the row before.) */
static void pop_row(struct unwind_rows *rows) {
    rows->page_ends[(rows->last - rows->first) / UNWIND_PAGE] = (uint32_t)--rows->count;
    rows->last_number = rows->count ? rows->numbers[rows->count - 1] : NO_NUMBER;
    rows->covered_bytes -= rows->count && rows->last_number ? rows->last - rows->before : 0;
    rows->last = rows->before;
}

void unwind_rows_put_slow(struct unwind_rows *rows, uint32_t pc, uint16_t rule) {
    if (rows->count && pc == rows->last)
        pop_row(rows);
    if (rows->count == 0)
        rows->first = rows->last = pc;
    size_t page = (pc - rows->first) / UNWIND_PAGE;
    if ((rows->count == rows->capacity && !grow_rows(rows)) ||
        (page >= rows->page_capacity && !grow_pages(rows, page + 1)))
        rows->failed = true;
    else
        unwind_rows_append(rows, pc, rule);
}

uint16_t unwind_rows_rule(struct unwind_rows *rows, const struct unwind_rule *rule) {
    struct words words = words_of(rule);
    uint32_t hash = hash_of(rows, words), number = find_rule(rows, hash, words);
    return number != HASH_INDEX_NONE ? (uint16_t)number : add_rule(rows, hash, rule);
}

void unwind_rows_add(struct unwind_rows *rows, uint32_t pc, const struct unwind_rule *rule) {
    unwind_rows_put(rows, pc, unwind_rows_rule(rows, rule));
}

void unwind_rows_gap(struct unwind_rows *rows, uint32_t pc) {
    unwind_rows_put(rows, pc, 0);
}

/* Sets the offsets of the parts; layout_fits in table_check.c checks them. */
static void lay_out(const struct unwind_rows *rows, struct unwind_header *header) {
    uint32_t span = rows->last - rows->first;
    *header = (struct unwind_header){
        .magic = UNWIND_MAGIC,
        .version = UNWIND_VERSION,
        .header_bytes = sizeof *header,
        .base = rows->origin + rows->first,
        .text_bytes = span,
        .row_count = (uint32_t)rows->count - 1, /* without the gap at the end */
        .rule_count = rows->rule_count,
        .page_count = (span + UNWIND_PAGE - 1) / UNWIND_PAGE,
        .fde_count = rows->fde_count,
        .complex_rows = rows->complex_rows,
        .covered_bytes = rows->covered_bytes,
        .build_id_bytes = rows->build_id_bytes,
        .machine = rows->machine,
        .hot_offset = sizeof *header,
    };
    memcpy(header->build_id, rows->build_id, sizeof header->build_id);
    header->rules_offset = header->hot_offset + 8ull * header->rule_count;
    header->pages_offset =
        header->rules_offset + sizeof(struct unwind_rule) * (uint64_t)header->rule_count;
    header->rows_offset = header->pages_offset + 4ull * header->page_count + 4;
    header->pcs_offset = header->rows_offset + 2ull * header->row_count;
    header->total_bytes = (header->pcs_offset + header->row_count + UNWIND_SLACK + 7) & ~7ull;
}

static void write_rules(const struct unwind_rows *rows, const struct unwind_header *header,
                        uint8_t *bytes) {
    uint64_t *hot = (uint64_t *)(bytes + header->hot_offset);
    memcpy(bytes + header->rules_offset, rows->rules, rows->rule_count * sizeof *rows->rules);
    const struct machine_rules *machine = machine_rules_of(rows->machine);
    for (uint32_t i = 0; i < rows->rule_count; i++)
        hot[i] = machine->hot(&rows->rules[i]);
}

static void write_rows(const struct unwind_rows *rows, const struct unwind_header *header,
                       uint8_t *bytes) {
    uint32_t *pages = (uint32_t *)(bytes + header->pages_offset);
    uint32_t next = 0; /* the first row after the pages so far */
    for (uint32_t page = 0; page < header->page_count; page++) {
        pages[page] = next;
        next = rows->page_ends[page] ? rows->page_ends[page] : next;
    }
    pages[header->page_count] = header->row_count;
    memcpy(bytes + header->rows_offset, rows->numbers, 2ull * header->row_count);
    memcpy(bytes + header->pcs_offset, rows->lows, header->row_count);
}

sonde_err unwind_rows_write(const struct unwind_rows *rows, struct sonde_buf *table) {
    if (rows->failed)
        return SONDE_OUT_OF_MEMORY;
    if (rows->count < 2)
        return SONDE_NOT_AVAILABLE;
    struct unwind_header header;
    lay_out(rows, &header);
    uint8_t *bytes = (uint8_t *)sonde_buf_extend(table, header.total_bytes);
    if (!bytes)
        return SONDE_OUT_OF_MEMORY;
    uint64_t end = header.pcs_offset + header.row_count;
    memset(bytes + end, 0, header.total_bytes - end);
    memcpy(bytes, &header, sizeof header);
    write_rules(rows, &header, bytes);
    write_rows(rows, &header, bytes);
    header.checksum = unwind_table_checksum(bytes, header.total_bytes);
    memcpy(bytes, &header, sizeof header);
    return SONDE_OK;
}
