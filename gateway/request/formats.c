/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/request/formats.h"

#include <string.h>

/* A second name of formats. GreptimeDB's text has the thread of each stack. */
#define ALIAS "text"
static const struct {
    enum sonde_format format;
    unsigned offered;
    bool splits_threads;
} aliases[] = {
    {SONDE_FORMAT_COLLAPSED, FORMATS_CPU | FORMATS_ALLOCATIONS, true},
    {SONDE_FORMAT_JEMALLOC, FORMATS_HEAP, false},
};

static bool is_left_out(const struct sonde_format_info *info, unsigned families) {
    return !(info->offered & families) || (families == FORMATS_DRAWN && !info->is_drawn);
}

const struct sonde_format_info *format_find(struct sonde_slice output, enum format_family family,
                                            bool *splits_threads) {
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++) {
        if (!(aliases[i].offered & family) || !sonde_slice_equals(output, ALIAS))
            continue;
        *splits_threads = aliases[i].splits_threads;
        return sonde_format_info(aliases[i].format);
    }
    const struct sonde_format_info *info =
        sonde_format_from_output_of(output, (enum sonde_subject)family);
    return info && is_left_out(info, family) ? NULL : info;
}

const struct sonde_format_info *format_of_extension(struct sonde_slice extension) {
    size_t count;
    const struct sonde_format_info *table = sonde_format_table(&count);
    for (size_t i = 0; i < count; i++)
        if (sonde_slice_equals(extension, table[i].extension))
            return &table[i];
    return NULL;
}

const char *format_media_type(const struct sonde_format_info *info) {
    static const char *const texts[] = {"text/plain; charset=utf-8",
                                        "text/markdown; charset=utf-8"};
    size_t len = strlen(info->media_type);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (strncmp(texts[i], info->media_type, len) == 0 && texts[i][len] == ';')
            return texts[i];
    return info->media_type;
}

bool format_is_file(const struct sonde_format_info *info) {
    return strncmp(info->media_type, "text/", 5) != 0;
}

/* The extensions, or else the values of `output=`. */
static void append_names(struct sonde_buf *out, unsigned families, bool extensions) {
    size_t count;
    const struct sonde_format_info *table = sonde_format_table(&count);
    const char *separator = "", *before = "";
    for (size_t i = 0; i < count; i++) {
        const char *name = extensions ? table[i].extension : table[i].output;
        if (is_left_out(&table[i], families) || strcmp(name, before) == 0) /* "legacy" is two */
            continue;
        sonde_buf_printf(out, "%s%s", separator, name);
        separator = ", ";
        before = name;
    }
}

void format_append_list(struct sonde_buf *out, enum format_family family) {
    append_names(out, family, false);
    sonde_buf_puts(out, ", " ALIAS);
}

void format_append_extensions(struct sonde_buf *out, unsigned families) {
    append_names(out, families, true);
}
