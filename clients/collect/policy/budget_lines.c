/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/policy/budget_lines.h"

#include "api/text/wildcard.h"

#include "api/text/utf8.h"

#include <stdlib.h>
#include <string.h>

/* Where the reader is, and what it says about mistakes. */
struct reader {
    const char *name;
    unsigned line;
    const char *at; /* in the line, which ends with a zero byte */
    struct sonde_diag *diag;
};

static sonde_err refuse(const struct reader *reader, const char *found, const char *instead) {
    return sonde_fail(reader->diag, SONDE_INVALID_ARGUMENT, "%.120s:%u: \"%.60s\": %s",
                      reader->name, reader->line, found, instead);
}

static void skip_blanks(struct reader *reader) {
    reader->at += strspn(reader->at, " \t\r");
}

static bool is_at_end(const struct reader *reader) {
    return *reader->at == 0 || *reader->at == '#';
}

/* A word up to the next blank, or in double quotes. */
static sonde_err read_name(struct reader *reader, char *name, size_t size) {
    const char *start = reader->at;
    bool is_quoted = *reader->at == '"';
    size_t len = 0;
    reader->at += is_quoted;
    while (*reader->at && (is_quoted ? *reader->at != '"' : !strchr(" \t\r", *reader->at))) {
        if (is_quoted && *reader->at == '\\' && reader->at[1])
            reader->at++;
        if (len + 1 == size)
            return refuse(reader, start, "a service's name has at most 255 bytes");
        name[len++] = *reader->at++;
    }
    name[len] = 0;
    if (is_quoted && (*reader->at != '"' || (reader->at[1] && !strchr(" \t\r", reader->at[1]))))
        return refuse(reader, start, "end the name with a double quote and a space");
    reader->at += is_quoted;
    if (len == 0)
        return refuse(reader, start, "write a service's name, or * for all");
    return SONDE_OK;
}

/* A word without quotes; longer ones are cut, and then wrong. */
static void read_word(struct reader *reader, char *word, size_t size) {
    size_t len = strcspn(reader->at, " \t\r");
    size_t kept = len < size ? len : size - 1;
    memcpy(word, reader->at, kept);
    word[kept] = 0;
    reader->at += len;
}

static bool read_number(const char *digits, uint64_t max, uint64_t *number) {
    *number = 0;
    for (const char *digit = digits; *digit; digit++) {
        if (*digit < '0' || *digit > '9')
            return false;
        *number = *number * 10 + (uint64_t)(*digit - '0');
        if (*number > max)
            return false;
    }
    return *digits != 0;
}

static bool read_share(const char *text, double *share) {
    char *end;
    if (strspn(text, "0123456789.") != strlen(text) || !*text)
        return false;
    *share = strtod(text, &end);
    return *end == 0 && *share >= BUDGET_MIN_P && *share <= 1;
}

static sonde_err read_option(struct reader *reader, struct budget_line *line) {
    char word[64];
    uint64_t hz;
    read_word(reader, word, sizeof word);
    if (strncmp(word, "hz=", 3) == 0) {
        if (!read_number(word + 3, BUDGET_MAX_HZ, &hz) || hz == 0)
            return refuse(reader, word, "write hz=N, N from 1 to 999");
        line->frequency_hz = (uint32_t)hz;
        return SONDE_OK;
    }
    if (strncmp(word, "start=", 6) == 0)
        return read_share(word + 6, &line->start)
                   ? SONDE_OK
                   : refuse(reader, word, "write start=P, P from 0.0001 to 1");
    return refuse(reader, word, "after the samples per hour only hz=N and start=P may follow");
}

static sonde_err read_line(struct reader *reader, struct budget_line *line) {
    char word[64];
    *line = (struct budget_line){.start = 1};
    sonde_err err = read_name(reader, line->pattern, sizeof line->pattern);
    if (err)
        return err;
    skip_blanks(reader);
    read_word(reader, word, sizeof word);
    if (strcmp(word, "none") == 0)
        line->samples_per_hour = BUDGET_UNLIMITED;
    else if (!read_number(word, BUDGET_MAX_SAMPLES, &line->samples_per_hour))
        return refuse(reader, word,
                      "write SERVICE SAMPLES_PER_HOUR, a number up to 1000000000000 or none");
    for (skip_blanks(reader); !is_at_end(reader) && !err; skip_blanks(reader))
        err = read_option(reader, line);
    return err;
}

static sonde_err add_line(struct reader *reader, struct budget_lines *lines) {
    skip_blanks(reader);
    if (is_at_end(reader))
        return SONDE_OK;
    if (!sonde_utf8_is_valid(reader->at, strlen(reader->at)))
        return refuse(reader, "...", "not UTF-8; save the file as UTF-8");
    if (lines->count == BUDGET_MAX_LINES)
        return refuse(reader, reader->at, "at most 99 lines may have a service; use *");
    return read_line(reader, &lines->lines[lines->count++]);
}

sonde_err budget_lines_read(const char *text, const char *name, struct budget_lines *lines,
                            struct sonde_diag *diag) {
    char line[BUDGET_MAX_LINE + 1];
    struct reader reader = {.name = name, .diag = diag};
    sonde_err err = SONDE_OK;
    lines->count = 0;
    if (text && strnlen(text, BUDGET_MAX_TEXT + 1) > BUDGET_MAX_TEXT)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "%.120s: a budget file has at most 1 MiB; use * in names", name);
    while (text && *text && !err) {
        size_t len = strcspn(text, "\n");
        reader.line++;
        if (len > BUDGET_MAX_LINE)
            return refuse(&reader, "...", "a line has at most 1,023 bytes");
        memcpy(line, text, len);
        line[len] = 0;
        reader.at = line;
        err = add_line(&reader, lines);
        text += len + (text[len] != 0);
    }
    lines->lines[lines->count++] =
        (struct budget_line){.pattern = "*", .samples_per_hour = BUDGET_UNLIMITED, .start = 1};
    return err;
}

size_t budget_lines_find(const struct budget_lines *lines, const char *name) {
    for (size_t i = 0; i + 1 < lines->count; i++)
        if (sonde_wildcard_matches(lines->lines[i].pattern, name))
            return i;
    return lines->count - 1;
}
