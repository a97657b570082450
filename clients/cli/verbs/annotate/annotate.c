/* SPDX-License-Identifier: Apache-2.0
 *
 * `sonde annotate`: a function's source lines and instructions with their share of the samples. */
#include "clients/cli/verbs/annotate/fetch_code.h"
#include "clients/cli/verbs/annotate/print.h"
#include "clients/cli/verbs/annotate/profiles.h"
#include "clients/cli/verbs/verbs.h"

#include <inttypes.h>
#include <string.h>

struct settings {
    struct profiles_settings profiles;
    struct sonde_option_list source_path;
    bool instructions, all_lines, json;
};

struct annotation {
    const struct settings *settings;
    struct profiles profiles;
    struct subject_name name;
    struct subject now, base;
    bool same_code; /* both sides' addresses are in the code */
    Sonde__V1__Code *code;
    struct view view;
    struct source_texts texts;
};

/* ---- reading ---- */

static bool is_same_code(const struct subject *left, const struct subject *right) {
    bool has_build_id = *left->build_id || *right->build_id;
    return has_build_id ? strcmp(left->build_id, right->build_id) == 0
                        : strcmp(left->path, right->path) == 0;
}

/* Several functions of that name are listed on stderr. */
static sonde_err find(const struct sonde_profile *profile, size_t type,
                      const struct subject_name *name, struct subject *subject,
                      struct sonde_diag *diag) {
    struct sonde_buf choices = {0};
    sonde_err err = subject_find(profile, type, name, subject, &choices, diag);
    fputs(sonde_buf_slice(&choices).data, stderr);
    sonde_buf_finish(&choices);
    return err;
}

/* The function need not be in the base, and its file can have another name there. */
static sonde_err find_base(struct annotation *annotation, struct sonde_diag *diag) {
    struct subject *base = &annotation->base;
    const struct profiles *profiles = &annotation->profiles;
    if (!profiles->base)
        return SONDE_OK;
    struct subject_name same = annotation->name;
    snprintf(same.name, sizeof same.name, "%s", annotation->now.name);
    sonde_err err = find(profiles->base, profiles->base_type, &same, base, diag);
    if (err == SONDE_NOT_FOUND && same.file) {
        same.file = NULL;
        subject_finish(base);
        err = find(profiles->base, profiles->base_type, &same, base, diag);
    }
    if (err == SONDE_NOT_FOUND) {
        fputs("note: the function is not in the base\n", stderr);
        return SONDE_OK;
    }
    annotation->same_code = !err && is_same_code(base, &annotation->now);
    return err;
}

static sonde_err read_code(struct annotation *annotation, struct sonde_diag *diag) {
    const struct subject *subjects[] = {&annotation->now, &annotation->base};
    const struct fetch_request request = {
        .subjects = subjects,
        .subject_count = annotation->same_code && annotation->base.count > 0 ? 2 : 1,
        .function = annotation->name.start,
        .pid = annotation->profiles.pid,
    };
    return fetch_code(&request, &annotation->code, diag);
}

static bool knows_lines(const struct subject *subject) {
    for (uint32_t i = 0; i < subject->count; i++) {
        const struct sonde_location *at =
            sonde_profile_location(subject->profile, subject->locations[i]);
        if (at->line_count > 0 && at->lines[0].line > 0)
            return true;
    }
    return false;
}

/* A file that was cut, or that has no build-id and is another one. */
static sonde_err refuse_strange(struct annotation *annotation, struct sonde_diag *diag) {
    Sonde__V1__Code *code = annotation->code;
    if (!code || code->n_functions > 0)
        return SONDE_OK;
    sonde_err err = sonde_fail(diag, SONDE_NOT_FOUND,
                               "%.100s has no function at the sampled addresses: it is damaged, or "
                               "another build",
                               code->path);
    sonde__v1__code__free_unpacked(code, NULL);
    annotation->code = NULL;
    return err;
}

