/* SPDX-License-Identifier: Apache-2.0 */
#include "api/settings/settings_reload.h"

#include <string.h>

void settings_reload_keep(struct settings_reload *reload, const struct sonde_options *options,
                          int argc, char **argv) {
    reload->options = options;
    reload->argc = argc;
    for (int i = 0; i < argc && i < SETTINGS_RELOAD_MAX_WORDS; i++)
        reload->argv[i] = argv[i];
}

static bool text_equals(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool list_equals(const struct sonde_option_list *a, const struct sonde_option_list *b) {
    bool equal = a->count == b->count;
    for (size_t i = 0; equal && i < a->count; i++)
        equal = text_equals(a->items[i], b->items[i]);
    return equal;
}

static bool value_equals(enum sonde_option_kind kind, const void *a, const void *b) {
    switch (kind) {
    case SONDE_OPTION_FLAG:
        return *(const bool *)a == *(const bool *)b;
    case SONDE_OPTION_TEXT:
        return text_equals(*(const char *const *)a, *(const char *const *)b);
    case SONDE_OPTION_NUMBER:
    case SONDE_OPTION_MILLISECONDS:
        return *(const uint64_t *)a == *(const uint64_t *)b;
    case SONDE_OPTION_DECIMAL:
    case SONDE_OPTION_SECONDS:
        return !(*(const double *)a < *(const double *)b ||
                 *(const double *)a > *(const double *)b);
    case SONDE_OPTION_LIST:
        return list_equals(a, b);
    case SONDE_OPTION_ARGUMENT:
        break;
    }
    return true;
}

sonde_err settings_reload(const struct settings_reload *reload, const void *current, void *fresh,
                          void (*on_change)(void *context, const struct sonde_option *option),
                          void *context, struct sonde_diag *diag) {
    char *argv[SETTINGS_RELOAD_MAX_WORDS + 1];
    int argc = reload->argc;
    if (argc > SETTINGS_RELOAD_MAX_WORDS)
        return sonde_fail(diag, SONDE_TOO_LARGE, "the command line is too long to read it again");
    memcpy(argv, reload->argv, sizeof argv);
    sonde_err err = sonde_options_read(reload->options, fresh, false, &argc, argv, diag);
    for (size_t i = 0; !err && i < reload->options->count; i++) {
        const struct sonde_option *option = &reload->options->table[i];
        if (!value_equals(option->kind, (const char *)current + option->offset,
                          (const char *)fresh + option->offset))
            on_change(context, option);
    }
    return err;
}
