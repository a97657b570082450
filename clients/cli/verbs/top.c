/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/source.h"
#include "clients/cli/verbs/verbs.h"

static int on_top(int argc, char **argv) {
    struct source_settings settings = {.capture = CAPTURE_DEFAULTS};
    int status;
    if (!cli_options(&verb_top, &settings, false, &argc, argv, &status))
        return status;
    if (argc > 2)
        return cli_usage(&verb_top, "unexpected argument \"%s\"", argv[2]);
    return source_draw(&verb_top, argv[1], &settings, SONDE_FORMAT_TEXT_TOP, "-");
}

static const struct sonde_option table[] = {
    CAPTURE_OPTIONS(struct source_settings, capture),
    SERVICE_OPTIONS(struct source_settings, service),
};

static const struct sonde_options options = {
    .usage = "sonde top PID | NAME | --all [PID | NAME] | FILE.pb.gz [-d SECONDS] [-F HZ]",
    .about = "Prints the hottest functions of a process, of several, or of a profile file.",
    .examples = "  sonde top 4711 -F 999\n"
                "  sonde top redis-server -d 5\n"
                "  sonde top --all -d 5\n"
                "  sonde top profile.pb.gz\n",
    .table = table,
    .count = COUNT_OF(table),
};

const struct verb verb_top = {"top", "print the hottest functions of a target or a file", on_top,
                              &options};
