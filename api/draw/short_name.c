/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/short_name.h"

#include "api/text/utf8.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define DOTS         "..."
#define LEAST        8
#define MAX_UNCLOSED 8

static size_t width(const char *text) {
    size_t count = 0;
    for (; *text; text++)
        count += !sonde_utf8_continues(*text);
    return count;
}

/* Whether the bracket at `at` belongs to the name of a C++ operator: "operator<<", "operator()". */
static bool is_operator(const char *name, size_t at) {
    static const char word[] = "operator";
    const size_t len = sizeof word - 1, most = name[at] == '(' ? 0 : 2;
    for (size_t back = 0; back <= most && at >= back + len; back++) {
        if (strncmp(name + at - back - len, word, len) == 0)
            return true;
        if (!strchr("<>=-", name[at - back - 1]))
            return false;
    }
    return false;
}

static bool is_word(char byte) {
    return isalnum((unsigned char)byte) || byte == '_' || (byte & 0x80);
}

/* Whether a group begins here whose contents may be left out. Groups at the beginning of the name
 * (Rust's "<T as Trait>") and receivers ("main.(*Server).serve" of Go) say what the function is. */
static bool begins_group(const char *name, size_t at, char open) {
    static const char anonymous[] = "(anonymous namespace)";
    if (name[at] != open || at == 0 || is_operator(name, at))
        return false;
    if (open == '[')
        return is_word(name[at - 1]);
    return open == '<' || (name[at - 1] != '.' && name[at - 1] != ' ' &&
                           strncmp(name + at, anonymous, sizeof anonymous - 1) != 0);
}

/* The closing bracket of the group that begins at `at`; 0 if it is not closed. */
static size_t end_of_group(const char *name, size_t at, char open, char close) {
    size_t depth = 1;
    for (size_t i = at + 1; name[i]; i++) {
        if ((name[i] != open && name[i] != close) || is_operator(name, i))
            continue;
        if (name[i] == close && name[i - 1] == '-')
            continue; /* "->" */
        depth += name[i] == open ? 1 : -1ul;
        if (depth == 0)
            return i;
    }
    return 0;
}

/* Replaces the contents of the outermost groups, in place. A hostile name may have many groups that
 * are not closed, so only some are looked for. */
static void leave_out(char *name, char open, char close) {
    size_t to = 0, unclosed = 0;
    for (size_t from = 0; name[from]; from++) {
        bool begins = unclosed < MAX_UNCLOSED && begins_group(name, from, open);
        size_t end = begins ? end_of_group(name, from, open, close) : 0;
        unclosed += begins && !end;
        name[to++] = name[from];
        if (end <= from + sizeof DOTS)
            continue;
        memcpy(name + to, DOTS, sizeof DOTS - 1);
        to += sizeof DOTS - 1;
        from = end - 1;
    }
    name[to] = 0;
}

/* Appends the last characters of the name. */
static void put_end(struct sonde_buf *out, const char *name, size_t columns) {
    size_t skipped = width(name) - (columns - (sizeof DOTS - 1));
    sonde_buf_puts(out, DOTS);
    for (; *name && (skipped > 0 || sonde_utf8_continues(*name)); name++)
        skipped -= !sonde_utf8_continues(*name);
    sonde_buf_puts(out, name);
}

void draw_short_name(struct sonde_buf *out, const char *name, size_t columns) {
    static const char groups[][2] = {{'(', ')'}, {'<', '>'}, {'[', ']'}};
    columns = columns < LEAST ? LEAST : columns;
    if (width(name) <= columns) {
        sonde_buf_puts(out, name);
        return;
    }
    char *copy = strdup(name);
    if (!copy) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < sizeof groups / sizeof *groups && width(copy) > columns; i++)
        leave_out(copy, groups[i][0], groups[i][1]);
    if (width(copy) <= columns)
        sonde_buf_puts(out, copy);
    else
        put_end(out, copy, columns);
    free(copy);
}
