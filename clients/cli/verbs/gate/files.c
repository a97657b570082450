/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs that were recorded before. A file that is given twice would count as two runs that agree. */
#include "clients/cli/verbs/gate/input.h"

#include "clients/cli/verbs/source/source.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PART 65536

static bool is_same_content(int a, int b) {
    char x[PART], y[PART];
    struct stat first, second;
    if (fstat(a, &first) != 0 || fstat(b, &second) != 0 || !S_ISREG(first.st_mode) ||
        first.st_size != second.st_size)
        return false;
    for (off_t at = 0; at < first.st_size;) {
        ssize_t len = pread(a, x, PART, at);
        if (len <= 0 || pread(b, y, PART, at) != len || memcmp(x, y, (size_t)len) != 0)
            return false;
        at += len;
    }
    return true;
}

static bool is_regular(const char *path) {
    struct stat file;
    return stat(path, &file) == 0 && S_ISREG(file.st_mode);
}

/* A pipe can be read only once. */
static bool is_same_file(const char *path, const char *other) {
    if (!is_regular(path) || !is_regular(other))
        return false;
    int a = open(path, O_RDONLY | O_CLOEXEC), b = open(other, O_RDONLY | O_CLOEXEC);
    bool is_same = a >= 0 && b >= 0 && is_same_content(a, b);
    if (a >= 0)
        close(a);
    if (b >= 0)
        close(b);
    return is_same;
}

/* Compares a file with those before it, the base's first. */
static sonde_err check_earlier(const struct sonde_option_list *const files[2], int side,
                               size_t index, struct sonde_diag *diag) {
    const char *path = files[side]->items[index];
    for (int before = 0; before <= side; before++)
        for (size_t i = 0; i < (before < side ? files[before]->count : index); i++)
            if (is_same_file(files[before]->items[i], path))
                return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                                  "%.120s and %.120s are the same run; each run counts once",
                                  files[before]->items[i], path);
    return SONDE_OK;
}

static sonde_err read_file(struct gate_input *input, int side, const char *path,
                           struct sonde_diag *diag) {
    struct gate_run run = {0};
    sonde_err err = source_read(path, &run.profile, diag);
    if (err)
        return err;
    run.seconds = (double)sonde_profile_info(run.profile)->duration_ns / 1e9;
    snprintf(run.name, sizeof run.name, "%s", path);
    return gate_input_add(input, side, &run, diag);
}

sonde_err gate_read_files(struct gate_input *input, const struct sonde_option_list *const files[2],
                          struct sonde_diag *diag) {
    sonde_err err = SONDE_OK;
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < files[side]->count && !err; i++) {
            err = check_earlier(files, side, i, diag);
            if (!err)
                err = read_file(input, side, files[side]->items[i], diag);
        }
    return err;
}
