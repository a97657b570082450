/* SPDX-License-Identifier: Apache-2.0
 *
 * `sonde gate`: decides whether a program uses more than before, for CI. Runs come from files, from
 * commands or from history; everything after that is the same. */
#include "clients/cli/verbs/gate/input.h"
#include "clients/cli/verbs/gate/report.h"
#include "clients/cli/verbs/verbs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_FAIL         10 /* below, the codes mean the same for all verbs */
#define EXIT_INCONCLUSIVE 11
#define LENGTHS_DIFFER    1.5

struct settings {
    struct service_settings service;
    struct sonde_option_list sides[2], functions, reports;
    const char *max_increase, *min_effect, *confidence, *per, *type;
    const char *from, *until, *event;
    uint64_t runs, frequency;
};

/* What was read from the settings, and what came of it. */
struct gate {
    const struct settings *settings;
    const char *service;
    struct gate_rules rules;
    struct gate_per per;
    struct gate_input input;
    struct sonde_comparison *comparison;
    struct gate_decision decision;
};

/* ---- Arguments ---- */

/* Puts the option before each of the words that follow it, as a shell's wildcard leaves them. */
static char **repeat_options(int *argc, char **argv) {
    char **repeated = calloc(2 * (size_t)*argc + 1, sizeof *repeated);
    char *option = NULL;
    int count = 0;
    bool has_value = false;
    for (int i = 0; repeated && i < *argc; i++) {
        bool is_side = strcmp(argv[i], "--base") == 0 || strcmp(argv[i], "--new") == 0;
        bool is_option = argv[i][0] == '-' && argv[i][1] && !(option && !has_value);
        if (is_option)
            option = is_side ? argv[i] : NULL;
        else if (option && has_value)
            repeated[count++] = option;
        has_value = option && !is_option;
        repeated[count++] = argv[i];
    }
    *argc = repeated ? count : *argc;
    return repeated;
}

static bool is_history(const struct gate *gate) {
    const struct settings *settings = gate->settings;
    return gate->service || settings->from || settings->until || settings->event;
}

/* Returns 0 or the exit status of a usage error. */
static int check_sides(const struct gate *gate) {
    const struct settings *settings = gate->settings;
    bool is_single = settings->runs || is_history(gate);
    if (settings->sides[0].count == 0 || settings->sides[1].count == 0)
        return cli_usage(&verb_gate, "--base and --new are needed");
    if (settings->runs && is_history(gate))
        return cli_usage(&verb_gate, "--runs runs commands; it does not go with a SERVICE, --from, "
                                     "--until or --event");
    if (is_single && (settings->sides[0].count > 1 || settings->sides[1].count > 1))
        return cli_usage(&verb_gate, "%s after --base and after --new; quote it",
                         settings->runs ? "--runs needs one command"
                                        : "history needs one selector");
    for (size_t i = 0; i < settings->reports.count; i++)
        if (!gate_writer_for(settings->reports.items[i]))
            return cli_usage(&verb_gate, "--report: %.120s does not end in %s",
                             settings->reports.items[i], gate_report_extensions);
    return 0;
}

static int read_rules(struct gate *gate) {
    const struct settings *settings = gate->settings;
    const struct gate_rule_texts texts = {settings->max_increase, settings->min_effect,
                                          settings->confidence, &settings->functions};
    struct sonde_diag diag = {0};
    sonde_err err = gate_rules_read(&gate->rules, &texts, &diag);
    if (!err)
        err = gate_per_read(&gate->per, settings->per, &diag);
    return err ? cli_usage(&verb_gate, "%s", diag.text) : check_sides(gate);
}

/* ---- Runs ---- */

static sonde_err read_runs(struct gate *gate, struct sonde_diag *diag) {
    const struct settings *settings = gate->settings;
    const struct sonde_option_list *const files[] = {&settings->sides[0], &settings->sides[1]};
    const char *base = settings->sides[0].items[0], *now = settings->sides[1].items[0];
    const struct gate_commands commands = {
        {base, now}, settings->runs, settings->frequency, settings->service};
    struct gate_ranges ranges = {.name = gate->service ? gate->service : "",
                                 .event = settings->event,
                                 .selectors = {base, now},
                                 .service = settings->service};
    if (settings->runs)
        return gate_run_commands(&gate->input, &commands, diag);
    if (!is_history(gate))
        return gate_read_files(&gate->input, files, diag);
    sonde_err err = history_read_range("from", settings->from, "until", settings->until,
                                       history_now_ns(), &ranges.range, diag);
    return err ? err : gate_read_history(&gate->input, &ranges, diag);
}

