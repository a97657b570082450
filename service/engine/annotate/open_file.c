/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/annotate/annotate.h"
#include "service/symbol/files/files.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

static bool open_at(struct symbol_store *store, const char *path, const char *build_id,
                    struct symbol_module **module) {
    return symbol_module_open_path(store, path, build_id, module) == SONDE_OK;
}

/* A process can have another root, and its program can be deleted. */
static bool open_of_process(struct symbol_store *store, const char *path, const char *build_id,
                            pid_t pid, struct symbol_module **module) {
    char other[PATH_MAX];
    snprintf(other, sizeof other, "/proc/%d/root%s", pid, path);
    if (open_at(store, other, build_id, module))
        return true;
    snprintf(other, sizeof other, "/proc/%d/exe", pid);
    return build_id[0] && open_at(store, other, build_id, module);
}

static sonde_err refuse(struct symbol_store *store, const char *path, const char *build_id,
                        struct sonde_diag *diag) {
    struct symbol_module *other = NULL;
    if (path[0] != '/' || path[1] == '/') /* as in "//anon" */
        return sonde_fail(diag, SONDE_NOT_FOUND, "%.100s has no file with its code",
                          path[0] ? path : "this code");
    if (!open_at(store, path, "", &other))
        return sonde_fail(diag, SONDE_NOT_FOUND,
                          "%.80s does not exist here: copy it there from where it ran", path);
    symbol_module_release(other);
    return sonde_fail(diag, SONDE_NOT_FOUND,
                      "%.60s was rebuilt since: its build-id is not %.40s. Record again, or "
                      "put the old one there",
                      path, build_id);
}

static bool has_file(struct symbol_module *module) {
    struct stat file;
    return fstat(symbol_module_fd(module), &file) == 0 && S_ISREG(file.st_mode);
}

sonde_err annotate_open(struct symbol_store *store, const char *path, const char *build_id,
                        pid_t pid, struct symbol_module **module, struct sonde_diag *why,
                        struct sonde_diag *diag) {
    *module = NULL;
    if (pid > 0 && path[0] == '/' && open_of_process(store, path, build_id, pid, module))
        return SONDE_OK;
    if (path[0] == '/' && open_at(store, path, build_id, module))
        return SONDE_OK;
    if (!build_id[0] || symbol_module_find(store, build_id, module, NULL) != SONDE_OK)
        return refuse(store, path, build_id, diag);
    if (!has_file(*module))
        (void)refuse(store, path, build_id, why);
    return SONDE_OK;
}
