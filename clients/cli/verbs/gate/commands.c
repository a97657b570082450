/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs that are made now. Each is a `sonde record` of its own, whose descendants' CPU time the
 * kernel adds up, so that other load can be told from theirs. Base and new alternate in the order
 * base, new, new, base, so that a drift of the machine affects both alike. */
#include "clients/cli/verbs/gate/input.h"

#include "clients/cli/run/executable.h"
#include "clients/cli/run/rundir.h"
#include "clients/cli/verbs/gate/machine.h"
#include "clients/cli/verbs/source/source.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wordexp.h>

#define OWN_ARGUMENTS 24
#define LAST_BYTES    400

extern char **environ;

struct running {
    const struct gate_commands *commands;
    struct gate_input *input;
    struct rundir folder;
    char profile[108], output[108], frequency[24];
    const char *shells[2][4]; /* each command for a shell */
    wordexp_t words[2];       /* if it needs none */
    const char *const
        *commands_of[2]; /* what is run: a row of the former or the words of the latter */
    const char **argv;
};

static const char *const side_names[] = {"base", "new"};

/* ---- The commands ---- */

/* A program that is started without a shell is the only process, so that it can be compared with
 * one of another name. */
static bool needs_shell(const wordexp_t *words) {
    char path[PATH_MAX];
    struct sonde_diag diag;
    return words->we_wordc == 0 || strchr(words->we_wordv[0], '=') ||
           executable_find(words->we_wordv[0], path, &diag) != SONDE_OK;
}

static void choose_command(struct running *running, int side) {
    const char *command = running->commands->commands[side];
    const char *const shell[] = {"/bin/sh", "-c", command, NULL};
    wordexp_t *words = &running->words[side];
    memcpy(running->shells[side], shell, sizeof shell);
    running->commands_of[side] = running->shells[side];
    if (wordexp(command, words, WRDE_NOCMD) != 0)
        *words = (wordexp_t){0};
    else if (!needs_shell(words))
        running->commands_of[side] = (const char *const *)words->we_wordv;
}

static sonde_err prepare(struct running *running, struct sonde_diag *diag) {
    size_t most = COUNT_OF(running->shells[0]);
    for (int side = 0; side < 2; side++) {
        choose_command(running, side);
        most = running->words[side].we_wordc > most ? running->words[side].we_wordc : most;
    }
    rundir_file(&running->folder, "run.pb.gz", running->profile);
    rundir_file(&running->folder, "output", running->output);
    snprintf(running->frequency, sizeof running->frequency, "%llu",
             (unsigned long long)running->commands->frequency);
    running->argv = calloc(OWN_ARGUMENTS + most + 1, sizeof *running->argv);
    return running->argv ? SONDE_OK : sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
}

static void finish(struct running *running) {
    for (int side = 0; side < 2; side++)
        wordfree(&running->words[side]);
    free(running->argv);
    rundir_remove(&running->folder);
}

/* ---- One process ---- */

static void add_service(struct running *running, size_t *count) {
    const struct service_settings *service = &running->commands->service;
    const struct {
        const char *flag, *value;
    } options[] = {{"--service", service->address},
                   {"--token", service->token},
                   {"--service-ca", service->ca_file},
                   {"--service-cert", service->cert_file},
                   {"--service-key", service->key_file}};
    for (size_t i = 0; i < COUNT_OF(options); i++)
        if (options[i].value) {
            running->argv[(*count)++] = options[i].flag;
            running->argv[(*count)++] = options[i].value;
        }
}

static void set_arguments(struct running *running, int side) {
    const char *const before[] = {"sonde", "record",        "-F", running->frequency,
                                  "-o",    running->profile};
    size_t count = COUNT_OF(before);
    memcpy(running->argv, before, sizeof before);
    add_service(running, &count);
    running->argv[count++] = "--";
    for (const char *const *word = running->commands_of[side]; *word; word++)
        running->argv[count++] = *word;
    running->argv[count] = NULL;
}

/* A terminal's Ctrl-C ends the run, and then this program. Returns an error number. */
static int spawn(const struct running *running, pid_t *pid) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGINT);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, running->output,
                                     O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    int error = posix_spawn(pid, "/proc/self/exe", &actions, &attributes,
                            (char **)(uintptr_t)running->argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return error;
}

/* Returns the exit status as a shell does. */
static int wait_for(pid_t pid) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* The end of what the command and `sonde record` printed. */
static void read_last(const char *path, char text[LAST_BYTES + 1]) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = 0;
    if (fd >= 0) {
        off_t size = lseek(fd, 0, SEEK_END);
        len = pread(fd, text, LAST_BYTES, size > LAST_BYTES ? size - LAST_BYTES : 0);
        close(fd);
    }
    text[len > 0 ? len : 0] = 0;
    for (char *at = text; *at; at++)
        if (*at == '\n')
            *at = at[1] ? ' ' : 0;
}

static sonde_err run_once(struct running *running, int side, struct sonde_diag *diag) {
    char last[LAST_BYTES + 1];
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    pid_t pid = 0;
    set_arguments(running, side);
    sigaction(SIGINT, &ignore, &before);
    int error = spawn(running, &pid);
    int status = error ? 0 : wait_for(pid);
    sigaction(SIGINT, &before, NULL);
    if (error)
        return sonde_fail_os(diag, error, "cannot start `sonde record`");
    if (status == 0)
        return SONDE_OK;
    read_last(running->output, last);
    return sonde_fail(diag, SONDE_TARGET_GONE, "the %s command exited with %d: %.400s",
                      side_names[side], status, last);
}

/* ---- All runs ---- */

static sonde_err keep_run(struct running *running, int side, struct gate_run *run,
                          struct sonde_diag *diag) {
    sonde_err err = source_read(running->profile, &run->profile, diag);
    if (err)
        return err;
    run->seconds = (double)sonde_profile_info(run->profile)->duration_ns / 1e9;
    snprintf(run->name, sizeof run->name, "run %zu of %s", running->input->counts[side] + 1,
             side_names[side]);
    return gate_input_add(running->input, side, run, diag);
}

static sonde_err run_side(struct running *running, int side, bool is_warm_up,
                          struct sonde_diag *diag) {
    struct machine_times before, after;
    struct gate_run run = {0};
    if (is_warm_up)
        fprintf(stderr, "warm-up of %s\n", side_names[side]);
    else
        fprintf(stderr, "run %zu of %llu of %s\n", running->input->counts[side] + 1,
                (unsigned long long)running->commands->runs, side_names[side]);
    machine_times_read(&before);
    sonde_err err = run_once(running, side, diag);
    machine_times_read(&after);
    machine_describe(&before, &after, run.disturbance, sizeof run.disturbance);
    return err || is_warm_up ? err : keep_run(running, side, &run, diag);
}

static sonde_err run_all(struct running *running, struct sonde_diag *diag) {
    sonde_err err = run_side(running, 0, true, diag);
    if (!err)
        err = run_side(running, 1, true, diag);
    for (uint64_t i = 0; i < running->commands->runs && !err; i++) {
        int first = (int)(i % 2);
        err = run_side(running, first, false, diag);
        if (!err)
            err = run_side(running, !first, false, diag);
    }
    return err;
}

sonde_err gate_run_commands(struct gate_input *input, const struct gate_commands *commands,
                            struct sonde_diag *diag) {
    struct running running = {.commands = commands, .input = input};
    sonde_err err = rundir_create(&running.folder, diag);
    if (err)
        return err;
    err = prepare(&running, diag);
    if (!err)
        err = run_all(&running, diag);
    finish(&running);
    return err;
}