static double mean_seconds(const struct gate_input *input, int side) {
    double sum = 0;
    for (size_t i = 0; i < input->counts[side]; i++)
        sum += input->runs[side][i].seconds;
    return sum / (double)input->counts[side];
}

static void note_lengths(const struct gate *gate) {
    double base = mean_seconds(&gate->input, 0), now = mean_seconds(&gate->input, 1);
    if (gate->per.kind == GATE_PER_DEFAULT && !gate->settings->runs && !gate->input.is_history &&
        base > 0 && now > 0 && fmax(base, now) / fmin(base, now) > LENGTHS_DIFFER)
        fprintf(stderr,
                "note: the base runs are %.1f s long, the new ones %.1f s. Runs of a fixed job "
                "are compared as a whole; for captures of a server, pass --per second\n",
                base, now);
}

/* ---- The decision ---- */

static sonde_err compare(struct gate *gate, struct sonde_diag *diag) {
    const struct gate_input *input = &gate->input;
    size_t count = input->counts[0] + input->counts[1], at = 0;
    const struct sonde_profile **profiles = calloc(count, sizeof *profiles);
    double *exposures = NULL;
    sonde_err err = profiles ? gate_exposures(input, &gate->per, &exposures, diag)
                             : sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    for (int side = 0; side < 2 && !err; side++)
        for (size_t i = 0; i < input->counts[side]; i++)
            profiles[at++] = input->runs[side][i].profile;
    const struct sonde_blocks_side sides[] = {{profiles, input->counts[0], 1, exposures, NULL},
                                              {profiles + input->counts[0], input->counts[1], 1,
                                               exposures ? exposures + input->counts[0] : NULL,
                                               NULL}};
    const struct sonde_comparison_options options = {.type = gate->settings->type,
                                                     .confidence = gate->rules.confidence,
                                                     .measure = VERDICT_AMOUNT};
    if (!err)
        err = sonde_comparison_create(sides, &options, &gate->comparison, diag);
    free(exposures);
    free(profiles);
    return err;
}

static sonde_err decide(struct gate *gate, struct sonde_diag *diag) {
    const struct gate_input *input = &gate->input;
    if (input->counts[0] == 0 || input->counts[1] == 0) {
        gate->decision = (struct gate_decision){
            .result = GATE_INCONCLUSIVE,
            .reason = input->counts[0] ? "history has nothing that matches --new in this range"
                                       : "history has nothing that matches --base in this range"};
        return SONDE_OK;
    }
    note_lengths(gate);
    sonde_err err = compare(gate, diag);
    if (!err && gate_decide(gate->comparison, &gate->rules, input->counts, &gate->decision))
        err = sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    return err;
}

static sonde_err report(const struct gate *gate, struct sonde_diag *diag) {
    const struct gate_report report = {&gate->input, &gate->rules, &gate->per, &gate->decision,
                                       gate->comparison};
    const struct sonde_option_list *reports = &gate->settings->reports;
    sonde_err err = gate_report_write(&report, "-", diag);
    for (size_t i = 0; i < reports->count && !err; i++)
        err = gate_report_write(&report, reports->items[i], diag);
    return err;
}

static int run_gate(struct gate *gate) {
    static const int statuses[] = {0, EXIT_FAIL, EXIT_INCONCLUSIVE};
    struct sonde_diag diag = {0};
    sonde_err err = read_runs(gate, &diag);
    if (!err)
        err = decide(gate, &diag);
    if (!err)
        err = report(gate, &diag);
    return err ? cli_fail(&verb_gate, err, &diag) : statuses[gate->decision.result];
}

