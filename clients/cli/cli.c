/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/cli.h"

#include <stdarg.h>
#include <stdio.h>

bool cli_options(const struct verb *verb, void *settings, bool stop_at_plain, int *argc,
                 char **argv, int *status) {
    struct sonde_diag diag = {0};
    sonde_err err = sonde_options_read(verb->options, settings, stop_at_plain, argc, argv, &diag);
    if (err == SONDE_OK)
        return true;
    *status = err == SONDE_CANCELLED ? 0 : cli_usage(verb, "%s", sonde_diag_text(&diag, err));
    return false;
}

int cli_fail(const struct verb *verb, sonde_err err, const struct sonde_diag *diag) {
    fprintf(stderr, "sonde %s: %s\n", verb->name, sonde_diag_text(diag, err));
    return sonde_error_info(err)->exit_code;
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

void cli_put_name(FILE *out, const char *name) {
    for (size_t i = 0; name[i] && i < 80; i++)
        fputc((unsigned char)name[i] < ' ' || name[i] == 127 ? '?' : name[i], out);
}
