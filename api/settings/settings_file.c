/* SPDX-License-Identifier: Apache-2.0 */
#include "api/settings/settings_file.h"

#include "api/text/nearest.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])
#define MAX_NAME        40
#define NAME_LETTERS    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

/* Of all programs, so that each of them knows the others' settings. */
static const char *const names[] = {
    "captures",
    "captures-mib",
    "collect-max-hz",
    "collect-mib",
    "controller",
    "data-dir",
    "debuginfod",
    "enable-heap-profiling",
    "everybody",
    "export-queue-mib",
    "grace",
    "grace-ms",
    "grpc",
    "grpc-group",
    "heap-dumps",
    "history",
    "history-guests",
    "history-hz",
    "history-keep",
    "history-mib",
    "history-off-cpu",
    "history-off-cpu-ms",
    "host-name",
    "http",
    "insecure",
    "keep",
    "listen",
    "loopback",
    "max-connections",
    "metric-function",
    "mib",
    "no-collect",
    "otlp",
    "otlp-ca",
    "otlp-cert",
    "otlp-header",
    "otlp-header-file",
    "otlp-key",
    "pyroscope",
    "pyroscope-ca",
    "pyroscope-header",
    "pyroscope-header-file",
    "quiet",
    "redact-arguments",
    "redact-command-line",
    "register",
    "register-ca",
    "register-cert",
    "register-key",
    "register-name",
    "register-token-file",
    "sampler",
    "service",
    "service-ca",
    "service-cert",
    "service-key",
    "socket",
    "source",
    "speedscope",
    "store",
    "symbols",
    "target",
    "tls-cert",
    "tls-client-ca",
    "tls-client-name",
    "tls-key",
    "token",
    "token-everywhere",
    "token-file",
    "upload-mib",
    "verbose",
    "watch",
    "watch-webhook",
    "workers",
};

/* What GreptimeDB keeps in this section, and what belongs to it. */
static const char *const memory_names[] = {"enable-heap-profiling", "heap-dumps"};

/* The sections. All but the first are names of programs, each of which checks its own. */
static const char *const sections[] = {"memory", "sonded", "sonde-gateway", "sonde-history",
                                       "sonde"};

const char *const *sonde_setting_names(size_t *count) {
    *count = COUNT_OF(names);
    return names;
}

/* Where the reader is. section NULL: before the first one. */
struct place {
    const struct sonde_settings_reader *reader;
    struct sonde_diag *diag;
    const char *section;
    bool has_underscores; /* the line writes its name as TOML files do */
    char text[200];       /* "FILE:LINE: " */
};

static char *trim(char *text) {
    while (isspace((unsigned char)*text))
        text++;
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1]))
        *--end = 0;
    return text;
}

static bool lists(const char *const *list, size_t count, const char *word, size_t *at) {
    for (*at = 0; *at < count; ++*at)
        if (strcmp(list[*at], word) == 0)
            return true;
    return false;
}

/* The name as this line would write it, so that a message can be searched for in the file. */
static const char *spell(const struct place *place, const char *name, char spelled[MAX_NAME + 1]) {
    snprintf(spelled, MAX_NAME + 1, "%s", name);
    for (char *at = spelled; place->has_underscores && *at; at++)
        *at = *at == '-' ? '_' : *at;
    return spelled;
}

static sonde_err unknown(const struct place *place, const char *what, const char *word,
                         const char *const *list, size_t count) {
    char spelled[MAX_NAME + 1], near[MAX_NAME + 1];
    const char *nearest = sonde_nearest(word, list, count);
    bool is_memory = list == memory_names;
    return sonde_fail(place->diag, SONDE_INVALID_ARGUMENT, "%s%.40s: unknown %s%s%s%s%s",
                      place->text, spell(place, word, spelled), what,
                      is_memory ? " of [memory]" : "",
                      nearest ? "; did you mean " : "; sonded(8) lists them",
                      nearest ? spell(place, nearest, near) : "", nearest ? "?" : "");
}

static sonde_err read_section(struct place *place, char *line) {
    size_t at;
    char *end = strchr(line, ']'), *rest = end ? trim(end + 1) : line;
    if (*rest && *rest != '#')
        return sonde_fail(place->diag, SONDE_INVALID_ARGUMENT, "%s%.40s: write [SECTION]",
                          place->text, line);
    *end = 0;
    char *name = trim(line + 1);
    if (!lists(sections, COUNT_OF(sections), name, &at))
        return unknown(place, "section", name, sections, COUNT_OF(sections));
    place->section = sections[at];
    return SONDE_OK;
}

/* The value after '=', without quotes and comment; NULL if it is malformed. */
static char *read_value(char *text) {
    text = trim(text);
    if (*text != '"') {
        text[strcspn(text, "#")] = 0;
        return trim(text);
    }
    char *end = strchr(text + 1, '"');
    const char *rest = end ? end + 1 + strspn(end + 1, " \t") : "?";
    if (*rest && *rest != '#')
        return NULL;
    *end = 0;
    return text + 1;
}

static sonde_err set(struct place *place, const char *name, const char *value) {
    const struct sonde_settings_reader *reader = place->reader;
    bool is_memory = place->section && strcmp(place->section, "memory") == 0;
    const char *const *list = is_memory ? memory_names : names;
    size_t count = is_memory ? COUNT_OF(memory_names) : COUNT_OF(names), ours, at;
    if (place->section && !is_memory && strcmp(place->section, reader->program) != 0)
        return SONDE_OK;
    bool is_ours = lists(reader->names, reader->count, name, &ours);
    if (!lists(list, count, name, &at) && (is_memory || !is_ours))
        return unknown(place, "setting", name, list, count);
    return is_ours ? reader->set(reader->context, ours, place->text, value) : SONDE_OK;
}

static sonde_err read_line(struct place *place, char *line) {
    char name[MAX_NAME + 1];
    line = trim(line);
    if (*line == 0 || *line == '#')
        return SONDE_OK;
    place->has_underscores = false;
    if (*line == '[')
        return read_section(place, line);
    size_t len = strspn(line, NAME_LETTERS);
    char *equals = line + len + strspn(line + len, " \t");
    char *value = *equals == '=' && len > 0 && len <= MAX_NAME ? read_value(equals + 1) : NULL;
    if (!value)
        return sonde_fail(place->diag, SONDE_INVALID_ARGUMENT,
                          "%s\"%.40s\": write NAME = VALUE, [SECTION] or # COMMENT", place->text,
                          line);
    place->has_underscores = memchr(line, '_', len) != NULL;
    for (size_t i = 0; i < len; i++)
        name[i] = line[i] == '_' ? '-' : line[i];
    name[len] = 0;
    return set(place, name, value);
}

sonde_err sonde_settings_read(FILE *file, const char *path,
                              const struct sonde_settings_reader *reader, struct sonde_diag *diag) {
    char line[SONDE_SETTINGS_MAX_LINE + 2];
    struct place place = {.reader = reader, .diag = diag};
    sonde_err err = SONDE_OK;
    for (int number = 1; !err && fgets(line, sizeof line, file); number++) {
        snprintf(place.text, sizeof place.text, "%.170s:%d: ", path, number);
        if (!strchr(line, '\n') && !feof(file))
            return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                              "%sline too long; the limit is %d bytes", place.text,
                              SONDE_SETTINGS_MAX_LINE);
        err = read_line(&place, line);
    }
    if (!err && ferror(file))
        err = sonde_fail_os(diag, errno, "cannot read %.170s", path);
    return err;
}
