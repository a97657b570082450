/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/formats.h"

#include <stdio.h>
#include <string.h>

const struct sonde_format_info *format_choose(const char *name, const char *path,
                                              unsigned subjects) {
    char file[64];
    const struct sonde_format_info *info =
        name ? sonde_format_from_output_of(sonde_slice_of(name), subjects) : NULL;
    if (info)
        return info;
    snprintf(file, sizeof file, "x.%.60s", name ? name : "");
    info = sonde_format_from_name(name ? file : path);
    return info && (info->offered & subjects) ? info : NULL;
}

/* Appends " proto flamegraph ..." or " .pb.gz .svg ...". */
static void list_formats(struct sonde_buf *list, unsigned subjects, bool by_name) {
    size_t count;
    const struct sonde_format_info *table = sonde_format_table(&count);
    for (size_t i = 0; i < count; i++)
        if (table[i].offered & subjects)
            sonde_buf_printf(list, " %s", by_name ? table[i].output : table[i].extension);
}

int format_refuse(const struct verb *verb, const char *name, const char *path, unsigned subjects) {
    struct sonde_buf list = {0};
    bool is_stdout = strcmp(path, "-") == 0;
    int status;
    list_formats(&list, subjects, name || is_stdout);
    const char *words = list.data ? list.data : "";
    if (name)
        status = cli_usage(verb, "unknown format \"%.80s\"; use one of%s", name, words);
    else if (is_stdout)
        status = cli_usage(verb, "output to stdout needs --format, one of%s", words);
    else
        status = cli_usage(verb, "\"%.80s\": unknown extension; use one of%s (or --format)", path,
                           words);
    sonde_buf_finish(&list);
    return status;
}
