/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/secrets/token_file.h"

#include "api/os/file_watch.h"
#include "api/os/secrets/secret_file.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct token_file {
    char *path;
    size_t min_len;
    pthread_mutex_t lock; /* guards the fields below; nothing else is locked under it */
    struct file_watch watch;
    struct sonde_tokens *tokens;
};

static sonde_err read_tokens(const struct token_file *file, struct sonde_tokens **tokens,
                             struct sonde_diag *diag) {
    struct sonde_buf text = {.limit = SONDE_TOKENS_MAX_FILE};
    sonde_err err = sonde_file_read(file->path, "token file", SONDE_FILE_SECRET, &text, diag);
    if (!err)
        err = sonde_tokens_parse(sonde_buf_slice(&text), file->min_len, tokens, diag);
    if (text.data)
        explicit_bzero(text.data, text.capacity);
    sonde_buf_finish(&text);
    return err;
}

static void read_again(struct token_file *file) {
    struct sonde_diag diag = {0};
    struct sonde_tokens *tokens = NULL;
    sonde_err err = read_tokens(file, &tokens, &diag);
    bool is_new = !err && !sonde_tokens_equal(file->tokens, tokens);
    if (is_new) {
        sonde_tokens_destroy(file->tokens);
        file->tokens = tokens;
    } else {
        sonde_tokens_destroy(tokens);
    }
    file_watch_report(&file->watch, err, &diag, is_new);
}

static sonde_err init(struct token_file *file, const char *path, size_t min_len,
                      void (*log)(const char *line), struct sonde_diag *diag) {
    file->path = strdup(path);
    file->min_len = min_len;
    if (!file->path)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for the token file");
    file->watch = (struct file_watch){.paths = {file->path}, .what = "the token file", .log = log};
    file_watch_begin(&file->watch);
    return read_tokens(file, &file->tokens, diag);
}

sonde_err token_file_create(const char *path, size_t min_len, void (*log)(const char *line),
                            struct token_file **created, struct sonde_diag *diag) {
    struct token_file *file = calloc(1, sizeof *file);
    if (!file)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for the token file");
    pthread_mutex_init(&file->lock, NULL);
    sonde_err err = init(file, path, min_len, log, diag);
    if (err)
        token_file_destroy(file);
    else
        *created = file;
    return err;
}

void token_file_destroy(struct token_file *file) {
    if (!file)
        return;
    sonde_tokens_destroy(file->tokens);
    pthread_mutex_destroy(&file->lock);
    free(file->path);
    free(file);
}

/* Under the lock. */
static const struct sonde_tokens *newest(struct token_file *file) {
    if (file_watch_is_due(&file->watch))
        read_again(file);
    return file->tokens;
}

struct sonde_token_match token_file_find(struct token_file *file,
                                         struct sonde_slice authorization) {
    pthread_mutex_lock(&file->lock);
    struct sonde_token_match match = sonde_tokens_find(newest(file), authorization);
    pthread_mutex_unlock(&file->lock);
    return match;
}

void token_file_first(struct token_file *file, char *out, size_t size) {
    pthread_mutex_lock(&file->lock);
    snprintf(out, size, "%s", sonde_tokens_first(newest(file)).data);
    pthread_mutex_unlock(&file->lock);
}
