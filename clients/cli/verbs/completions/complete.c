/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/completions/complete.h"

#include "api/draw/draw.h"
#include "api/profile/event.h"
#include "clients/cli/verbs/verbs.h"

#include <stdio.h>
#include <string.h>

static void print_files(void) {
    puts("@files");
}

static void print_processes_and_files(void) {
    complete_processes();
    print_files();
}

static void print_captures_and_files(void) {
    complete_captures();
    print_files();
}

/* ---- Values of options ---- */

static void print_modes(void) {
    for (size_t i = 0; i < SONDE_MODES; i++)
        puts(sonde_events[i].mode);
}

static void print_events(void) {
    for (size_t i = 0; i < SONDE_EVENTS; i++)
        if (sonde_events[i].is_recorded)
            puts(sonde_events[i].name);
}

static void print_counted(void) {
    for (size_t i = SONDE_COUNTED; i < SONDE_EVENTS; i++)
        puts(sonde_events[i].name);
}

/* The first row that fits an option counts; a row without a verb is for all, and one without an
 * option for all with that argument in --help. */
static const struct value {
    const char *verb, *option, *argument;
    const char *words; /* separated by blanks; NULL: the function prints them */
    void (*print)(void);
} values[] = {
    {NULL, "mode", NULL, NULL, print_modes},
    {NULL, "source", NULL, "auto host guest", NULL},
    {"record", "event", NULL, NULL, print_counted},
    {"top", "event", NULL, NULL, print_counted},
    {"draw", "event", NULL, NULL, print_counted},
    {"annotate", "event", NULL, NULL, print_counted},
    {NULL, "event", NULL, NULL, print_events},
    {NULL, "backend", NULL, "jemalloc interposed", NULL},
    {"heap", "type", NULL, "inuse_space inuse_objects alloc_space alloc_objects", NULL},
    {NULL, "service", NULL, NULL, complete_services},
    {"run", "grpc", NULL, "unix: 127.0.0.1:0", NULL},
    {NULL, NULL, "TARGET", NULL, complete_processes},
    {NULL, NULL, "FILE", NULL, print_files},
    {NULL, NULL, "DIR", NULL, print_files},
    {NULL, NULL, "PATH", NULL, print_files},
};

/* Which formats --format of a verb takes. */
static const struct {
    const char *verb;
    unsigned subjects;
} formats[] = {
    {"record", SONDE_OF_CPU},
    {"growth", SONDE_OF_CPU},
    {"captures", SONDE_OF_CPU | SONDE_OF_ALLOCATIONS},
    {"history", SONDE_OF_CPU | SONDE_OF_HEAP | SONDE_OF_ALLOCATIONS},
    {"heap", SONDE_OF_HEAP | SONDE_OF_ALLOCATIONS},
    {"draw", SONDE_OF_CPU | SONDE_OF_HEAP | SONDE_OF_ALLOCATIONS},
    {"diff", SONDE_OF_CPU | SONDE_OF_HEAP | SONDE_OF_ALLOCATIONS | SONDE_OF_DIFFERENCE},
};

static void print_formats(const char *verb) {
    size_t count;
    const struct sonde_format_info *table = sonde_format_table(&count);
    for (size_t i = 0; i < COUNT_OF(formats); i++)
        for (size_t j = 0; j < count && strcmp(formats[i].verb, verb) == 0; j++)
            if (table[j].offered & formats[i].subjects)
                printf("%s\t%s\n", table[j].output, table[j].extension);
}

/* Each word in a line, after the prefix. `ends` are the characters between and after them. */
static void print_words(const char *words, const char *between, const char *end) {
    for (size_t len; *words && !strchr(end, *words); words += len + (words[len] == *between)) {
        len = strcspn(words, between);
        len = strcspn(words, end) < len ? strcspn(words, end) : len;
        printf("%.*s\n", (int)len, words);
    }
}

static void print_values(const struct verb *verb, const struct sonde_option *option) {
    if (strcmp(option->name, "format") == 0) {
        print_formats(verb->name);
        return;
    }
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        const struct value *value = &values[i];
        if ((value->verb && strcmp(value->verb, verb->name) != 0) ||
            (value->option && strcmp(value->option, option->name) != 0) ||
            (value->argument && strcmp(value->argument, option->argument) != 0))
            continue;
        if (value->words)
            print_words(value->words, " ", "");
        else
            value->print();
        return;
    }
}

