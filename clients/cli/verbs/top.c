/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/source/source.h"
#include "clients/cli/verbs/verbs.h"

#define DEFAULT_ROWS 30

struct settings {
    struct source_settings source;
    struct source_table table;
};

static int on_top(int argc, char **argv) {
    struct settings settings = {.source.capture = CAPTURE_DEFAULTS, .table.rows = DEFAULT_ROWS};
    int status;
    settings.source.table = &settings.table;
    if (!cli_options(&verb_top, &settings, false, &argc, argv, &status))
        return status;
    if (argc > 2)
        return cli_usage(&verb_top, "unexpected argument \"%s\"", argv[2]);
    return source_draw(&verb_top, argv[1], &settings.source, SONDE_FORMAT_TEXT_TOP, "-");
}

static const struct sonde_option table[] = {
    {"rows", 'n', "N", NULL, SONDE_OPTION_NUMBER, offsetof(struct settings, table.rows), 0, 1e9,
     "number of functions to print (default 30; 0: all)"},
    {"cum", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, table.by_total), 0, 0,
     "sort by the total of a function instead of its own time"},
    {"peek", 0, "FUNCTION", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, table.function), 0,
     0, "print a function's callers and what it calls; * is any text"},
    {"full-names", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, table.full_names), 0,
     0, "print C++ names with all arguments, whatever the terminal's width"},
    {"type", 't', "TYPE", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, source.type), 0, 0,
     "sample type to show (default: the profile's default one)"},
    CAPTURE_OPTIONS(struct settings, source.capture),
    SERVICE_OPTIONS(struct settings, source.service),
};

static const struct sonde_options options = {
    .usage = "sonde top PID | NAME | --all [PID | NAME] | FILE [-d SECONDS] [-n N] [--cum]\n"
             "                 [--peek FUNCTION]",
    .about = "Prints the hottest functions of a process, of several, or of a profile file\n(pprof, "
             "perf.data).",
    .examples = "  sonde top 4711 -F 999\n"
                "  sonde top redis-server -d 5 --cum -n 10\n"
                "  sonde top --all -d 5\n"
                "  sonde top perf.data --type cycles\n",
    .table = table,
    .count = COUNT_OF(table),
};

const struct verb verb_top = {"top", "print the hottest functions of a target or a file", on_top,
                              &options};
