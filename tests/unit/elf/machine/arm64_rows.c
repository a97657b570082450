/* SPDX-License-Identifier: Apache-2.0
 *
 * readelf -wF prints a table for each function. A row applies up to the next one, and "u" is a
 * register that is unchanged, or undefined:
 *
 *     00000038 ... FDE cie=00000000 pc=00000000000105b4..0000000000010600
 *        LOC           CFA      x19   x28   x29   ra
 *     00000000000105b4 sp+0     u     u     u     u
 *     00000000000105cc x29+32   c-8   c-16  c-32  c-24 */
#include "tests/unit/elf/machine/arm64_rows.h"

#include "service/unwind/table/table_build.h"
#include "service/unwind/table/table_lookup.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST     ARM64_FIRST
#define LAST      ARM64_LAST
#define SP        31
#define NONE      99
#define UNCHANGED ARM64_UNCHANGED
#define LOST      ARM64_LOST
#define SHOWN     10u

/* The registers of the columns of the current function; NONE = one that rows do not have. */
struct columns {
    unsigned items[64];
    unsigned count;
    bool is_function; /* not a CIE */
};

/* Cuts the next word off. NULL at the end of the line. */
static char *next_word(char **at) {
    char *word = strtok_r(NULL, " \n", at);
    return word;
}

/* "x29", "sp", "ra"; NONE = another. */
static unsigned read_register(const char *word, char **end) {
    *end = (char *)word + 2;
    if (strncmp(word, "sp", 2) == 0)
        return SP;
    if (strncmp(word, "ra", 2) == 0)
        return LAST;
    return word[0] == 'x' ? (unsigned)strtoul(word + 1, end, 10) : NONE;
}

static void read_columns(char *rest, struct columns *columns) {
    char *end;
    columns->count = 0;
    next_word(&rest); /* CFA */
    for (char *word; (word = next_word(&rest)) && columns->count < 64;) {
        unsigned number = read_register(word, &end);
        columns->items[columns->count++] = number >= FIRST && number <= LAST ? number : NONE;
    }
}

static void read_saved(const char *word, unsigned number, struct arm64_row *row) {
    if (word[0] == 'c')
        row->saved[number] = strtoll(word + 1, NULL, 10);
    else if (strcmp(word, "u") != 0 && strcmp(word, "s") != 0)
        row->saved[number] = LOST;
    row->is_expression |= number == LAST && row->saved[number] == LOST;
}

static void read_row(char *rest, const struct columns *columns, struct arm64_row *row) {
    char *word = next_word(&rest), *end = word;
    *row = (struct arm64_row){.is_expression = !word};
    for (unsigned i = FIRST; i <= LAST; i++)
        row->saved[i] = UNCHANGED;
    row->base = word ? read_register(word, &end) : NONE;
    row->is_expression |= row->base == NONE;
    row->offset = row->is_expression ? 0 : strtoll(end, NULL, 10);
    for (unsigned i = 0; i < columns->count && (word = next_word(&rest)); i++)
        if (columns->items[i] != NONE)
            read_saved(word, columns->items[i], row);
}

/* Whether the line is a row of a function. */
static bool read_line(char *line, struct columns *columns, uint64_t *address,
                      struct arm64_row *row) {
    char *rest, *end;
    bool is_record = strstr(line, " cie=") || strstr(line, " CIE ");
    if (is_record) {
        columns->is_function = strstr(line, " cie=") != NULL;
        return false;
    }
    char *word = strtok_r(line, " \n", &rest);
    if (word && strcmp(word, "LOC") == 0) {
        read_columns(rest, columns);
        return false;
    }
    *address = word ? strtoull(word, &end, 16) : 0;
    if (!word || !columns->is_function || *end || end - word != 16)
        return false;
    read_row(rest, columns, row);
    return true;
}

/* --- our row ---------------------------------------------------------------------------------- */

static int64_t place(int16_t units) {
    return units == UNWIND_SAME ? UNCHANGED : units == UNWIND_LOST ? LOST : units * INT64_C(8);
}

static int64_t near_place(const struct unwind_rule *rule, unsigned number) {
    int16_t frame = rule->arm64.frame, link = rule->arm64.link;
    int anchor = frame < UNWIND_LOST ? frame : link < UNWIND_LOST ? link : 0;
    int8_t distance = rule->arm64.near[number - FIRST];
    return distance == UNWIND_NEAR_SAME   ? UNCHANGED
           : distance == UNWIND_NEAR_LOST ? LOST
                                          : (anchor + distance) * INT64_C(8);
}

