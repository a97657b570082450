/* SPDX-License-Identifier: Apache-2.0
 *
 * The file is read first, then the environment, then the flags, so that each overrides the one
 * before. set_value gets the place a value comes from, for the error text. Each line or flag of a
 * list adds to it, but the first one discards what was there: the default, and with a flag the
 * values of the file and the environment. */
#include "api/settings/options.h"

#include "api/settings/settings_file.h"
#include "api/text/nearest.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG_FILE "/etc/sonde.conf"
#define MAX_OPTIONS 64

struct reading {
    const struct sonde_options *options;
    char *settings;
    bool from_flag[MAX_OPTIONS];
    struct sonde_diag *diag;
};

static sonde_err bad_duration(struct reading *reading, const struct sonde_option *option,
                              const char *place, const char *value) {
    double unit = option->kind == SONDE_OPTION_MILLISECONDS ? 1000 : 1;
    return sonde_fail(reading->diag, SONDE_INVALID_ARGUMENT,
                      "%s%s: \"%.64s\" is not a duration from %g to %g s, such as 500ms, 5s or 2m",
                      place, option->name, value, option->low / unit, option->high / unit);
}

static sonde_err bad_value(struct reading *reading, const struct sonde_option *option,
                           const char *place, const char *value) {
    if (option->kind == SONDE_OPTION_FLAG)
        return sonde_fail(reading->diag, SONDE_INVALID_ARGUMENT, "%s%s: \"%.64s\" is not yes or no",
                          place, option->name, value);
    if (option->kind == SONDE_OPTION_SECONDS || option->kind == SONDE_OPTION_MILLISECONDS)
        return bad_duration(reading, option, place, value);
    return sonde_fail(reading->diag, SONDE_INVALID_ARGUMENT,
                      "%s%s: \"%.64s\" is not a %snumber from %.12g to %.12g", place, option->name,
                      value, option->kind == SONDE_OPTION_NUMBER ? "whole " : "", option->low,
                      option->high);
}

static bool read_flag(const char *value, bool *flag) {
    static const char *const words[] = {"1", "true", "yes", "on", "0", "false", "no", "off"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasecmp(value, words[i]) == 0) {
            *flag = i < 4;
            return true;
        }
    return false;
}

static bool read_number(const struct sonde_option *option, const char *value, uint64_t *number) {
    if (!isdigit((unsigned char)value[0]))
        return false;
    char *end;
    errno = 0;
    *number = strtoull(value, &end, 10);
    return *end == 0 && errno == 0 && (double)*number >= option->low &&
           (double)*number <= option->high;
}

static bool read_decimal(const struct sonde_option *option, const char *value, double *number) {
    if (!isdigit((unsigned char)value[0]) && value[0] != '.')
        return false;
    char *end;
    *number = strtod(value, &end);
    return *end == 0 && *number >= option->low && *number <= option->high;
}

/* Reads a number and its unit; without a unit it is of `plain` seconds. Returns what follows; NULL
 * if there is no number. */
static const char *read_part(const char *text, double plain, double *seconds) {
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"ms", 1e-3}, {"us", 1e-6}, {"s", 1}, {"min", 60}, {"m", 60}, {"h", 3600}};
    char *end;
    if (!isdigit((unsigned char)text[0]) && text[0] != '.')
        return NULL;
    double number = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        size_t len = strlen(units[i].name);
        if (strncmp(end, units[i].name, len) == 0) {
            *seconds += number * units[i].seconds;
            return end + len;
        }
    }
    *seconds += number * plain;
    return *end ? NULL : end;
}

/* Stores the duration in the option's unit. */
static bool read_duration(const struct sonde_option *option, const char *value, double *duration) {
    double unit = option->kind == SONDE_OPTION_MILLISECONDS ? 1e-3 : 1, seconds = 0;
    const char *rest = value;
    do
        rest = read_part(rest, unit, &seconds);
    while (rest && *rest);
    *duration = seconds / unit;
    return rest && *duration >= option->low && *duration <= option->high;
}

static bool read_milliseconds(const struct sonde_option *option, const char *value,
                              uint64_t *number) {
    double duration;
    bool good = read_duration(option, value, &duration);
    *number = good ? (uint64_t)(duration + 0.5) : 0;
    return good;
}

static bool add_to_list(struct sonde_option_list *list, const char *value) {
    if (list->count == SONDE_OPTION_MAX_LIST)
        return false;
    list->items[list->count++] = value;
    return true;
}

