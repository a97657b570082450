/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/source/source.h"

#include "api/profile/heap/jemalloc.h"
#include "api/profile/heap/memory.h"
#include "api/profile/pprof/pprof.h"
#include "clients/cli/verbs/source/perf_data.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_FILE_BYTES    (512u << 20)
#define MAX_PROFILE_BYTES (2048ull << 20)

/* Extensions that other programs and their documentation give to profiles. */
static bool has_profile_extension(const char *word) {
    static const char *const ends[] = {".pb", ".proto", ".pprof", ".hprof", ".data"};
    size_t len = strlen(word);
    if (strncmp(word, "perf.data", 9) == 0) /* perf.data.old, perf.data.2026112822123456 */
        return true;
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        size_t end = strlen(ends[i]);
        if (len > end && strcmp(word + len - end, ends[i]) == 0)
            return true;
    }
    return false;
}

bool source_is_file(const char *word) {
    return word &&
           (strchr(word, '/') || sonde_format_from_name(word) || has_profile_extension(word));
}

static sonde_err read_bytes(int fd, const char *path, struct sonde_buf *bytes,
                            struct sonde_diag *diag) {
    bytes->limit = MAX_FILE_BYTES;
    ssize_t len = 1;
    while (len > 0 && !bytes->failed) {
        char part[65536];
        len = read(fd, part, sizeof part);
        if (len > 0)
            sonde_buf_append(bytes, part, (size_t)len);
    }
    if (len < 0 && errno == EISDIR)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "%.200s is a directory; if `perf record --threads` made it, record "
                          "without --threads",
                          path);
    if (len < 0)
        return sonde_fail_os(diag, errno, "cannot read %.200s", path);
    if (bytes->failed)
        return sonde_fail(diag, SONDE_TOO_LARGE, "%.200s is larger than 512 MiB", path);
    return SONDE_OK;
}

/* Replaces what a pipe has sent by its pprof file. */
static sonde_err convert_bytes(struct sonde_buf *bytes, struct sonde_diag *diag) {
    struct sonde_buf pprof = {0};
    sonde_err err = perf_data_convert_bytes(sonde_buf_slice(bytes), &pprof, diag);
    sonde_buf_finish(bytes);
    *bytes = pprof;
    return err;
}

/* Reads a file; one of perf, which may be of any size, as pprof. */
static sonde_err read_file(const char *path, struct sonde_buf *bytes, struct sonde_diag *diag) {
    struct sonde_diag detail = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return sonde_fail_os(diag, errno, "cannot read %.200s", path);
    bool is_perf_file = perf_data_is_file(fd);
    sonde_err err = is_perf_file ? SONDE_OK : read_bytes(fd, path, bytes, diag);
    if (!err && is_perf_file)
        err = perf_data_convert(fd, bytes, &detail);
    else if (!err && perf_data_is_one(sonde_buf_slice(bytes)))
        err = convert_bytes(bytes, &detail);
    close(fd);
    if (err && detail.text[0])
        return sonde_fail(diag, err, "cannot read %.120s: %.160s", path,
                          sonde_diag_text(&detail, err));
    return err;
}

/* Reads a jemalloc dump and removes the allocator's own frames. */
static sonde_err read_dump(struct sonde_slice bytes, struct sonde_profile **profile,
                           struct sonde_diag *diag) {
    struct sonde_profile *whole;
    sonde_err err = sonde_jemalloc_read(bytes, MAX_PROFILE_BYTES, &whole, diag);
    if (err)
        return err;
    err = sonde_memory_trim(whole, sonde_memory_of_library, NULL, profile, diag);
    sonde_profile_destroy(whole);
    return err;
}

sonde_err source_read(const char *path, struct sonde_profile **profile, struct sonde_diag *diag) {
    struct sonde_buf bytes = {0};
    struct sonde_diag detail = {0};
    sonde_err err = read_file(path, &bytes, diag);
    if (!err) {
        struct sonde_slice slice = sonde_buf_slice(&bytes);
        bool is_dump = sonde_jemalloc_is_dump(slice);
        err = is_dump ? read_dump(slice, profile, &detail)
                      : sonde_pprof_read(slice, MAX_PROFILE_BYTES, profile, &detail);
        if (err)
            err =
                sonde_fail(diag, err, "cannot read %.120s as a %s: %.160s", path,
                           is_dump ? "heap dump" : "pprof profile", sonde_diag_text(&detail, err));
    }
    sonde_buf_finish(&bytes);
    return err;
}

/* Large documents are written while they are drawn. */
struct writing {
    struct output *output;
    sonde_err err;
    struct sonde_diag diag;
};

static bool write_part(void *context, const char *bytes, size_t len) {
    struct writing *writing = context;
    writing->err = output_write(writing->output, bytes, len, &writing->diag);
    return writing->err == SONDE_OK;
}