/* ---- Arguments ---- */

/* The words of a usage line such as "sonde heap on|off|status [TARGET]". */
static void print_usage_words(const struct verb *verb) {
    const char *words = strstr(verb->options->usage, verb->name);
    if (words)
        print_words(words + strlen(verb->name) + 1, "|", " ");
}

/* NULL: nothing is known. */
static const struct arguments {
    const char *verb;
    bool takes_command; /* after "--" */
    void (*first)(void), (*others)(void);
} arguments[] = {
    {"record", true, complete_processes, NULL},
    {"run", true, NULL, NULL},
    {"top", false, print_processes_and_files, NULL},
    {"annotate", false, NULL, print_processes_and_files},
    {"draw", false, print_processes_and_files, NULL},
    {"growth", false, complete_processes, NULL},
    {"live", false, complete_processes, NULL},
    {"threads", false, complete_processes, NULL},
    {"locks", false, complete_processes, NULL},
    {"symbol", false, complete_processes, NULL},
    {"diff", false, print_captures_and_files, print_captures_and_files},
    {"captures", false, complete_captures, NULL},
    {"heap", false, NULL, complete_targets}, /* the first is in its usage */
};

static void print_arguments(const struct verb *verb, size_t plain, const char *first, bool ended) {
    bool has_words = strcmp(verb->name, "heap") == 0 || strcmp(verb->name, "fleet") == 0 ||
                     strcmp(verb->name, "completions") == 0;
    if (plain == 0 && has_words)
        print_usage_words(verb);
    if (first && strcmp(first, "diff") == 0)
        print_files(); /* of `heap diff` */
    for (size_t i = 0; i < COUNT_OF(arguments); i++) {
        const struct arguments *row = &arguments[i];
        if (strcmp(row->verb, verb->name) != 0)
            continue;
        if (row->takes_command && (ended || !row->first))
            puts("@commands");
        else if (plain == 0 ? row->first != NULL : row->others != NULL)
            (plain == 0 ? row->first : row->others)();
    }
}

/* ---- The line ---- */

static void print_verbs(void) {
    size_t count;
    const struct verb *const *verbs = verbs_table(&count);
    for (size_t i = 0; i < count; i++)
        printf("%s\t%s\n", verbs[i]->name, verbs[i]->summary);
    puts("--help\n--version");
}

static void print_flags(const struct verb *verb) {
    for (size_t i = 0; i < verb->options->count; i++)
        if (verb->options->table[i].help)
            printf("--%s\t%.*s\n", verb->options->table[i].name,
                   (int)strcspn(verb->options->table[i].help, "\n"), verb->options->table[i].help);
    puts("--help\tprint this help");
}

/* Returns the option that the word names ("--mode" or "-d"). NULL if it names none, or also has the
 * value. */
static const struct sonde_option *awaits_value(const struct verb *verb, const char *word) {
    for (size_t i = 0; i < verb->options->count; i++) {
        const struct sonde_option *option = &verb->options->table[i];
        bool is_long = word[0] == '-' && word[1] == '-' && strcmp(word + 2, option->name) == 0;
        bool is_letter = word[0] == '-' && option->letter && word[1] == option->letter && !word[2];
        if ((is_long || is_letter) && option->argument)
            return option;
    }
    return NULL;
}

static const struct verb *find_verb(const char *name) {
    size_t count;
    const struct verb *const *verbs = verbs_table(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(verbs[i]->name, name) == 0)
            return verbs[i];
    return NULL;
}

void complete_print(const char *const *words, size_t count) {
    const struct verb *verb = count > 1 ? find_verb(words[0]) : NULL;
    const struct sonde_option *open = NULL;
    const char *first = NULL;
    size_t plain = 0;
    bool ended = false;
    if (count <= 1)
        print_verbs();
    for (size_t i = 1; verb && i + 1 < count && !ended; i++) {
        bool is_value = open != NULL;
        open = is_value ? NULL : awaits_value(verb, words[i]);
        ended = !is_value && strcmp(words[i], "--") == 0;
        if (is_value || ended || words[i][0] == '-')
            continue;
        first = plain++ == 0 ? words[i] : first;
    }
    if (verb && open)
        print_values(verb, open);
    else if (verb && words[count - 1][0] == '-' && !ended)
        print_flags(verb);
    else if (verb)
        print_arguments(verb, plain, first, ended);
}
