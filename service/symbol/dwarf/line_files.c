/* SPDX-License-Identifier: Apache-2.0
 *
 * The directories and files of a line table. Up to version 4 they are two lists of strings,
 * numbered from 1; since version 5, two tables that describe their own columns, numbered from 0.
 * The path of a file is built when the first row refers to it. */
#include "api/base/array.h"
#include "service/symbol/dwarf/constants.h"
#include "service/symbol/dwarf/lines.h"

#include <limits.h>
#include <stdio.h>

#define MAX_ITEMS   (1u << 20)
#define MAX_COLUMNS 16

static bool add_directory(struct dwarf_lines *lines, const char *name) {
    if (lines->directory_count >= MAX_ITEMS ||
        !array_room(&lines->directories, &lines->directory_capacity, lines->directory_count, 1))
        return false;
    lines->directories[lines->directory_count++] = name;
    return true;
}

static bool add_source(struct dwarf_lines *lines, const char *name, uint64_t directory) {
    if (lines->source_count >= MAX_ITEMS ||
        !array_room(&lines->sources, &lines->source_capacity, lines->source_count, 1))
        return false;
    lines->sources[lines->source_count++] = (struct dwarf_source){name, directory, DWARF_NO_FILE};
    return true;
}

/* --- versions 2 to 4 -------------------------------------------------------------------------- */

static bool read_old_files(struct dwarf_lines *lines, struct cursor *cursor) {
    const char *name;
    bool good = add_directory(lines, lines->compiled_in) && add_source(lines, "", 0);
    while (good && *(name = cursor_text(cursor)))
        good = add_directory(lines, name);
    while (good && *(name = cursor_text(cursor))) {
        uint64_t directory = cursor_uleb(cursor);
        cursor_uleb(cursor); /* time */
        cursor_uleb(cursor); /* size */
        good = add_source(lines, name, directory);
    }
    return good && !cursor->failed;
}

/* --- version 5 -------------------------------------------------------------------------------- */

struct column {
    uint64_t content, form;
};

struct entry {
    const char *path;
    uint64_t directory;
};

static bool read_columns(struct cursor *cursor, struct column columns[MAX_COLUMNS],
                         uint8_t *count) {
    *count = cursor_u8(cursor);
    if (*count > MAX_COLUMNS)
        return false;
    for (uint8_t i = 0; i < *count; i++) {
        columns[i].content = cursor_uleb(cursor);
        columns[i].form = cursor_uleb(cursor);
    }
    return !cursor->failed;
}

/* Reads a string, which is inline, in .debug_str or in .debug_line_str. */
static const char *read_path(struct dwarf_lines *lines, struct cursor *cursor, uint64_t form) {
    struct dwarf_unit unit = *lines->unit;
    unit.shape = lines->shape;
    if (form == FORM_string)
        return cursor_text(cursor);
    struct dwarf_value value = {dwarf_form_read(&unit, cursor, form), (uint16_t)form};
    const char *path = dwarf_value_string(&unit, value);
    return path ? path : "";
}

static void read_entry(struct dwarf_lines *lines, struct cursor *cursor,
                       const struct column *columns, uint8_t column_count, struct entry *entry) {
    struct dwarf_unit unit = {.file = lines->unit->file, .shape = lines->shape};
    *entry = (struct entry){"", 0};
    for (uint8_t i = 0; i < column_count; i++) {
        if (columns[i].content == LNCT_path)
            entry->path = read_path(lines, cursor, columns[i].form);
        else if (columns[i].content == LNCT_directory_index)
            entry->directory = dwarf_form_read(&unit, cursor, columns[i].form);
        else
            dwarf_form_read(&unit, cursor, columns[i].form);
    }
}

static bool read_table(struct dwarf_lines *lines, struct cursor *cursor, bool of_files) {
    struct column columns[MAX_COLUMNS];
    uint8_t column_count;
    if (!read_columns(cursor, columns, &column_count))
        return false;
    uint64_t count = cursor_uleb(cursor);
    if (count > cursor_left(cursor) && column_count > 0)
        return false;
    for (uint64_t i = 0; i < count && !cursor->failed; i++) {
        struct entry entry;
        read_entry(lines, cursor, columns, column_count, &entry);
        if (!(of_files ? add_source(lines, entry.path, entry.directory)
                       : add_directory(lines, entry.path)))
            return false;
    }
    return !cursor->failed;
}

bool dwarf_lines_read_files(struct dwarf_lines *lines, struct cursor *cursor) {
    lines->directory_count = 0;
    lines->source_count = 0;
    if (lines->shape.version < 5)
        return read_old_files(lines, cursor);
    return read_table(lines, cursor, false) && read_table(lines, cursor, true);
}

/* --- paths ------------------------------------------------------------------------------------ */

/* Appends a part of a path. If it does not fit, the path becomes unknown. */
static void push(char *path, size_t size, const char *part) {
    size_t len = strlen(path);
    if (part[0] == 0)
        return;
    const char *slash = len > 0 && path[len - 1] != '/' ? "/" : "";
    if (snprintf(path + len, size - len, "%s%s", slash, part) >= (int)(size - len))
        path[0] = 0;
}

/* Each part is relative to the one before: the compiler's directory, the first directory, the
 * file's directory, its name. The path begins with the last absolute part. */
static uint32_t add_path(struct dwarf_lines *lines, const struct dwarf_source *source,
                         struct line_table_builder *builder) {
    const char *first = lines->directory_count > 0 ? lines->directories[0] : "";
    const char *own = source->directory > 0 && source->directory < lines->directory_count
                          ? lines->directories[source->directory]
                          : "";
    const char *parts[] = {lines->compiled_in, strcmp(first, lines->compiled_in) ? first : "", own,
                           source->name};
    char path[PATH_MAX] = "";
    int begin = 0;
    for (int i = 0; i < 4; i++)
        begin = parts[i][0] == '/' ? i : begin;
    for (int i = begin; i < 4 && source->name[0]; i++)
        push(path, sizeof path, parts[i]);
    return line_table_add_file(builder, path);
}

uint32_t dwarf_lines_file(struct dwarf_lines *lines, uint64_t index,
                          struct line_table_builder *builder) {
    if (index >= lines->source_count)
        return line_table_add_file(builder, "");
    struct dwarf_source *source = &lines->sources[index];
    if (source->file == DWARF_NO_FILE)
        source->file = add_path(lines, source, builder);
    return source->file;
}
