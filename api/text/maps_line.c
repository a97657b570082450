/* SPDX-License-Identifier: Apache-2.0 */
#include "api/text/maps_line.h"

struct text {
    const char *at, *end;
};

static bool is_blank(char byte) {
    return byte == ' ' || byte == '\t';
}

static void skip_blanks(struct text *text) {
    while (text->at < text->end && is_blank(*text->at))
        text->at++;
}

static unsigned digit(char byte) {
    if (byte >= '0' && byte <= '9')
        return (unsigned)(byte - '0');
    byte |= 0x20;
    return byte >= 'a' && byte <= 'f' ? (unsigned)(byte - 'a') + 10 : 16;
}

static bool take_number(struct text *text, unsigned base, uint64_t limit, uint64_t *number) {
    const char *first = text->at;
    *number = 0;
    for (; text->at < text->end && digit(*text->at) < base; text->at++) {
        unsigned value = digit(*text->at);
        if (*number > (limit - value) / base)
            return false;
        *number = *number * base + value;
    }
    return text->at > first;
}

static bool take_byte(struct text *text, char byte) {
    return text->at < text->end && *text->at++ == byte;
}

static bool take_blanks(struct text *text) {
    const char *first = text->at;
    skip_blanks(text);
    return text->at > first;
}

/* "r-xp" */
static bool take_permissions(struct text *text, struct sonde_maps_line *line) {
    const char *at = text->at;
    if (text->end - at < 4)
        return false;
    line->is_readable = at[0] == 'r';
    line->is_writable = at[1] == 'w';
    line->is_executable = at[2] == 'x';
    line->is_shared = at[3] == 's';
    text->at += 4;
    return true;
}

static bool take_device(struct text *text, struct sonde_maps_line *line) {
    uint64_t major, minor;
    if (!take_number(text, 16, UINT32_MAX, &major) || !take_byte(text, ':') ||
        !take_number(text, 16, UINT32_MAX, &minor))
        return false;
    line->device_major = (uint32_t)major;
    line->device_minor = (uint32_t)minor;
    return true;
}

bool sonde_maps_line_parse(const char *text, size_t len, struct sonde_maps_line *line) {
    struct text rest = {text, text + len};
    if (len > 0 && rest.end[-1] == '\n')
        rest.end--;
    skip_blanks(&rest);
    if (!take_number(&rest, 16, UINT64_MAX, &line->start) || !take_byte(&rest, '-') ||
        !take_number(&rest, 16, UINT64_MAX, &line->end) || !take_blanks(&rest) ||
        !take_permissions(&rest, line) || !take_blanks(&rest) ||
        !take_number(&rest, 16, UINT64_MAX, &line->offset) || !take_blanks(&rest) ||
        !take_device(&rest, line) || !take_blanks(&rest) ||
        !take_number(&rest, 10, UINT64_MAX, &line->inode))
        return false;
    if (rest.at < rest.end && !take_blanks(&rest))
        return false;
    line->path = rest.at;
    line->path_len = (size_t)(rest.end - rest.at);
    return line->start < line->end;
}

bool sonde_maps_line_has_path(const struct sonde_maps_line *line, const char *path) {
    size_t at = 0;
    while (at < line->path_len && path[at] && path[at] == line->path[at])
        at++;
    return at == line->path_len && path[at] == 0;
}

size_t sonde_maps_path_len(const char *path, size_t len) {
    static const char deleted[] = " (deleted)";
    size_t tail = sizeof deleted - 1;
    for (size_t i = 0; i < tail; i++)
        if (len <= tail || path[len - tail + i] != deleted[i])
            return len;
    return len - tail;
}
