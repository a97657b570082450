/* SPDX-License-Identifier: Apache-2.0
 *
 * `sonde growth`: a capture of the event growth, as a table or a file. */
#include "clients/cli/formats.h"
#include "clients/cli/verbs/heap/heap.h"
#include "clients/cli/verbs/source/source.h"

#define DEFAULT_ROWS      30
#define DEFAULT_FREQUENCY 199 /* costs about 0.1 % of a CPU; the sum is exact at any rate */

struct settings {
    struct source_settings source;
    struct source_table table;
    const char *output, *format;
};

static int draw(const char *target, struct settings *settings) {
    struct source_settings *source = &settings->source;
    if (!settings->output && !settings->format) {
        source->table = &settings->table;
        return source_draw(&verb_growth, target, source, SONDE_FORMAT_TEXT_TOP, "-");
    }
    const char *output = settings->output ? settings->output : "-";
    const struct sonde_format_info *format =
        format_choose(settings->format, settings->output, SONDE_OF_CPU);
    if (!format)
        return format_refuse(&verb_growth, settings->format, settings->output, SONDE_OF_CPU);
    return source_draw(&verb_growth, target, source, format->format, output);
}

static int on_growth(int argc, char **argv) {
    struct settings settings = {
        .source.capture = {.frequency = DEFAULT_FREQUENCY, .event = "growth"},
        .table.rows = DEFAULT_ROWS};
    int status;
    if (!cli_options(&verb_growth, &settings, false, &argc, argv, &status))
        return status;
    if (argc < 2)
        return cli_usage(&verb_growth, "which process? give its pid or name");
    if (argc > 2)
        return cli_usage(&verb_growth, "unexpected argument \"%s\"", argv[2]);
    if (source_is_file(argv[1]))
        return cli_usage(&verb_growth, "\"%s\" is a file: give a running process", argv[1]);
    return draw(argv[1], &settings);
}

#define GROWTH_OPTION(name, letter, argument, kind, field, low, high, help)                   \
    CAPTURE_OPTION(struct settings, source.capture, name, letter, argument, kind, field, low, \
                   high, help)

static const struct sonde_option table[] = {
    GROWTH_OPTION("duration", 'd', "SECONDS", SECONDS, seconds, 0.001, 3600,
                  "how long to watch: 10 (default), 500ms, 5m"),
    {"output", 'o', "FILE", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, output), 0, 0,
     "output file, format by extension, - for stdout (default: a table)"},
    {"format", 0, "NAME", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, format), 0, 0,
     FORMAT_HELP},
    {"rows", 'n', "N", NULL, SONDE_OPTION_NUMBER, offsetof(struct settings, table.rows), 0, 1e9,
     "number of functions in the table (default 30; 0: all)"},
    {"cum", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, table.by_total), 0, 0,
     "sort the table by what a function and all that it calls have touched"},
    {"full-names", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, table.full_names), 0,
     0, "print C++ names with all arguments, whatever the terminal's width"},
    GROWTH_OPTION("frequency", 'F', "HZ", NUMBER, frequency, 1, 10000,
                  "page faults to sample in a second (default 199)"),
    GROWTH_OPTION("period", 0, "N", NUMBER, period, 1, 1e12,
                  "sample every N-th page fault instead; 1: each"),
    GROWTH_OPTION("max-overhead", 0, "SHARE", TEXT, max_overhead, 0, 0,
                  "limit sampling to this share of the target's CPU time: 1% or 0.01"),
    GROWTH_OPTION("title", 0, "TEXT", TEXT, title, 0, 0, "title of the picture"),
    SERVICE_OPTIONS(struct settings, source.service),
};

static const struct sonde_options options = {
    .usage = "sonde growth PID | NAME [-d SECONDS] [-o FILE]",
    .about = "Shows which code makes a running process grow, without preparation: the memory that\n"
             "was first touched meanwhile and is still resident at the end, by stack, in bytes.\n"
             "For the objects of the heap, start the program with `sonde run` (see `sonde heap`).",
    .examples = "  sonde growth 4711\n"
                "  sonde growth redis-server -d 60 --cum\n"
                "  sonde growth 4711 -d 5m -o growth.svg\n"
                "  sonde growth 4711 -o growth.pb.gz\n",
    .table = table,
    .count = COUNT_OF(table),
};

const struct verb verb_growth = {"growth", "show which code makes a running process grow",
                                 on_growth, &options};
