/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings that a program reads again while it runs (SIGHUP). The environment and the flags are
 * those of the start; the file may have changed. The program applies what it can, and reports the
 * rest, which needs a restart.
 *
 * Thread safety: settings_reload_keep at the start, settings_reload on one thread at a time. */
#ifndef SONDE_API_SETTINGS_SETTINGS_RELOAD_H
#define SONDE_API_SETTINGS_SETTINGS_RELOAD_H

#include "api/settings/options.h"

#define SETTINGS_RELOAD_MAX_WORDS 512

struct settings_reload {
    const struct sonde_options *options;
    char *argv[SETTINGS_RELOAD_MAX_WORDS + 1];
    int argc;
};

/* Call it before sonde_options_read, which reorders argv. Words beyond the limit make every reload
 * fail. */
void settings_reload_keep(struct settings_reload *reload, const struct sonde_options *options,
                          int argc, char **argv);

/* Reads the settings to *fresh, which the caller has filled with the defaults, and calls on_change
 * for each option whose value differs from that in *current. Errors: those of sonde_options_read,
 * without a call. */
SONDE_MUST_USE sonde_err settings_reload(const struct settings_reload *reload, const void *current,
                                         void *fresh,
                                         void (*on_change)(void *context,
                                                           const struct sonde_option *option),
                                         void *context, struct sonde_diag *diag);

#endif
