/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/once/once.h"

#include "api/os/file_limit.h"
#include "service/symbol/symbol.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool once_is_asked(int argc, char **argv, const char *job) {
    return argc == 2 && strcmp(argv[1], job) == 0;
}

sonde_err once_begin(struct sonde_diag *diag) {
    umask(077);
    return file_limit_raise("sonded", diag);
}

sonde_err once_open_store(const char *data_dir, const char *worker, struct symbol_store **store,
                          struct sonde_diag *diag) {
    char names[4096];
    struct symbol_options options = {.worker = worker};
    if (data_dir) {
        snprintf(names, sizeof names, "%.4000s/symbols", data_dir);
        options.cache_dir = names;
    }
    sonde_err err = symbol_store_create(&options, store, diag);
    if (err && data_dir) { /* for example another user's: then tables are made again */
        options.cache_dir = NULL;
        err = symbol_store_create(&options, store, diag);
    }
    return err;
}

sonde_err once_write(const void *bytes, size_t len, struct sonde_diag *diag) {
    for (size_t at = 0; at < len;) {
        ssize_t put = write(STDOUT_FILENO, (const char *)bytes + at, len - at);
        if (put < 0 && errno != EINTR)
            return sonde_fail_os(diag, errno, "cannot write the answer");
        at += put > 0 ? (size_t)put : 0;
    }
    return SONDE_OK;
}

void once_end(sonde_err err, const struct sonde_diag *diag) {
    if (err)
        fputs(sonde_diag_text(diag, err), stderr);
    fflush(stderr);
    _exit((int)err); /* the system frees the memory faster */
}
