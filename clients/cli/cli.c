/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/cli.h"

#include "api/text/utf8.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

bool cli_options(const struct verb *verb, void *settings, bool stop_at_plain, int *argc,
                 char **argv, int *status) {
    struct sonde_diag diag = {0};
    sonde_err err = sonde_options_read(verb->options, settings, stop_at_plain, argc, argv, &diag);
    if (err == SONDE_OK)
        return true;
    *status = err == SONDE_CANCELLED ? 0 : cli_usage(verb, "%s", sonde_diag_text(&diag, err));
    return false;
}

int cli_usage(const struct verb *verb, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "sonde %s: ", verb->name);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\nusage: %s\n", verb->options->usage);
    va_end(arguments);
    return sonde_error_info(SONDE_INVALID_ARGUMENT)->exit_code;
}

bool cli_read_share(const char *text, double *share) {
    char *end = NULL;
    *share = strtod(text, &end);
    if (end == text)
        return false;
    if (*end == '%') {
        *share /= 100;
        end++;
    }
    return *end == 0;
}

static void put(FILE *out, const char *text, size_t most) {
    size_t len = strnlen(text, most);
    for (size_t i = 0; i < len;) {
        size_t step = sonde_utf8_printable(text + i, len - i);
        if (step)
            fwrite(text + i, 1, step, out);
        else
            fputc('?', out);
        i += step ? step : 1;
    }
}

void cli_put_name(FILE *out, const char *name) {
    put(out, name, 80);
}

void cli_put_whole_name(FILE *out, const char *name) {
    put(out, name, SIZE_MAX);
}

void cli_put_columns(FILE *out, const char *text, size_t columns) {
    size_t len = strlen(text);
    for (size_t at = 0; at < len && columns > 0; columns--) {
        size_t step = sonde_utf8_printable(text + at, len - at);
        put(out, text + at, step ? step : 1);
        at += step ? step : 1;
    }
}

void cli_put_text(FILE *out, const char *text) {
    put(out, text, 1000);
}

void cli_put_line(FILE *out, const char *before, const char *text) {
    if (!text[0])
        return;
    fputs(before, out);
    cli_put_text(out, text);
    fputc('\n', out);
}

const char *cli_size_text(uint64_t bytes, char text[CLI_VALUE_BYTES]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double size = (double)bytes;
    size_t unit = 0;
    for (; size >= 1024 && unit + 1 < COUNT_OF(units); unit++)
        size /= 1024;
    bool is_whole = size == (double)(uint64_t)size;
    snprintf(text, CLI_VALUE_BYTES, "%.*f %s", is_whole ? 0 : 2, size, units[unit]);
    return text;
}

const char *cli_time_text(int64_t unix_ns, char text[CLI_VALUE_BYTES]) {
    time_t seconds = (time_t)(unix_ns / 1000000000);
    struct tm local;
    if (!unix_ns || !localtime_r(&seconds, &local) ||
        !strftime(text, CLI_VALUE_BYTES, "%Y-%m-%d %H:%M:%S", &local))
        return "-";
    return text;
}

/* What a service says may quote names from a profiled process. Some errors have several lines. */
int cli_fail(const struct verb *verb, sonde_err err, const struct sonde_diag *diag) {
    fprintf(stderr, "sonde %s: ", verb->name);
    for (const char *line = sonde_diag_text(diag, err); line;) {
        const char *end = strchr(line, '\n');
        put(stderr, line, end ? (size_t)(end - line) : SIZE_MAX);
        fputc('\n', stderr);
        line = end && end[1] ? end + 1 : NULL;
    }
    return sonde_error_info(err)->exit_code;
}

void cli_age(char text[24], int64_t since_unix_ns) {
    static const struct {
        int64_t seconds;
        const char *unit;
    } units[] = {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}};
    int64_t age = (int64_t)time(NULL) - since_unix_ns / 1000000000;
    size_t i = 0;
    while (i < COUNT_OF(units) - 1 && age < 2 * units[i].seconds)
        i++;
    snprintf(text, 24, "%" PRId64 " %s", age > 0 ? age / units[i].seconds : 0, units[i].unit);
}