static sonde_err draw_profile(const struct sonde_profile *profile, enum sonde_format format,
                              struct sonde_draw_options *options, struct output *output,
                              struct sonde_diag *diag) {
    struct writing writing = {.output = output};
    const struct sonde_draw_sink sink = {write_part, &writing};
    struct sonde_buf drawn = {0};
    options->sink = &sink;
    sonde_err err = sonde_draw(profile, format, options, &drawn, diag);
    if (writing.err) {
        err = writing.err;
        *diag = writing.diag;
    }
    if (!err)
        err = output_write(output, drawn.data, drawn.len, diag);
    sonde_buf_finish(&drawn);
    return err;
}

static void set_table(struct sonde_draw_options *options, const struct source_table *table) {
    if (!table)
        return;
    options->max_rows = table->rows;
    options->by_total = table->by_total;
    options->function = table->function;
    options->full_names = table->full_names;
    options->max_columns = table->full_names ? 0 : output_columns("-");
}

/* Says what the format does with negative values. The table says so itself. */
static void print_note(const struct sonde_profile *profile, enum sonde_format format,
                       const struct sonde_draw_options *options) {
    struct sonde_buf text = {0};
    sonde_draw_note(profile, format, options, &text);
    if (text.len)
        fprintf(stderr, "note: %s\n", text.data);
    sonde_buf_finish(&text);
}

static sonde_err draw_file(const char *path, const struct source_settings *source,
                           enum sonde_format format, struct output *output,
                           struct sonde_diag *diag) {
    const struct capture_settings *settings = &source->capture;
    struct sonde_profile *profile = NULL;
    struct sonde_draw_options options = {0};
    sonde_err err = source_read(path, &profile, diag);
    if (!err) {
        options = sonde_draw_defaults(profile);
        options.title = settings->title ? settings->title : options.title;
        options.type = source->type;
        options.split_threads = cli_splits_threads(&settings->threads);
        options.hide_idle = settings->hide_idle;
        set_table(&options, source->table);
        options.has_processes = settings->all;
    }
    /* "legacy" is the name of two formats. */
    if (!err && format == SONDE_FORMAT_LEGACY_CPU && sonde_memory_types(profile, NULL))
        format = SONDE_FORMAT_LEGACY_HEAP;
    if (!err)
        err = draw_profile(profile, format, &options, output, diag);
    if (!err && !source->table)
        print_note(profile, format, &options);
    sonde_profile_destroy(profile);
    return err;
}

static sonde_err draw_target(const char *target, const struct source_settings *settings,
                             enum sonde_format format, struct output *output,
                             struct capture_result *result, struct sonde_diag *diag) {
    struct service service;
    sonde_err err =
        service_open_or_start(&service, &settings->service, target || settings->capture.all, diag);
    if (!err)
        err = capture_run(&service, target, &settings->capture, format, output, result, diag);
    service_close(&service);
    return err;
}

sonde_err source_memory_open(struct source_memory *memory, struct sonde_diag *diag) {
    memory->output =
        (struct output){.path = "the profile", .fd = memfd_create("profile", MFD_CLOEXEC)};
    snprintf(memory->path, sizeof memory->path, "/proc/self/fd/%d", memory->output.fd);
    return memory->output.fd < 0 ? sonde_fail_os(diag, errno, "cannot keep the profile in memory")
                                 : SONDE_OK;
}

/* Captures the target as pprof into memory and draws that. The capture has already left out the
 * idle threads. */
static sonde_err draw_target_here(const char *target, const struct source_settings *settings,
                                  enum sonde_format format, struct output *output,
                                  struct capture_result *result, struct sonde_diag *diag) {
    struct source_memory memory;
    struct source_settings drawing = *settings;
    drawing.capture.hide_idle = false;
    sonde_err err = source_memory_open(&memory, diag);
    if (!err)
        err = draw_target(target, settings, SONDE_FORMAT_PPROF, &memory.output, result, diag);
    if (!err)
        err = draw_file(memory.path, &drawing, format, output, diag);
    output_finish(&memory.output);
    return err;
}

sonde_err source_capture(const char *target, const struct source_settings *settings,
                         struct sonde_profile **profile, struct capture_result *result,
                         struct sonde_diag *diag) {
    struct source_memory memory;
    sonde_err err = source_memory_open(&memory, diag);
    if (!err)
        err = draw_target(target, settings, SONDE_FORMAT_PPROF, &memory.output, result, diag);
    if (!err)
        err = source_read(memory.path, profile, diag);
    output_finish(&memory.output);
    return err;
}

int source_draw(const struct verb *verb, const char *word, const struct source_settings *settings,
                enum sonde_format format, const char *output_path) {
    bool is_file = source_is_file(word);
    struct sonde_diag diag = {0};
    struct capture_result result = {0};
    struct output output = {.fd = -1};
    sonde_err err = output_open(&output, output_path, &diag);
    if (!err && is_file)
        err = draw_file(word, settings, format, &output, &diag);
    else if (!err && (settings->table || settings->type))
        err = draw_target_here(word, settings, format, &output, &result, &diag);
    else if (!err)
        err = draw_target(word, settings, format, &output, &result, &diag);
    if (!err)
        err = output_commit(&output, &diag);
    output_finish(&output);
    if (err)
        return cli_fail(verb, err, &diag);
    if (!is_file && strcmp(output_path, "-") != 0)
        capture_print_summary(output_path, &result);
    return 0;
}