static int on_gate(int argc, char **argv) {
    struct settings settings = {.frequency = 999};
    struct gate gate = {.settings = &settings};
    int status;
    char **words = repeat_options(&argc, argv);
    if (!words)
        return cli_fail(&verb_gate, SONDE_OUT_OF_MEMORY, NULL);
    if (cli_options(&verb_gate, &settings, false, &argc, words, &status)) {
        gate.service = argc > 1 ? words[1] : NULL;
        status = argc > 2 ? cli_usage(&verb_gate, "unexpected argument \"%.60s\"", words[2])
                          : read_rules(&gate);
        if (!status)
            status = run_gate(&gate);
    }
    gate_decision_finish(&gate.decision);
    sonde_comparison_destroy(gate.comparison);
    gate_input_finish(&gate.input);
    gate_rules_finish(&gate.rules);
    free(words);
    return status;
}

#define GATE_OPTION(name, argument, kind, field, low, high, help)                                  \
    {                                                                                              \
        name, 0, argument, NULL, SONDE_OPTION_##kind, offsetof(struct settings, field), low, high, \
            help                                                                                   \
    }

static const struct sonde_option table[] = {
    GATE_OPTION("base", "FILE...", LIST, sides[0], 0, 0,
                "profiles before the change; with --runs a command, or a selector"),
    GATE_OPTION("new", "FILE...", LIST, sides[1], 0, 0, "the same after the change"),
    GATE_OPTION("runs", "N", NUMBER, runs, 1, GATE_MAX_RUNS,
                "run and record both commands N times, by turns"),
    GATE_OPTION("frequency", "HZ", NUMBER, frequency, 1, 10000,
                "with --runs: samples per second of CPU time (default 999)"),
    GATE_OPTION("max-increase", "SHARE", TEXT, max_increase, 0, 0,
                "limit for the total (default " GATE_MAX_INCREASE ")"),
    GATE_OPTION("function", "REGEX=SHARE", LIST, functions, 0, 0,
                "limit for each function that matches, with what it calls: ^parse=5%"),
    GATE_OPTION("min-effect", "SHARE", TEXT, min_effect, 0, 0,
                "ignore smaller changes, as a share of the total (default " GATE_MIN_EFFECT ")"),
    GATE_OPTION("confidence", "SHARE", TEXT, confidence, 0, 0,
                "of the intervals (default " GATE_CONFIDENCE ")"),
    GATE_OPTION("per", "UNIT", TEXT, per, 0, 0,
                "compare per run (default), second, or count of a run: requests=5000"),
    GATE_OPTION("type", "TYPE", TEXT, type, 0, 0, "sample type to compare"),
    GATE_OPTION("report", "FILE", LIST, reports, 0, 0,
                "also write a report: .txt, .md, .json, .xml (JUnit) or .sarif"),
    HISTORY_OPTION(struct settings, "from", "TIME", from,
                   "history: begin, for example -1d (default -1h)"),
    HISTORY_OPTION(struct settings, "until", "TIME", until, "history: end (default now)"),
    HISTORY_OPTION(struct settings, "event", "EVENT", event, "history: " SONDE_EVENT_NAMES),
    SERVICE_OPTIONS(struct settings, service),
};

static const struct sonde_options options = {
    .usage = "sonde gate [--runs N | SERVICE --from TIME] --base FILE... --new FILE... [options]",
    .about =
        "Decides whether a program uses more than before. Exits with 0 for PASS, 10 for FAIL,\n"
        "11 for INCONCLUSIVE: the runs are too few or too noisy to exclude the limit.",
    .examples =
        "  sonde gate --base base/*.pb.gz --new new/*.pb.gz --report gate.md\n"
        "  sonde gate --base a*.pb.gz --new b*.pb.gz --function '^parse=5%' --per requests=5000\n"
        "  sonde gate --runs 8 --base './old --bench' --new './new --bench' --max-increase 2%\n"
        "  sonde gate shop --base \"version='1.4'\" --new \"version='1.5'\" --from -1d\n",
    .table = table,
    .count = COUNT_OF(table),
};

const struct verb verb_gate = {"gate", "decide whether a program became slower, for CI", on_gate,
                               &options};
