/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/locks/print.h"
#include "clients/cli/verbs/source/source.h"
#include "clients/cli/verbs/verbs.h"

#define DEFAULT_ROWS      20
#define DEFAULT_FREQUENCY 999 /* waits of a millisecond and more are counted, not estimated */

struct settings {
    struct source_settings source;
    uint64_t rows;
    bool all_waits, json;
};

static sonde_err print(const struct settings *settings, const struct sonde_profile *profile,
                       const struct capture_result *result) {
    struct sonde_lock_table table;
    sonde_err err = sonde_lock_table_init(&table, profile, settings->all_waits);
    if (err)
        return err;
    if (settings->json)
        locks_print_json(&table, profile, result);
    else
        locks_print_text(&table, result, settings->rows);
    sonde_lock_table_finish(&table);
    locks_print_notes(profile, result);
    return SONDE_OK;
}

static int show(const char *target, const struct settings *settings) {
    struct sonde_profile *profile = NULL;
    struct capture_result result = {0};
    struct sonde_diag diag = {0};
    sonde_err err = source_capture(target, &settings->source, &profile, &result, &diag);
    if (!err)
        err = print(settings, profile, &result);
    sonde_profile_destroy(profile);
    return err ? cli_fail(&verb_locks, err, &diag) : 0;
}

static int on_locks(int argc, char **argv) {
    struct settings settings = {.source.capture = {.frequency = DEFAULT_FREQUENCY,
                                                   .mode = "off-cpu",
                                                   .as_contentions = true,
                                                   .locks = true},
                                .rows = DEFAULT_ROWS};
    int status;
    if (!cli_options(&verb_locks, &settings, false, &argc, argv, &status))
        return status;
    if (argc < 2 && !settings.source.capture.all)
        return cli_usage(&verb_locks, "which process? give its pid or name");
    if (argc > 2)
        return cli_usage(&verb_locks, "unexpected argument \"%s\"", argv[2]);
    if (source_is_file(argv[1]))
        return cli_usage(&verb_locks, "\"%s\" is a file: give a running process", argv[1]);
    return show(argv[1], &settings);
}

#define LOCKS_OPTION(name, letter, argument, kind, field, low, high, help)                    \
    CAPTURE_OPTION(struct settings, source.capture, name, letter, argument, kind, field, low, \
                   high, help)

static const struct sonde_option table[] = {
    LOCKS_OPTION("duration", 'd', "SECONDS", SECONDS, seconds, 0.001, 3600,
                 "how long to watch: 10 (default), 500ms, 5m"),
    {"all-waits", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, all_waits), 0, 0,
     "also list what only waits for work: condition variables, semaphores"},
    {"rows", 'n', "N", NULL, SONDE_OPTION_NUMBER, offsetof(struct settings, rows), 0, 1e9,
     "number of locks to print (default 20; 0: all)"},
    LOCKS_OPTION("all", 'a', NULL, FLAG, all, 0, 0,
                 "the whole machine, all processes of a name, or a process tree"),
    LOCKS_OPTION("frequency", 'F', "HZ", NUMBER, frequency, 1, 10000,
                 "estimate waits shorter than 1/HZ from a part of them (default 999)"),
    {"json", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, json), 0, 0,
     "print one line of JSON with all locks"},
    SERVICE_OPTIONS(struct settings, source.service),
};

static const struct sonde_options options = {
    .usage = "sonde locks PID | NAME | --all [PID | NAME] [-d SECONDS]",
    .about = "Shows for which locks the threads of a running process wait, for how long, in which\n"
             "function, and which threads hold them. The names of locks are those of variables;\n"
             "locks on the heap have their address and the function that waits longest.",
    .examples = "  sonde locks 4711\n"
                "  sonde locks mysqld -d 60\n"
                "  sonde locks 4711 --all-waits -n 0\n"
                "  sonde locks 4711 --json | jq '.locks[0]'\n",
    .table = table,
    .count = COUNT_OF(table),
};

const struct verb verb_locks = {"locks", "show for which locks threads wait, and who holds them",
                                on_locks, &options};
