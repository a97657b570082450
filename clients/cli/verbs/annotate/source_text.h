/* SPDX-License-Identifier: Apache-2.0
 *
 * Source files, by the paths that debug information has for them. They are looked for below the
 * directories of --source-path, first with the whole path, then with fewer and fewer of its leading
 * directories; then at the path itself; then on debuginfod servers. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_VERBS_ANNOTATE_SOURCE_TEXT_H
#define SONDE_CLIENTS_CLI_VERBS_ANNOTATE_SOURCE_TEXT_H

#include "api/bytes.h"

#define SOURCE_FILES 64u         /* further ones have no text */
#define SOURCE_BYTES (32u << 20) /* of one file */

struct source_file {
    const char *name; /* in the debug information */
    char *found;      /* path; NULL = not found */
    struct sonde_buf text;
    const char **lines;
    uint32_t line_count;
    int64_t modified_unix_ns;
};

struct source_texts {
    const char *const *directories; /* each may be several, with ':' between */
    size_t directory_count;
    const char *build_id;              /* of the program, for debuginfod servers; NULL = unknown */
    bool servers_are_silent, has_more; /* has_more: than SOURCE_FILES were asked for */
    struct source_file files[SOURCE_FILES];
    size_t count;
};

/* A line without its end, from 1; NULL = unknown. */
const char *source_text_line(struct source_texts *texts, const char *name, uint32_t line);
void source_texts_finish(struct source_texts *texts);

#endif