/* If the file cannot be read, only the lines that the profile has are shown. */
static sonde_err read_code_or_lines(struct annotation *annotation, struct sonde_diag *diag) {
    sonde_err err = read_code(annotation, diag);
    if (!err)
        err = refuse_strange(annotation, diag);
    bool is_missing = err == SONDE_NOT_FOUND || err == SONDE_NOT_AVAILABLE || err == SONDE_CORRUPT;
    if (!is_missing || annotation->name.start || !knows_lines(&annotation->now))
        return err;
    cli_put_line(stderr, "note: no instructions: ", diag->text);
    return SONDE_OK;
}

static sonde_err count(struct annotation *annotation) {
    const struct subject *base = &annotation->base;
    uint64_t start = annotation->name.start;
    uint32_t base_first = annotation->same_code ? annotation->now.count : VIEW_NONE;
    sonde_err err = view_init(&annotation->view, annotation->code, annotation->now.name);
    if (!err)
        err = view_count(&annotation->view, VIEW_NOW, &annotation->now, 0, start);
    annotation->view.has_base = annotation->profiles.base != NULL;
    if (!err && base->count > 0)
        err = view_count(&annotation->view, VIEW_BASE, base, base_first, start);
    return err;
}

/* ---- several functions of one name ---- */

static uint32_t count_whole(const Sonde__V1__Code *code) {
    uint32_t whole = 0;
    for (size_t i = 0; i < code->n_functions; i++)
        whole += !code->functions[i]->is_part;
    return whole;
}

static sonde_err print_choice(const struct annotation *annotation,
                              const Sonde__V1__CodeFunction *function) {
    const Sonde__V1__Code *code = annotation->code;
    struct view view;
    sonde_err err = view_init(&view, code, "");
    if (!err)
        err = view_count(&view, VIEW_NOW, &annotation->now, 0, function->start);
    if (!err) {
        fprintf(stderr, "%7.2f%% %7.2f%%  ", 100 * view.counts[VIEW_NOW].self,
                100 * view.counts[VIEW_NOW].total);
        cli_put_whole_name(stderr, annotation->now.name);
        fprintf(stderr, "@0x%" PRIx64, function->start);
        const char *file = view_text(code, function->file);
        if (*file)
            fprintf(stderr, "  %s:%u", print_base_name(file), function->line);
        fputc('\n', stderr);
    }
    view_finish(&view);
    return err;
}

static sonde_err refuse_several(const struct annotation *annotation, struct sonde_diag *diag) {
    const Sonde__V1__Code *code = annotation->code;
    sonde_err err = SONDE_OK;
    fprintf(stderr, "%8s %8s  FUNCTION@ADDRESS\n", "SELF", "TOTAL");
    for (size_t i = 0; i < code->n_functions && !err; i++)
        if (!code->functions[i]->is_part)
            err = print_choice(annotation, code->functions[i]);
    return err ? err
               : sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                            "%.60s has %u functions called \"%.60s\": name one of them as "
                            "FUNCTION@ADDRESS",
                            print_base_name(code->path), count_whole(code), annotation->now.name);
}

/* ---- notes ---- */

static void note_sources(struct annotation *annotation) {
    const Sonde__V1__Code *code = annotation->code;
    if (annotation->texts.servers_are_silent)
        fputs("note: the debuginfod servers do not answer\n", stderr);
    if (annotation->texts.has_more)
        fprintf(stderr, "note: lines of more than %u source files have no text\n", SOURCE_FILES);
    for (size_t i = 0; i < annotation->texts.count; i++) {
        const struct source_file *file = &annotation->texts.files[i];
        if (!file->found && *file->name)
            cli_put_line(stderr, "note: source not found (see --source-path): ", file->name);
        else if (code && file->found && code->modified_unix_ns > 0 &&
                 file->modified_unix_ns > code->modified_unix_ns)
            cli_put_line(stderr,
                         "note: this source is newer than the binary, so lines may not match: ",
                         file->found);
    }
}

static void note_code(const struct annotation *annotation) {
    const Sonde__V1__Code *code = annotation->code;
    if (!code)
        return;
    cli_put_line(stderr, "note: no instructions: ", code->without_code);
    if (*code->without_lines)
        cli_put_line(stderr, "note: no inlined calls and lines: ", code->without_lines);
    if (code->is_cut)
        fputs("note: only the first 131,072 instructions are shown\n", stderr);
    if (strcmp(code->build_id, annotation->now.build_id) != 0 && *annotation->now.build_id == 0)
        fputs("note: the profile has no build-id, so the file may be another one\n", stderr);
}