/* `place` precedes the option's name in an error text, for example "--" or "SONDE_SOCKET, ". */
static sonde_err set_value(struct reading *reading, const struct sonde_option *option,
                           const char *place, const char *value) {
    void *field = reading->settings + option->offset;
    bool good = true;
    switch (option->kind) {
    case SONDE_OPTION_FLAG:
        good = read_flag(value, field);
        break;
    case SONDE_OPTION_TEXT:
        *(const char **)field = value;
        break;
    case SONDE_OPTION_NUMBER:
        good = read_number(option, value, field);
        break;
    case SONDE_OPTION_DECIMAL:
        good = read_decimal(option, value, field);
        break;
    case SONDE_OPTION_SECONDS:
        good = read_duration(option, value, field);
        break;
    case SONDE_OPTION_MILLISECONDS:
        good = read_milliseconds(option, value, field);
        break;
    case SONDE_OPTION_ARGUMENT: /* read_flags */
        break;
    case SONDE_OPTION_LIST:
        if (!add_to_list(field, value))
            return sonde_fail(reading->diag, SONDE_INVALID_ARGUMENT, "%s%s: at most %d values",
                              place, option->name, SONDE_OPTION_MAX_LIST);
        break;
    }
    return good ? SONDE_OK : bad_value(reading, option, place, value);
}

static const struct sonde_option *find(const struct sonde_options *options, const char *name,
                                       size_t len) {
    for (size_t i = 0; i < options->count; i++) {
        const struct sonde_option *option = &options->table[i];
        if (strlen(option->name) == len && strncmp(option->name, name, len) == 0)
            return option;
        if (len == 1 && option->letter == name[0])
            return option;
    }
    return NULL;
}

/* Copies a value of the file. Copies are never freed, because the settings live as long as the
 * process; the list keeps them reachable for leak checkers. */
static const char *dup_value(const char *value) {
    static struct copy {
        struct copy *next;
        char text[];
    } * copies;
    size_t size = strlen(value) + 1;
    struct copy *copy = malloc(sizeof *copy + size);
    if (!copy)
        return NULL;
    memcpy(copy->text, value, size);
    copy->next = copies;
    copies = copy;
    return copy->text;
}

/* For sonde_settings_read: `names` are those of the options that `table` points to. */
struct file_settings {
    struct reading *reading;
    const struct sonde_option *table[MAX_OPTIONS];
    const char *names[MAX_OPTIONS];
    bool is_set[MAX_OPTIONS];
    size_t count;
};

static void empty_list(struct reading *reading, const struct sonde_option *option) {
    if (option->kind == SONDE_OPTION_LIST)
        *(struct sonde_option_list *)(reading->settings + option->offset) =
            (struct sonde_option_list){0};
}

static sonde_err set_from_file(void *context, size_t name, const char *place, const char *value) {
    struct file_settings *settings = context;
    const char *copy = dup_value(value);
    if (!settings->is_set[name])
        empty_list(settings->reading, settings->table[name]);
    settings->is_set[name] = true;
    if (!copy)
        return sonde_fail(settings->reading->diag, SONDE_OUT_OF_MEMORY, "out of memory");
    return set_value(settings->reading, settings->table[name], place, copy);
}

/* Only what has an environment variable can be set in the file. */
static void list_settings(struct file_settings *settings, const struct sonde_options *options) {
    for (size_t i = 0; i < options->count && settings->count < MAX_OPTIONS; i++) {
        if (!options->table[i].environment)
            continue;
        settings->table[settings->count] = &options->table[i];
        settings->names[settings->count++] = options->table[i].name;
    }
}

static sonde_err read_file(struct reading *reading) {
    const char *named = getenv("SONDE_CONFIG"), *path = named ? named : CONFIG_FILE;
    struct file_settings settings = {.reading = reading};
    char program[32];
    FILE *file = fopen(path, "re");
    if (!file)
        return named ? sonde_fail_os(reading->diag, errno, "cannot read SONDE_CONFIG") : SONDE_OK;
    list_settings(&settings, reading->options);
    snprintf(program, sizeof program, "%.*s", (int)strcspn(reading->options->usage, " "),
             reading->options->usage);
    const struct sonde_settings_reader reader = {program, settings.names, settings.count,
                                                 set_from_file, &settings};
    sonde_err err = sonde_settings_read(file, path, &reader, reading->diag);
    fclose(file);
    return err;
}

static sonde_err read_environment(struct reading *reading) {
    for (size_t i = 0; i < reading->options->count; i++) {
        const struct sonde_option *option = &reading->options->table[i];
        const char *value = option->environment ? getenv(option->environment) : NULL;
        if (!value || !*value)
            continue;
        empty_list(reading, option);
        char place[80];
        snprintf(place, sizeof place, "%s, ", option->environment);
        sonde_err err = set_value(reading, option, place, value);
        if (err)
            return err;
    }
    return SONDE_OK;
}

static sonde_err set_from_flag(struct reading *reading, const struct sonde_option *option,
                               const char *value) {
    size_t index = (size_t)(option - reading->options->table);
    if (index < MAX_OPTIONS && !reading->from_flag[index])
        empty_list(reading, option);
    if (index < MAX_OPTIONS)
        reading->from_flag[index] = true;
    return set_value(reading, option, "--", value);
}

