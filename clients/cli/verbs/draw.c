/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/formats.h"
#include "clients/cli/verbs/source/source.h"
#include "clients/cli/verbs/verbs.h"

struct settings {
    struct source_settings source;
    const char *output, *format;
};

static int on_draw(int argc, char **argv) {
    struct settings settings = {.source.capture = CAPTURE_DEFAULTS, .output = "sonde.svg"};
    int status;
    if (!cli_options(&verb_draw, &settings, false, &argc, argv, &status))
        return status;
    if (argc > 2)
        return cli_usage(&verb_draw, "unexpected argument \"%s\"", argv[2]);
    const struct sonde_format_info *format =
        format_choose(settings.format, settings.output, FORMATS_ANY);
    if (!format)
        return format_refuse(&verb_draw, settings.format, settings.output, FORMATS_ANY);
    return source_draw(&verb_draw, argv[1], &settings.source, format->format, settings.output);
}

static const struct sonde_option table[] = {
    {"output", 'o', "FILE", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, output), 0, 0,
     "output file, format by extension, - for stdout (default sonde.svg)"},
    {"format", 0, "NAME", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, format), 0, 0,
     FORMAT_HELP},
    {"type", 't', "TYPE", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, source.type), 0, 0,
     "sample type to show (default: the profile's default one)"},
    CAPTURE_OPTIONS(struct settings, source.capture),
    SERVICE_OPTIONS(struct settings, source.service),
};

static const struct sonde_options options = {
    .usage = "sonde draw [TARGET | FILE] [-o FILE]",
    .about = "Draws a profile file (pprof, perf.data), or profiles a target and draws the result, "
             "in any\nformat.",
    .examples = "  sonde draw profile.pb.gz -o flame.svg\n"
                "  sonde draw perf.data -o perf.speedscope.json\n"
                "  sonde draw profile.pb.gz -o - --format collapsed\n"
                "  sonde draw redis-server -d 5 -o redis.svg\n",
    .table = table,
    .count = COUNT_OF(table),
};

const struct verb verb_draw = {"draw", "draw a profile file or a target in any format", on_draw,
                               &options};
