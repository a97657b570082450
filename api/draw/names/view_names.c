/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/names/view_names.h"

#include "api/draw/names/readable_name.h"
#include "api/draw/short_name.h"
#include "api/text/utf8.h"

#include <stdlib.h>
#include <string.h>

#define DOTS  "..."
#define LEAST 16 /* columns for dots, a difference and dots */

enum detail { WITHOUT_PARAMETERS, WITH_PARAMETERS, FULL };

struct view_name {
    const char *full, *shown;
    size_t index;
    enum detail detail;
};

static int by_shown(const void *a, const void *b) {
    const struct view_name *x = a, *y = b;
    int order = strcmp(x->shown, y->shown);
    return order ? order : strcmp(x->full, y->full);
}

static const char *keep(struct sonde_arena *arena, const struct sonde_buf *text) {
    struct sonde_slice slice = sonde_buf_slice(text);
    return text->failed ? NULL : sonde_arena_dup(arena, slice.data, slice.len);
}

/* Most names of C have none of these. */
static bool may_change(const char *name) {
    return strpbrk(name, "<([:") || strncmp(name, "execute_", 8) == 0;
}

static bool set_shown(struct view_name *name, enum detail detail, struct sonde_arena *arena,
                      struct sonde_buf *text) {
    name->detail = detail;
    name->shown = name->full;
    if (detail == FULL || !may_change(name->full))
        return true;
    text->len = 0;
    draw_readable_name(text, name->full, detail == WITH_PARAMETERS);
    if (!text->failed && strcmp(sonde_buf_slice(text).data, name->full) != 0)
        name->shown = keep(arena, text);
    return !text->failed && name->shown;
}

/* The end of the names that are shown like names[start]. */
static size_t end_of_equal(const struct view_name *names, size_t count, size_t start) {
    size_t end = start + 1;
    while (end < count && strcmp(names[end].shown, names[start].shown) == 0)
        end++;
    return end;
}

/* Whether equal names, which are sorted, are of several functions. */
static bool are_several(const struct view_name *names, size_t start, size_t end) {
    return strcmp(names[start].full, names[end - 1].full) != 0;
}

/* Shows more of functions that look equal. Stores whether any did. */
static bool add_detail(struct view_name *names, size_t count, struct sonde_arena *arena,
                       bool *has_changed) {
    struct sonde_buf text = {0};
    bool is_done = true;
    *has_changed = false;
    qsort(names, count, sizeof *names, by_shown);
    for (size_t start = 0, end; start < count && is_done; start = end) {
        end = end_of_equal(names, count, start);
        for (size_t i = start; are_several(names, start, end) && i < end && is_done; i++) {
            if (names[i].detail == FULL)
                continue;
            is_done = set_shown(&names[i], names[i].detail + 1, arena, &text);
            *has_changed = true;
        }
    }
    sonde_buf_finish(&text);
    return is_done;
}

static bool choose_names(struct view_name *names, size_t count, struct sonde_arena *arena) {
    struct sonde_buf text = {0};
    bool is_done = true, has_changed = count > 0;
    for (size_t i = 0; i < count && is_done; i++)
        is_done = set_shown(&names[i], WITHOUT_PARAMETERS, arena, &text);
    sonde_buf_finish(&text);
    while (is_done && has_changed)
        is_done = add_detail(names, count, arena, &has_changed);
    return is_done;
}

static struct view_name *copy_names(const char *const *names, size_t count) {
    struct view_name *copy = calloc(count + 1, sizeof *copy);
    for (size_t i = 0; copy && i < count; i++)
        copy[i] = (struct view_name){.full = names[i], .index = i};
    return copy;
}