static void note_inlining(const struct annotation *annotation) {
    const struct subject *subject = &annotation->now;
    double share = (double)subject->inlined_elsewhere / subject_whole(subject);
    if (subject->is_container) {
        fprintf(stderr, "note: %.200s is only inlined; this is the function with most of it\n",
                annotation->name.name);
    } else if (share > 0) {
        fprintf(stderr,
                "note: %.2f%% of the samples are in copies of it that are inlined into other "
                "functions\n",
                100 * share);
    }
}

/* ---- printing ---- */

static void print_header(const struct annotation *annotation) {
    const struct view *view = &annotation->view;
    const struct subject *subject = &annotation->now;
    struct sonde_value_type type = sonde_profile_type(subject->profile, subject->type);
    print_function(stdout, subject->name);
    fputs(" in ", stdout);
    cli_put_whole_name(stdout, *subject->path ? subject->path : "?");
    printf(": %.2f%% self, %.2f%% total of %s", 100 * view->counts[VIEW_NOW].self,
           100 * view->counts[VIEW_NOW].total, type.type);
    if (view->has_base)
        printf(" (base: %.2f%%, %.2f%%)", 100 * view->counts[VIEW_BASE].self,
               100 * view->counts[VIEW_BASE].total);
    fputs("\n\n", stdout);
}

static bool has_lines(const struct view *view) {
    for (uint32_t i = 0; i < view->place_count; i++)
        if (view->places[i].line > 0)
            return true;
    return false;
}

static sonde_err print(struct annotation *annotation) {
    const struct print_options options = {.all = annotation->settings->all_lines,
                                          .texts = &annotation->texts};
    const struct view *view = &annotation->view;
    bool by_address = annotation->settings->instructions || !has_lines(view);
    if (annotation->settings->json) {
        print_json(view, &options);
        return SONDE_OK;
    }
    print_header(annotation);
    return by_address && view->instruction_count > 0 ? print_instructions(view, &options)
                                                     : print_lines(view, &options);
}

/* ---- the verb ---- */

static sonde_err annotate(struct annotation *annotation, const char *word,
                          struct sonde_diag *diag) {
    const struct profiles *profiles = &annotation->profiles;
    subject_read_name(profiles->now, word, &annotation->name);
    sonde_err err =
        find(profiles->now, profiles->now_type, &annotation->name, &annotation->now, diag);
    if (!err)
        err = find_base(annotation, diag);
    if (!err)
        err = read_code_or_lines(annotation, diag);
    if (!err && annotation->code && !annotation->name.start && count_whole(annotation->code) > 1)
        err = refuse_several(annotation, diag);
    if (!err)
        err = count(annotation);
    annotation->texts.build_id =
        annotation->code ? annotation->code->build_id : annotation->now.build_id;
    if (!err)
        err = print(annotation);
    if (err)
        return err;
    fflush(stdout);
    note_inlining(annotation);
    note_code(annotation);
    note_sources(annotation);
    return SONDE_OK;
}

static void finish(struct annotation *annotation) {
    source_texts_finish(&annotation->texts);
    view_finish(&annotation->view);
    if (annotation->code)
        sonde__v1__code__free_unpacked(annotation->code, NULL);
    subject_finish(&annotation->now);
    subject_finish(&annotation->base);
    profiles_finish(&annotation->profiles);
}

static int on_annotate(int argc, char **argv) {
    struct settings settings = {.profiles.source.capture = CAPTURE_DEFAULTS};
    static struct annotation annotation; /* large */
    struct sonde_diag diag = {0};
    int status;
    if (!cli_options(&verb_annotate, &settings, false, &argc, argv, &status))
        return status;
    if (argc < 2 || !argv[1][0])
        return cli_usage(&verb_annotate, "a function is needed; `sonde top` lists them");
    if (argc > 3)
        return cli_usage(&verb_annotate, "unexpected argument \"%s\"", argv[3]);
    const char *contradiction = profiles_contradiction(&settings.profiles, argv[2]);
    if (contradiction)
        return cli_usage(&verb_annotate, "%s", contradiction);
    annotation.settings = &settings;
    annotation.texts.directories = settings.source_path.items;
    annotation.texts.directory_count = settings.source_path.count;
    sonde_err err = profiles_read(&settings.profiles, argv[2], &annotation.profiles, &diag);
    if (!err)
        err = annotate(&annotation, argv[1], &diag);
    finish(&annotation);
    return err ? cli_fail(&verb_annotate, err, &diag) : 0;
}

