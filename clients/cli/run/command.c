/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/run/command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Adds to the front of a variable's value. In LD_PRELOAD the first library wins, and in MALLOC_CONF
 * the last setting, so that the user's own stay in force. */
static int join_variable(const char *name, const char *addition, const char *between) {
    const char *held = getenv(name);
    if (!held || !*held)
        return setenv(name, addition, 1);
    size_t size = strlen(held) + strlen(addition) + strlen(between) + 1;
    char *joined = malloc(size);
    if (!joined)
        return -1;
    snprintf(joined, size, "%s%s%s", addition, between, held);
    int result = setenv(name, joined, 1);
    free(joined);
    return result;
}

static int set_environment(const struct command *command) {
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    int bad = join_variable("LD_PRELOAD", command->libsonde, ":");
    bad |= setenv("SONDE_SOCKET", command->socket, 1);
    bad |= setenv("SONDE_PID", pid, 1);
    bad |= command->name ? setenv("SONDE_NAME", command->name, 1) : unsetenv("SONDE_NAME");
    bad |= setenv("SONDE_FIRST_NAME", command->first_name, 1);
    for (uint32_t i = 0; i < JEMALLOC_VARIABLES; i++)
        if (command->heap.is_added[i])
            bad |= join_variable(jemalloc_variables[i], HEAP_OPTIONS, ",");
    return bad;
}

static void wait_at(const int barrier[2]) {
    char byte;
    close(barrier[1]); /* otherwise the end of the parent would go unnoticed */
    ssize_t len;
    do
        len = read(barrier[0], &byte, 1);
    while (len < 0 && errno == EINTR);
    if (len != 1)
        _exit(125);
}

static _Noreturn void exec_command(const struct command *command) {
    sigaction(SIGPIPE, &command->pipe_action, NULL);
    if (command->barrier)
        wait_at(command->barrier);
    if (command->libsonde && set_environment(command) != 0) {
        dprintf(2, "sonde %s: out of memory\n", command->verb);
        _exit(125);
    }
    sigprocmask(SIG_SETMASK, &command->mask, NULL);
    if (command->path)
        execv(command->path, command->argv);
    else
        execvp(command->argv[0], command->argv); /* a file of unknown format is run by a shell */
    int os_error = errno;
    dprintf(2, "sonde %s: %s: %s\n", command->verb, command->argv[0], strerror(os_error));
    _exit(os_error == ENOENT ? 127 : 126);
}

pid_t command_start(const struct command *command) {
    pid_t pid = fork();
    if (pid == 0)
        exec_command(command);
    return pid < 0 ? 0 : pid;
}
