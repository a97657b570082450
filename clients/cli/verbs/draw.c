/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/source.h"

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
        return cli_usage(&verb_draw, "one target or file at a time, not \"%s\" as well", argv[2]);
    const struct sonde_format_info *format =
        settings.format ? sonde_format_from_output(sonde_slice_of(settings.format))
                        : sonde_format_from_name(settings.output);
    if (!format)
        return cli_usage(&verb_draw,
                         "\"%s\" says no format: .svg .collapsed .speedscope.json .txt .pb.gz",
                         settings.format ? settings.format : settings.output);
    return source_draw(&verb_draw, argv[1], &settings.source, format->format, settings.output);
}

static const struct sonde_option table[] = {
    {"output", 'o', "FILE", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, output), 0, 0,
     "where to; the extension is the format, - is stdout (sonde.svg)"},
    {"format", 0, "NAME", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, format), 0, 0,
     "the format when the extension does not say it"},
    CAPTURE_OPTIONS(struct settings, source.capture),
    SERVICE_OPTIONS(struct settings, source.service),
};

static const struct sonde_options options = {
    .usage = "sonde draw [TARGET | FILE.pb.gz] [-o FILE]",
    .about = "Draws a profile on disk, or a target's CPU time now, in any format.",
    .examples = "  sonde draw profile.pb.gz -o flame.svg\n"
                "  sonde draw profile.pb.gz -o profile.speedscope.json\n"
                "  sonde draw profile.pb.gz -o - --format collapsed\n"
                "  sonde draw redis-server -d 5 -o redis.svg\n",
    .table = table,
    .count = COUNT_OF(table),
};

const struct verb verb_draw = {"draw", "draw a profile on disk (or a target) in any format",
                               on_draw, &options};