#define ANNOTATE_OPTION(name, letter, argument, kind, field, help)                                 \
    {                                                                                              \
        name, letter, argument, NULL, SONDE_OPTION_##kind, offsetof(struct settings, field), 0, 0, \
            help                                                                                   \
    }
#define CAPTURE(name, letter, argument, kind, field, low, high, help)                             \
    CAPTURE_OPTION(struct settings, profiles.source.capture, name, letter, argument, kind, field, \
                   low, high, help)

static const struct sonde_option table[] = {
    ANNOTATE_OPTION("asm", 0, NULL, FLAG, instructions,
                    "list instructions by address, with arrows for jumps"),
    ANNOTATE_OPTION("all-lines", 0, NULL, FLAG, all_lines,
                    "also show code without samples (default: a few lines around)"),
    ANNOTATE_OPTION("source-path", 0, "DIR", LIST, source_path,
                    "where to look for source files; may be repeated"),
    ANNOTATE_OPTION("base", 0, "FILE", TEXT, profiles.base, "profile file to compare with"),
    ANNOTATE_OPTION("from", 0, "TIME", TEXT, profiles.from,
                    "show a range of the history: begin (default -1h)"),
    ANNOTATE_OPTION("until", 0, "TIME", TEXT, profiles.until, "its end (default now)"),
    ANNOTATE_OPTION("base-from", 0, "TIME", TEXT, profiles.base_from,
                    "compare with an earlier range: begin"),
    ANNOTATE_OPTION("base-until", 0, "TIME", TEXT, profiles.base_until, "its end"),
    ANNOTATE_OPTION("selector", 0, "TEXT", TEXT, profiles.selector,
                    "of the history: condition on labels, \"host = 'a'\""),
    ANNOTATE_OPTION("type", 't', "TYPE", TEXT, profiles.source.type,
                    "sample type to show (default: the profile's default one)"),
    ANNOTATE_OPTION("json", 0, NULL, FLAG, json, "print lines and instructions as JSON"),
    CAPTURE("duration", 'd', "SECONDS", SECONDS, seconds, 0.001, 3600,
            "how long to sample: 10 (default), 500ms, 5m"),
    CAPTURE("frequency", 'F', "HZ", NUMBER, frequency, 1, 10000,
            "samples per second of CPU time (default 99)"),
    CAPTURE("event", 'e', "EVENT", TEXT, event, 0, 0,
            "count page-faults, context-switches ... instead (see `sonde events`)"),
    CAPTURE("mode", 0, "MODE", TEXT, mode, 0, 0,
            "cpu, wall (all threads, running or not) or off-cpu (only waiting)"),
    PERF_OPTIONS(struct settings, profiles.source.capture.ignored),
    SERVICE_OPTIONS(struct settings, profiles.source.service),
};

static const struct sonde_options options = {
    .usage = "sonde annotate FUNCTION [FILE | PID | NAME] [--asm] [--source-path DIR]",
    .about = "Shows a function's source lines and instructions with their share of the samples of\n"
             "a profile file (pprof, perf.data), a process, or with --from a service's history.",
    .examples =
        "  sonde annotate parse_request profile.pb.gz\n"
        "  sonde annotate parse_request 4711 --asm -d 5\n"
        "  sonde annotate 'shop::price' shop --from -1h --base-from -25h --base-until -24h\n"
        "  sonde annotate main perf.data --source-path ~/src/shop\n",
    .table = table,
    .count = COUNT_OF(table),
};

const struct verb verb_annotate = {
    "annotate", "show a function's lines and instructions with samples", on_annotate, &options};