static int64_t our_place(const struct unwind_rule *rule, unsigned number) {
    return number == 29   ? place(rule->arm64.frame)
           : number == 30 ? place(rule->arm64.link)
                          : near_place(rule, number);
}

static bool has_cfa(const struct unwind_rule *rule, const struct arm64_row *row) {
    uint8_t kind = row->base == SP   ? UNWIND_CFA_RSP
                   : row->base == 29 ? UNWIND_CFA_RBP
                                     : UNWIND_CFA_REG;
    return rule->cfa == kind && rule->cfa_register == row->base && rule->cfa_offset == row->offset;
}

static bool agrees(const struct unwind_rule *rule, const struct arm64_row *row,
                   struct arm64_rows *rows) {
    bool is_complex = rule->cfa == UNWIND_CFA_NONE && rule->cfa_add == UNWIND_NONE_COMPLEX;
    if (rule->cfa == UNWIND_CFA_END && row->saved[LAST] == UNCHANGED) {
        rows->roots++;
        return true;
    }
    if (row->is_expression) {
        rows->complex++;
        return is_complex || rule->cfa == UNWIND_CFA_DEREF || rule->cfa == UNWIND_CFA_RETURN;
    }
    bool is_lost = false, is_same = has_cfa(rule, row);
    for (unsigned i = FIRST; i <= LAST && is_same; i++) {
        int64_t ours = our_place(rule, i);
        is_lost |= ours == LOST;
        is_same = ours == row->saved[i] || (ours == LOST && i < 29) || (i == 29 && rows->is_go);
    }
    rows->lost += is_lost;
    return is_same;
}

/* --- files ------------------------------------------------------------------------------------ */

sonde_err arm64_rows_build(const char *path, struct sonde_buf *table, struct sonde_diag *diag) {
    struct elf_input input;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    sonde_err err = SONDE_NOT_FOUND;
    if (elf_input_of_file(fd, &input))
        err = unwind_table_build_any(&input, table, diag);
    if (!err)
        err = unwind_table_check_for(EM_AARCH64, table->data, table->len);
    if (fd >= 0)
        close(fd);
    return err;
}

sonde_err arm64_rows_read(const char *path,
                          void (*take)(void *, uint64_t, const struct arm64_row *), void *context) {
    struct columns columns = {0};
    struct arm64_row row;
    char command[4200], *line = NULL;
    size_t room = 0;
    uint64_t address;
    snprintf(command, sizeof command, "readelf -wF '%s'", path);
    FILE *dump = popen(command, "re");
    while (dump && getline(&line, &room, dump) > 0)
        if (read_line(line, &columns, &address, &row))
            take(context, address, &row);
    free(line);
    return dump && pclose(dump) == 0 ? SONDE_OK : SONDE_IO;
}

struct comparison {
    struct sonde_buf table;
    struct arm64_rows *rows;
};

static void compare_row(void *context, uint64_t address, const struct arm64_row *row) {
    struct comparison *comparison = context;
    struct arm64_rows *rows = comparison->rows;
    const struct unwind_rule *rule = unwind_table_rule(comparison->table.data, address);
    rows->compared++;
    if (!agrees(rule, row, rows) && rows->different++ < SHOWN)
        printf("%#lx: CFA %u%+ld x29 %ld x30 %ld; ours: kind %u CFA %u%+d x29 %d x30 %d\n",
               (unsigned long)address, row->base, (long)row->offset, (long)row->saved[29],
               (long)row->saved[30], rule->cfa, rule->cfa_register, rule->cfa_offset,
               8 * rule->arm64.frame, 8 * rule->arm64.link);
}

sonde_err arm64_rows_compare(const char *path, const char *unstripped, bool is_go,
                             struct arm64_rows *rows, struct sonde_diag *diag) {
    struct comparison comparison = {.rows = rows};
    *rows = (struct arm64_rows){.is_go = is_go};
    sonde_err err = arm64_rows_build(path, &comparison.table, diag);
    if (err)
        return err;
    const struct unwind_header *header = (const struct unwind_header *)comparison.table.data;
    rows->rows = header->row_count;
    rows->table_bytes = header->total_bytes;
    err = arm64_rows_read(unstripped, compare_row, &comparison);
    sonde_buf_finish(&comparison.table);
    return err;
}
