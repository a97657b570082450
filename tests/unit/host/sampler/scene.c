/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/host/sampler/scene.h"

#include "service/host/processes/process_list.h"
#include "service/host/sampler/capabilities.h"
#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <grp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "service/host/sampler/sonde-sampler"

const char *scene_program(unsigned mode, gid_t group, bool has_capabilities) {
    static char path[256];
    char command[1024];
    if (getuid() != 0)
        check_skip("only root can start a program as another user");
    temporary_template(path, sizeof path);
    CHECK(mkdtemp(path) != NULL);
    CHECK_INT(chmod(path, 0711), ==, 0);
    strcat(path, "/sonde-sampler");
    snprintf(command, sizeof command,
             "cp -L " PROGRAM " %s && chown 0:%u %s && chmod %o %s && [ %d = 0 -o -z \"%s\" ] || "
             "/usr/sbin/setcap " CAPABILITIES_OF_SAMPLER "+ep %s",
             path, (unsigned)group, path, mode, path, has_capabilities, path, path);
    if (system(command) != 0) /* a file system can be without them */
        check_skip("setcap does not work here");
    return path;
}

int scene_in_child(bool as_nobody, int (*run)(const char *program), const char *program) {
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (as_nobody && (setgroups(0, NULL) != 0 || setresgid(NOBODY, NOBODY, NOBODY) != 0 ||
                          setresuid(NOBODY, NOBODY, NOBODY) != 0))
            _exit(99);
        prctl(PR_SET_DUMPABLE, 1); /* it may look at itself, as after an exec */
        _exit(run(program));
    }
    CHECK_INT(waitpid(pid, &status, 0), ==, pid);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* An opener has CAP_SYS_ADMIN in effect, a worker never. */
static pid_t find_child(pid_t program, bool is_opener) {
    size_t count;
    struct process_entry *list = process_list(&count);
    pid_t child = 0;
    for (size_t i = 0; i < count; i++)
        if (list[i].parent == program &&
            is_opener == ((scene_status(list[i].pid, "CapEff:") & capabilities_of_opener()) != 0))
            child = list[i].pid;
    free(list);
    return child;
}

pid_t scene_worker(pid_t program) {
    return find_child(program, false);
}

pid_t scene_opener(pid_t program) {
    return find_child(program, true);
}

uint64_t scene_status(pid_t pid, const char *field) {
    char path[64], line[256];
    uint64_t value = ~0ull;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, field, strlen(field)) == 0)
            value = strtoull(line + strlen(field) + 1, NULL, 16);
    if (file)
        fclose(file);
    return value;
}
