/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/discovery/source.h"

#include "api/os/secrets/secret_file.h"

#include <string.h>

bool source_file_stamp(const char *path, struct source_stamp *stamp) {
    struct stat info;
    *stamp = (struct source_stamp){0};
    if (stat(path, &info) != 0)
        return false;
    *stamp =
        (struct source_stamp){info.st_dev, info.st_ino, info.st_size, info.st_mtim, info.st_ctim};
    return true;
}

static bool times_equal(struct timespec a, struct timespec b) {
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

bool source_stamps_equal(const struct source_stamp *a, const struct source_stamp *b) {
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           times_equal(a->modified, b->modified) && times_equal(a->changed, b->changed);
}

/* Reading a FIFO or a terminal would wait, and these cannot be watched. */
static sonde_err check_kind(const char *path, struct sonde_diag *diag) {
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "%.200s is not a regular file; the list of hosts must be one", path);
    return SONDE_OK;
}

static sonde_err parse(const char *path, struct sonde_buf *text, struct host_list *list,
                       struct sonde_diag *diag) {
    /* Also what a program leaves for a moment that writes the file in place. */
    if (text->len == 0)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "%.200s is empty; a list without hosts has a # comment, or is []", path);
    if (host_list_is_json(text->data, text->len))
        return host_list_read_json(list, path, text->data, text->len, diag);
    return host_list_read_text(list, path, text->data, text->len, diag);
}

sonde_err source_read_file(const struct source_spec *spec, struct host_list **list,
                           struct sonde_diag *diag) {
    struct sonde_buf text = {.limit = SOURCE_MAX_FILE_BYTES};
    *list = NULL;
    sonde_err err = check_kind(spec->text, diag);
    if (!err)
        err = sonde_file_read(spec->text, "list of hosts", SONDE_FILE_PLAIN, &text, diag);
    if (!err && !(*list = host_list_create(spec->name)))
        err = sonde_fail(diag, SONDE_OUT_OF_MEMORY, "not enough memory for %.200s", spec->text);
    if (!err)
        err = parse(spec->text, &text, *list, diag);
    if (err) {
        host_list_destroy(*list);
        *list = NULL;
    }
    sonde_buf_finish(&text);
    return err;
}
