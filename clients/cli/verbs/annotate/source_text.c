/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/annotate/source_text.h"

#include "clients/cli/verbs/annotate/fetch_source.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Opens a regular file; -1 = there is none. */
static int open_regular(const char *path, struct stat *info) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0 && (fstat(fd, info) != 0 || !S_ISREG(info->st_mode))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* First with the whole path, at last with its base name. */
static int open_below(const char *directory, size_t len, const char *name, char path[PATH_MAX],
                      struct stat *info) {
    int fd = -1;
    for (const char *rest = name; rest && fd < 0; rest = strchr(rest, '/')) {
        rest += strspn(rest, "/");
        if (*rest && snprintf(path, PATH_MAX, "%.*s/%s", (int)len, directory, rest) < PATH_MAX)
            fd = open_regular(path, info);
    }
    return fd;
}

static int find(struct source_texts *texts, const char *name, char path[PATH_MAX],
                struct stat *info) {
    int fd = -1;
    for (size_t i = 0; i < texts->directory_count && fd < 0; i++)
        for (const char *at = texts->directories[i]; *at && fd < 0;) {
            size_t len = strcspn(at, ":");
            fd = len ? open_below(at, len, name, path, info) : -1;
            at += len + (at[len] == ':');
        }
    if (fd < 0) {
        snprintf(path, PATH_MAX, "%s", name);
        fd = open_regular(path, info);
    }
    if (fd < 0 && texts->build_id && !texts->servers_are_silent &&
        fetch_source(texts->build_id, name, path, &texts->servers_are_silent))
        fd = open_regular(path, info);
    return fd;
}

static void read_all(int fd, struct sonde_buf *text) {
    ssize_t got = 1;
    text->limit = SOURCE_BYTES;
    while (got > 0 && !text->failed) {
        char part[65536];
        got = read(fd, part, sizeof part);
        if (got > 0)
            sonde_buf_append(text, part, (size_t)got);
    }
}

/* Cuts the text into lines, in place. */
static void cut(struct source_file *file) {
    uint32_t count = 1;
    for (size_t i = 0; i < file->text.len; i++)
        count += file->text.data[i] == '\n';
    file->lines = file->text.failed || !file->text.data ? NULL : calloc(count, sizeof(char *));
    for (char *at = file->text.data; file->lines && file->line_count < count;) {
        file->lines[file->line_count++] = at;
        char *end = strchr(at, '\n');
        if (!end)
            break;
        *end = 0;
        if (end > at && end[-1] == '\r')
            end[-1] = 0;
        at = end + 1;
    }
}

static void load(struct source_texts *texts, struct source_file *file) {
    char path[PATH_MAX];
    struct stat info;
    int fd = *file->name ? find(texts, file->name, path, &info) : -1;
    if (fd < 0)
        return;
    file->found = strdup(path);
    file->modified_unix_ns = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
    read_all(fd, &file->text);
    close(fd);
    cut(file);
}

/* The file with that name, read if it was found; NULL: there are too many. */
static const struct source_file *file_of(struct source_texts *texts, const char *name) {
    for (size_t i = 0; i < texts->count; i++)
        if (strcmp(texts->files[i].name, name) == 0)
            return &texts->files[i];
    if (texts->count == SOURCE_FILES) {
        texts->has_more = true;
        return NULL;
    }
    struct source_file *file = &texts->files[texts->count++];
    *file = (struct source_file){.name = name};
    load(texts, file);
    return file;
}

const char *source_text_line(struct source_texts *texts, const char *name, uint32_t line) {
    const struct source_file *file = file_of(texts, name);
    return file && line > 0 && line <= file->line_count ? file->lines[line - 1] : NULL;
}

void source_texts_finish(struct source_texts *texts) {
    for (size_t i = 0; i < texts->count; i++) {
        free(texts->files[i].found);
        free(texts->files[i].lines);
        sonde_buf_finish(&texts->files[i].text);
    }
    texts->count = 0;
}
