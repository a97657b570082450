/* SPDX-License-Identifier: Apache-2.0
 *
 * The text form: ADDRESS [name=NAME] [tls-name=NAME] [KEY=VALUE ...], # comments. A value with
 * spaces is in double quotes, with \" and \\. */
#include "clients/collect/discovery/host_list.h"

#include <stdio.h>
#include <string.h>

#define BLANKS " \t\r"

/* One line, which ends with a zero byte. */
struct line {
    char *at;
    struct discovered_host host;
    struct discovered_label labels[HOST_LIST_MAX_LABELS + 1];
};

static sonde_err refuse(struct sonde_diag *diag, const char *found, const char *instead) {
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "\"%.80s\": %s", found, instead);
}

static bool is_at_end(struct line *line) {
    line->at += strspn(line->at, BLANKS);
    return *line->at == 0 || *line->at == '#';
}

/* Cuts off a word that ends at a blank. */
static char *take_word(struct line *line) {
    char *word = line->at;
    line->at += strcspn(line->at, BLANKS);
    if (*line->at)
        *line->at++ = 0;
    return word;
}

/* Cuts off a value in double quotes; NULL if it does not end, or something follows. */
static char *take_quoted(struct line *line) {
    char *start = ++line->at, *end = start;
    for (; *line->at && *line->at != '"'; line->at++) {
        if (*line->at == '\\' && line->at[1])
            line->at++;
        *end++ = *line->at;
    }
    if (*line->at != '"' || (line->at[1] && !strchr(BLANKS, line->at[1])))
        return NULL;
    line->at++;
    *end = 0;
    return start;
}

static sonde_err set(struct line *line, const char *key, const char *value,
                     struct sonde_diag *diag) {
    struct discovered_host *host = &line->host;
    const char **place = strcmp(key, "name") == 0       ? &host->name
                         : strcmp(key, "tls-name") == 0 ? &host->tls_name
                                                        : NULL;
    if (place) {
        if (*place)
            return refuse(diag, key, "this is given twice");
        *place = value;
        return SONDE_OK;
    }
    if (strncmp(key, "__", 2) == 0)
        return refuse(diag, key, "labels whose names begin with __ are reserved");
    if (host->label_count > HOST_LIST_MAX_LABELS - 1)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "a host has at most %d labels",
                          HOST_LIST_MAX_LABELS);
    line->labels[host->label_count++] = (struct discovered_label){key, value};
    return SONDE_OK;
}

static sonde_err read_pair(struct line *line, struct sonde_diag *diag) {
    char *key = line->at, *value;
    size_t len = strcspn(key, BLANKS "=");
    if (len == 0 || key[len] != '=')
        return refuse(diag, take_word(line),
                      "after the address write name=NAME, tls-name=NAME or KEY=VALUE");
    key[len] = 0;
    line->at = key + len + 1;
    value = *line->at == '"' ? take_quoted(line) : take_word(line);
    if (!value)
        return refuse(diag, key, "end the value with a double quote and a space");
    return set(line, key, value, diag);
}

static sonde_err read_line(struct host_list *list, struct line *line, struct sonde_diag *diag) {
    line->host = (struct discovered_host){0};
    if (is_at_end(line))
        return SONDE_OK;
    line->host.address = take_word(line);
    sonde_err err = SONDE_OK;
    while (!err && !is_at_end(line))
        err = read_pair(line, diag);
    if (!err)
        err =
            host_list_labels(list, line->labels, line->host.label_count, &line->host.labels, diag);
    return err ? err : host_list_add(list, &line->host, diag);
}

sonde_err host_list_read_text(struct host_list *list, const char *place, char *text, size_t len,
                              struct sonde_diag *diag) {
    struct line line;
    struct sonde_diag found = {0};
    unsigned number = 0;
    sonde_err err = SONDE_OK;
    if (memchr(text, 0, len))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "%.120s: the file has zero bytes; write text or JSON", place);
    while (*text && !err) {
        char *end = text + strcspn(text, "\n");
        bool is_last = *end == 0;
        *end = 0;
        line.at = text;
        number++;
        err = read_line(list, &line, &found);
        text = is_last ? end : end + 1;
    }
    return err ? sonde_fail(diag, err, "%.120s:%u: %s", place, number, found.text) : SONDE_OK;
}
