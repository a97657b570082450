/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/engine/host/sleepers.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t start(const char *name, uid_t user) {
    int ready[2];
    char byte;
    CHECK_INT(pipe2(ready, O_CLOEXEC), ==, 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (user && (setresgid(user, user, user) != 0 || setresuid(user, user, user) != 0))
            _exit(1);
        if (name)
            execl("/bin/sleep", name, "1000", NULL); /* closes `ready` */
        close(ready[0]);
        if (write(ready[1], "x", 1) == 1)
            pause();
        _exit(1);
    }
    close(ready[1]);
    CHECK_INT(read(ready[0], &byte, 1), ==, name ? 0 : 1);
    close(ready[0]);
    return pid;
}

void end(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

void scene_init(struct scene *scene) {
    memset(scene, 0, sizeof *scene);
    place_make(&scene->place);
    scene->engine = place_engine(&scene->place);
    snprintf(scene->name, sizeof scene->name, "sleeper-%d", (int)getpid());
}

void scene_finish(struct scene *scene) {
    engine_destroy(scene->engine);
    place_remove(&scene->place);
}

sonde_err find(struct scene *scene, struct engine_selector selector) {
    return engine_find(scene->engine, &selector, &scene->found, &scene->diag);
}

bool says(const struct scene *scene, const char *text) {
    if (!strstr(scene->diag.text, text))
        fprintf(stderr, "it says: %s\n", scene->diag.text);
    return strstr(scene->diag.text, text) != NULL;
}

void require_root(void) {
    if (geteuid() != 0)
        check_skip("only root can start processes of other users");
}

struct target *get(struct scene *scene, struct engine_selector selector) {
    struct host_plan plan;
    struct target *target = NULL;
    CHECK_INT(host_plan_make(scene->engine, &selector, &plan, &scene->diag), ==, SONDE_OK);
    CHECK_INT(host_target_get(scene->engine, &plan, &target, &scene->diag), ==, SONDE_OK);
    host_plan_finish(&plan);
    return target;
}
