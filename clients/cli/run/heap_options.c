/* SPDX-License-Identifier: Apache-2.0
 *
 * The variables are inherited by all that the command starts. A child that is not found here may
 * have a jemalloc without profiling, which prints a warning; it must not abort. So nothing is added
 * where the user's settings have abort_conf:true. */
#include "clients/cli/run/heap_options.h"

#include "clients/cli/run/executable.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_SEARCHED 64u /* programs and scripts */
#define MAX_WORDS    4096u
#define SCRIPT_BYTES 65536u
#define SEPARATORS   " \t\r\n;&|()<>\"'`=${}!#"

struct search {
    struct jemalloc_probe probe;
    char *paths[MAX_SEARCHED];
    uint32_t count, words;
    bool starts_others; /* the command is a wrapper or a script */
};

static void add_path(struct search *search, const char *path) {
    for (uint32_t i = 0; i < search->count; i++)
        if (strcmp(search->paths[i], path) == 0)
            return;
    char *copy = search->count < MAX_SEARCHED ? strdup(path) : NULL;
    if (copy)
        search->paths[search->count++] = copy;
}

/* Adds the programs that a text names. The shell's syntax is not parsed: a word that happens to be
 * the name of a program is added, too, and costs only time. Writes NULs into the text. */
static void add_words(struct search *search, char *text) {
    char *rest = text, *word, path[PATH_MAX];
    while (search->words < MAX_WORDS && (word = strsep(&rest, SEPARATORS))) {
        search->words += *word != 0;
        if (*word && *word != '-' && executable_find(word, path, NULL) == SONDE_OK)
            add_path(search, path);
    }
}

static void search_file(struct search *search, const char *path) {
    char *text = calloc(1, SCRIPT_BYTES);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t len = text && fd >= 0 ? read(fd, text, SCRIPT_BYTES - 1) : -1;
    if (len >= 4 && memcmp(text, ELFMAG, SELFMAG) == 0) {
        jemalloc_probe_program(&search->probe, path);
    } else if (len > 0) {
        search->starts_others = true;
        add_words(search, text);
    }
    free(text);
    if (fd >= 0)
        close(fd);
}

static void search_command(struct search *search, const char *path, char *const *argv) {
    add_path(search, path);
    search->starts_others = executable_is_wrapper(argv[0]);
    for (char *const *word = argv + 1; search->starts_others && *word; word++) {
        char *copy = strdup(*word);
        if (copy)
            add_words(search, copy);
        free(copy);
    }
    for (uint32_t i = 0; i < search->count; i++)
        search_file(search, search->paths[i]);
    for (uint32_t i = 0; i < search->count; i++)
        free(search->paths[i]);
}

/* Whether jemalloc's options in `text` have one that begins with `option`. */
static bool has_option(const char *text, const char *option) {
    for (const char *at = text; at && *at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, option, strlen(option)) == 0)
            return true;
    }
    return false;
}

/* The user's settings for one variable: why nothing is added to it, NULL = nothing is against. */
static const char *objection(const char *variable) {
    char file[1024];
    ssize_t len = readlink("/etc/malloc.conf", file, sizeof file - 1);
    file[len > 0 ? len : 0] = 0;
    const char *held = getenv(variable), *value = held ? held : "";
    if (has_option(value, "prof:true") || has_option(file, "prof:true"))
        return ""; /* it is ready */
    if (has_option(value, "prof:") || has_option(file, "prof:"))
        return "it has prof:false";
    if (has_option(value, "abort_conf:true") || has_option(file, "abort_conf:true"))
        return "with abort_conf:true, a child whose jemalloc lacks profiling would abort; if there "
               "is none, add " HEAP_OPTIONS;
    return NULL;
}

static void choose_variable(const struct jemalloc_probe *probe, uint32_t i, const char *program,
                            struct heap_options *options) {
    const char *name = jemalloc_variables[i], *against = NULL;
    if (probe->lacks[i])
        against = "a jemalloc without heap profiling would reject prof:true";
    else if (probe->profiles[i])
        against = probe->has_setting ? "it already contains a prof:true" : objection(name);
    options->is_added[i] = probe->profiles[i] && !against;
    if (against && *against && !options->reason[0])
        snprintf(options->reason, sizeof options->reason, "%s of %.60s stays as it is: %s", name,
                 program, against);
}

void heap_options_choose(const char *path, char *const *argv, struct heap_options *options) {
    static struct search search; /* static because it is too large for a small stack */
    const char *slash = strrchr(path, '/'), *program = slash ? slash + 1 : path;
    search = (struct search){0};
    *options = (struct heap_options){0};
    search_command(&search, path, argv);
    bool is_any_found = false;
    for (uint32_t i = 0; i < JEMALLOC_VARIABLES; i++) {
        choose_variable(&search.probe, i, program, options);
        is_any_found |= search.probe.profiles[i] || search.probe.lacks[i];
    }
    if (!is_any_found && search.starts_others)
        snprintf(options->reason, sizeof options->reason,
                 "%s names no program with a jemalloc that can profile; if it starts one, set "
                 "MALLOC_CONF=" HEAP_OPTIONS,
                 program);
}