sonde_err draw_view_names(const char *const *names, size_t count, struct sonde_arena *arena,
                          const char **shown) {
    struct view_name *view = copy_names(names, count);
    bool is_done = view && choose_names(view, count, arena);
    for (size_t i = 0; i < count && is_done; i++)
        shown[view[i].index] = view[i].shown;
    free(view);
    return is_done ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

/* ---- Rows ---- */

static size_t width(const char *text, size_t len) {
    size_t count = 0;
    for (size_t i = 0; i < len; i++)
        count += !sonde_utf8_continues(text[i]);
    return count;
}

/* The length of the first `columns` characters. */
static size_t length_of(const char *text, size_t columns) {
    size_t len = 0;
    while (text[len] && (columns > 0 || sonde_utf8_continues(text[len])))
        columns -= !sonde_utf8_continues(text[len++]);
    return len;
}

/* "parse(...": what comes before the parameters, without namespaces; no more than half of the
 * columns. */
static size_t put_function(struct sonde_buf *out, const char *name, size_t end, size_t columns) {
    const char *open = memchr(name, '(', end);
    size_t stop = open ? (size_t)(open - name) + 1 : 0, start = stop;
    while (start > 0 && (name[start - 1] != ':' || start == stop))
        start--;
    if (!open || width(name + start, stop - start) > columns / 2)
        return 0;
    sonde_buf_append(out, name + start, stop - start);
    return width(name + start, stop - start);
}

/* Names that begin with the same `same` bytes: "parse(...long, int)", "parse(...char)". */
static void put_difference(struct sonde_buf *out, const char *name, size_t same, size_t columns) {
    size_t dots = sizeof DOTS - 1;
    size_t room = columns - put_function(out, name, same, columns) - dots, len = strlen(name);
    while (same > 0 && width(name + same - 1, len - same + 1) <= room)
        same--; /* the end fits, with some of what is before */
    while (same > 0 && sonde_utf8_continues(name[same]))
        same++;
    sonde_buf_puts(out, DOTS);
    bool fits = width(name + same, len - same) <= room;
    sonde_buf_append(out, name + same, length_of(name + same, fits ? room : room - dots));
    if (!fits)
        sonde_buf_puts(out, DOTS);
}

static const char *fit(const char *name, size_t columns, struct sonde_arena *arena,
                       struct sonde_buf *text) {
    text->len = 0;
    draw_short_name(text, name, columns);
    return keep(arena, text);
}

/* Shows where names differ that look equal. */
static bool differ(struct view_name *names, size_t count, size_t columns,
                   struct sonde_arena *arena) {
    struct sonde_buf text = {0};
    bool is_done = true;
    qsort(names, count, sizeof *names, by_shown);
    for (size_t start = 0, end; start < count && is_done; start = end) {
        const char *first = names[start].full;
        size_t same = 0;
        end = end_of_equal(names, count, start);
        while (first[same] && first[same] == names[end - 1].full[same])
            same++;
        for (size_t i = start; are_several(names, start, end) && i < end && is_done; i++) {
            text.len = 0;
            put_difference(&text, names[i].full, same, columns);
            names[i].shown = keep(arena, &text);
            is_done = names[i].shown != NULL;
        }
    }
    sonde_buf_finish(&text);
    return is_done;
}

static sonde_err fit_names(const char **shown, size_t count, size_t columns,
                           struct sonde_arena *arena) {
    struct view_name *names = copy_names(shown, count);
    struct sonde_buf text = {0};
    bool is_done = names != NULL;
    for (size_t i = 0; i < count && is_done; i++) {
        names[i].shown = fit(shown[i], columns, arena, &text);
        is_done = names[i].shown != NULL;
    }
    is_done = is_done && differ(names, count, columns, arena);
    for (size_t i = 0; i < count && is_done; i++)
        shown[names[i].index] = names[i].shown;
    free(names);
    sonde_buf_finish(&text);
    return is_done ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

sonde_err draw_row_names(const char *const *names, size_t count, size_t columns,
                         struct sonde_arena *arena, const char **shown) {
    sonde_err err = draw_view_names(names, count, arena, shown);
    if (err || columns == 0)
        return err;
    return fit_names(shown, count, columns < LEAST ? LEAST : columns, arena);
}
