/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/report/program_name.h"

#include "service/host/processes/process_text.h"
#include "service/process/foreign_memory.h"
#include "service/process/process_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_PATH 512

/* Both paths are absolute, and looked up in the process's root. */
static bool is_same_file(pid_t pid, const char *a, const char *b) {
    struct stat left, right;
    int root = process_file_open(PROCESS_ROOT, pid, 0, 0);
    if (root < 0)
        return false;
    bool same = fstatat(root, a + 1, &left, 0) == 0 && fstatat(root, b + 1, &right, 0) == 0 &&
                left.st_dev == right.st_dev && left.st_ino == right.st_ino;
    close(root);
    return same;
}

char *program_name_path(const struct process_identity *process, const char *path) {
    char words[4096], executable[256], name[256], sibling[MAX_PATH];
    const char *slash = strrchr(path, '/');
    if (path[0] != '/' || !process_identity_holds(process))
        return NULL;
    struct process_command command = {
        words, foreign_memory_command(process->pid, words, sizeof words - 1)};
    words[command.len] = 0;
    process_executable_name(executable, sizeof executable, path);
    process_name(name, sizeof name, &command, executable, "");
    int len = snprintf(sibling, sizeof sibling, "%.*s/%s", (int)(slash - path), path, name);
    if (!name[0] || strcmp(name, executable) == 0 || len >= (int)sizeof sibling ||
        !is_same_file(process->pid, path, sibling) || !process_identity_holds(process))
        return NULL;
    return strdup(sibling);
}