static sonde_err unknown_flag(struct reading *reading, const char *word) {
    const char *names[MAX_OPTIONS + 2] = {"help", "version"}, *nearest = NULL;
    char name[64];
    size_t count = 2;
    for (size_t i = 0; i < reading->options->count && i < MAX_OPTIONS; i++)
        names[count++] = reading->options->table[i].name;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
    if (word[1] == '-')
        nearest = sonde_nearest(name, names, count);
    return sonde_fail(reading->diag, SONDE_INVALID_ARGUMENT, "unknown option %.64s; %s%s%s", word,
                      nearest ? "did you mean --" : "see --help", nearest ? nearest : "",
                      nearest ? "?" : "");
}

/* A flag, and its value if it takes one. */
struct flag {
    const struct sonde_option *option;
    const char *value;
    int used; /* number of words */
};

static sonde_err find_flag(struct reading *reading, int argc, char **argv, int i,
                           struct flag *flag) {
    const char *word = argv[i];
    bool is_long = word[1] == '-';
    const char *name = word + (is_long ? 2 : 1);
    size_t len = is_long ? strcspn(name, "=") : 1;
    const struct sonde_option *option = find(reading->options, name, len);
    if (!option || (is_long && len == 1))
        return unknown_flag(reading, word);
    const char *attached = name[len] == '='        ? name + len + 1
                           : (!is_long && name[1]) ? name + 1
                                                   : NULL;
    *flag = (struct flag){option, attached, 1};
    if (attached || option->kind == SONDE_OPTION_FLAG) {
        flag->value = attached ? attached : "yes";
        return SONDE_OK;
    }
    if (i + 1 >= argc)
        return sonde_fail(reading->diag, SONDE_INVALID_ARGUMENT, "--%s needs a value: %s",
                          option->name, option->argument);
    *flag = (struct flag){option, argv[i + 1], 2};
    return SONDE_OK;
}

static bool asks_for(const char *word, const char *long_name, const char *letter) {
    return strcmp(word, long_name) == 0 || strcmp(word, letter) == 0;
}

static sonde_err read_flags(struct reading *reading, bool stop_at_plain, int *argc, char **argv) {
    int plain = *argc > 0;
    bool flags_ended = false;
    for (int i = 1, used; i < *argc; i += used) {
        used = 1;
        if (flags_ended || argv[i][0] != '-' || argv[i][1] == 0) {
            flags_ended |= stop_at_plain;
            argv[plain++] = argv[i];
            continue;
        }
        if (strcmp(argv[i], "--") == 0) {
            flags_ended = true;
            continue;
        }
        if (asks_for(argv[i], "--help", "-h")) {
            sonde_options_help(reading->options, stdout);
            return SONDE_CANCELLED;
        }
        if (asks_for(argv[i], "--version", "-V")) {
            printf("%s\n", SONDE_VERSION);
            if (reading->options->version)
                printf("%s\n", reading->options->version);
            return SONDE_CANCELLED;
        }
        struct flag flag = {.used = 1};
        sonde_err err = find_flag(reading, *argc, argv, i, &flag);
        if (err)
            return err;
        used = flag.used;
        if (flag.option->kind == SONDE_OPTION_ARGUMENT)
            argv[plain++] = (char *)(uintptr_t)flag.value;
        else
            err = set_from_flag(reading, flag.option, flag.value);
        if (err)
            return err;
    }
    *argc = plain;
    argv[plain] = NULL;
    return SONDE_OK;
}

sonde_err sonde_options_read(const struct sonde_options *options, void *settings,
                             bool stop_at_plain, int *argc, char **argv, struct sonde_diag *diag) {
    struct reading reading = {.options = options, .settings = settings, .diag = diag};
    sonde_err err = read_file(&reading);
    if (!err)
        err = read_environment(&reading);
    return err ? err : read_flags(&reading, stop_at_plain, argc, argv);
}

/* Further lines of the text are below the first. */
static void put_help(FILE *out, const char *left, const char *help) {
    for (const char *line = help; line; left = "") {
        size_t len = strcspn(line, "\n");
        fprintf(out, "  %-28s %.*s\n", left, (int)len, line);
        line = line[len] ? line + len + 1 : NULL;
    }
}

void sonde_options_help(const struct sonde_options *options, FILE *out) {
    fprintf(out, "usage: %s\n\n%s\n\n", options->usage, options->about);
    for (size_t i = 0; i < options->count; i++) {
        const struct sonde_option *option = &options->table[i];
        char left[64];
        if (!option->help)
            continue;
        snprintf(left, sizeof left, "%c%c %s--%s%s%s", option->letter ? '-' : ' ',
                 option->letter ? option->letter : ' ', option->letter ? "" : " ", option->name,
                 option->argument ? " " : "", option->argument ? option->argument : "");
        put_help(out, left, option->help);
    }
    put_help(out, "-h --help, -V --version", "print this help, or the version");
    if (options->examples)
        fprintf(out, "\nexamples:\n%s", options->examples);
}
