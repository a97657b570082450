/* SPDX-License-Identifier: Apache-2.0
 *
 * `sonde diff`: shows what changed between two profiles, each a file or the number of a saved
 * capture. Captures are downloaded as pprof and compared here, so a capture can be compared with a
 * file. */
#include "api/draw/diff.h"
#include "api/profile/pprof/pprof.h"
#include "clients/cli/formats.h"
#include "clients/cli/verbs/source.h"
#include "clients/cli/verbs/verbs.h"

#include <string.h>

#define FETCH_TIMEOUT_MS  120000
#define MAX_PROFILE_BYTES (2048ull << 20)

struct settings {
    struct service_settings service;
    const char *output, *format, *title, *type;
    bool growth_only, normalize, merge_threads;
};

/* ---- A capture ---- */

static bool on_event(void *context, const ProtobufCMessage *message) {
    const Sonde__V1__CaptureEvent *event = (const void *)message;
    struct sonde_buf *bytes = context;
    if (event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_CHUNK)
        sonde_buf_append(bytes, event->chunk.data, event->chunk.len);
    return !bytes->failed;
}

static sonde_err fetch(const struct settings *settings, uint64_t id, struct sonde_profile **profile,
                       struct sonde_diag *diag) {
    Sonde__V1__GetCaptureRequest request = SONDE__V1__GET_CAPTURE_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    struct sonde_buf bytes = {.limit = MAX_PROFILE_BYTES};
    struct service service;
    rendering.format = SONDE__V1__FORMAT__PPROF;
    request.id = id;
    request.rendering = &rendering;
    sonde_err err = service_open(&service, &settings->service, diag);
    if (!err)
        err = service_stream(&service, &client_get_capture, &request.base, FETCH_TIMEOUT_MS,
                             on_event, &bytes, diag);
    service_close(&service);
    if (!err && bytes.failed)
        err =
            sonde_fail(diag, SONDE_TOO_LARGE, "capture %llu is too large", (unsigned long long)id);
    if (!err)
        err = sonde_pprof_read(sonde_buf_slice(&bytes), MAX_PROFILE_BYTES, profile, diag);
    sonde_buf_finish(&bytes);
    return err;
}

static sonde_err read_profile(const struct settings *settings, const char *word,
                              struct sonde_profile **profile, struct sonde_diag *diag) {
    uint64_t id;
    return capture_read_number(word, &id) ? fetch(settings, id, profile, diag)
                                          : source_read(word, profile, diag);
}

/* ---- The comparison ---- */

static sonde_err draw(const struct settings *settings, const struct sonde_profile *base,
                      const struct sonde_profile *now, enum sonde_format format, const char *path,
                      struct sonde_diag *diag) {
    const struct sonde_draw_diff diff = {base, now, settings->growth_only, settings->normalize};
    const struct sonde_draw_options options = {
        .title = settings->title, .type = settings->type, .merge_threads = settings->merge_threads};
    struct sonde_buf drawn = {0};
    struct output output = {.fd = -1};
    sonde_err err = sonde_draw_difference(&diff, format, &options, &drawn, diag);
    if (!err)
        err = output_open(&output, path, diag);
    if (!err)
        err = output_write(&output, drawn.data, drawn.len, diag);
    if (!err)
        err = output_commit(&output, diag);
    output_finish(&output);
    sonde_buf_finish(&drawn);
    return err;
}

/* The default is a table on stdout. */
static const struct sonde_format_info *choose_format(const struct settings *settings,
                                                     const char *path) {
    if (settings->format || settings->output)
        return format_choose(settings->format, path, FORMATS_ANY);
    return sonde_format_info(SONDE_FORMAT_TEXT_TOP);
}

static bool is_profile_argument(const char *word) {
    uint64_t id;
    return capture_read_number(word, &id) || source_is_file(word);
}

static int on_diff(int argc, char **argv) {
    struct settings settings = {0};
    struct sonde_diag diag = {0};
    struct sonde_profile *base = NULL, *now = NULL;
    int status;
    if (!cli_options(&verb_diff, &settings, false, &argc, argv, &status))
        return status;
    if (argc != 3)
        return cli_usage(&verb_diff, "two profiles needed: BASE and NEW");
    for (int i = 1; i < 3; i++)
        if (!is_profile_argument(argv[i]))
            return cli_usage(&verb_diff,
                             "\"%.60s\" is neither a capture number (see `sonde captures`) nor a "
                             "file name with a / or an extension such as .pb.gz",
                             argv[i]);
    const char *path = settings.output ? settings.output : "-";
    const struct sonde_format_info *format = choose_format(&settings, path);
    if (!format)
        return format_refuse(&verb_diff, settings.format, path, FORMATS_ANY);
    sonde_err err = read_profile(&settings, argv[1], &base, &diag);
    if (!err)
        err = read_profile(&settings, argv[2], &now, &diag);
    if (!err)
        err = draw(&settings, base, now, format->format, path, &diag);
    sonde_profile_destroy(base);
    sonde_profile_destroy(now);
    return err ? cli_fail(&verb_diff, err, &diag) : 0;
}

static const struct sonde_option table[] = {
    {"output", 'o', "FILE", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, output), 0, 0,
     "output file, format by extension (default: a table on stdout)"},
    {"format", 0, "NAME", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, format), 0, 0,
     FORMAT_HELP},
    {"growth-only", 'g', NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, growth_only), 0,
     0, "show only what grew"},
    {"normalize", 'n', NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, normalize), 0, 0,
     "scale NEW to the total of BASE before comparing"},
    {"type", 't', "TYPE", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, type), 0, 0,
     "sample type to show in pictures and text"},
    {"title", 0, "TEXT", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, title), 0, 0,
     "title of the picture"},
    {"merge-threads", 'm', NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, merge_threads),
     0, 0, "merge all threads"},
    SERVICE_OPTIONS(struct settings, service),
};

static const struct sonde_options options = {
    .usage = "sonde diff BASE NEW [-o FILE]",
    .about =
        "Shows what changed between two profiles. Each is a file or the number of a saved capture.",
    .examples = "  sonde diff before.pb.gz after.pb.gz\n"
                "  sonde diff 6 7 -o diff.svg                red: grew; blue: shrank\n"
                "  sonde diff release.pb.gz 7 --normalize\n"
                "  sonde diff monday.heap friday.heap -g -o growth.svg\n",
    .table = table,
    .count = COUNT_OF(table),
};

const struct verb verb_diff = {"diff", "show what changed between two profiles", on_diff, &options};
