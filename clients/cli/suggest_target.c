/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/suggest_target.h"

#include "api/text/nearest.h"
#include "api/text/utf8.h"
#include "clients/cli/cli.h"
#include "clients/cli/output.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TIMEOUT_MS 2000

/* A process chooses its name, which must not control the terminal. */
static bool is_printable(const char *name) {
    return name[0] && sonde_utf8_is_clean(name, strlen(name));
}

/* `list` may be NULL. */
static const char *nearest(const Sonde__V1__ListTargetsResponse *list,
                           const struct found_services *found, const char *word) {
    size_t listed = list ? list->n_targets : 0, count = 0;
    const char **names = calloc(listed + found->count + 1, sizeof *names);
    if (!names)
        return NULL;
    for (size_t i = 0; i < listed; i++)
        names[count++] = list->targets[i]->name;
    for (size_t i = 0; i < found->count; i++)
        names[count++] = found->items[i].nearest;
    for (size_t i = 0; i < count; i++)
        names[i] = is_printable(names[i]) ? names[i] : NULL;
    const char *name = sonde_nearest(word, names, count);
    free(names);
    return name;
}

/* NULL if the service does not answer. */
static Sonde__V1__ListTargetsResponse *list_all(struct client *client) {
    Sonde__V1__ListTargetsRequest request = SONDE__V1__LIST_TARGETS_REQUEST__INIT;
    ProtobufCMessage *answer = NULL;
    request.include_unattached = true;
    bool is_listed = client && client_unary(client, &client_list_targets, &request.base, TIMEOUT_MS,
                                            &answer, NULL) == SONDE_OK;
    return is_listed ? (Sonde__V1__ListTargetsResponse *)answer : NULL;
}

void suggest_target(struct client *client, const struct found_services *found,
                    const Sonde__V1__TargetSelector *selector, struct sonde_diag *diag) {
    if (!diag || !selector || !selector->name[0])
        return;
    Sonde__V1__ListTargetsResponse *answer = list_all(client);
    const char *name = nearest(answer, found, selector->name);
    size_t len = strlen(diag->text);
    if (name && strcmp(name, selector->name) != 0)
        snprintf(diag->text + len, sizeof diag->text - len, "; did you mean %.63s?", name);
    if (answer)
        protobuf_c_message_free_unpacked(&answer->base, NULL);
}

/* ---- Several of a name ---- */

#define MOST_LISTED    20
#define COMMAND_BYTES  256
#define COMMAND_COLUMN 50

static int by_cpu(const void *a, const void *b) {
    const Sonde__V1__Target *x = *(Sonde__V1__Target *const *)a;
    const Sonde__V1__Target *y = *(Sonde__V1__Target *const *)b;
    return (x->cpu_ns < y->cpu_ns) - (x->cpu_ns > y->cpu_ns);
}

/* The arguments of a process of this machine, between spaces; "" if they cannot be read. */
static void read_command(int32_t pid, char *command, size_t size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%" PRId32 "/cmdline", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, command, size - 1) : 0;
    if (fd >= 0)
        close(fd);
    while (len > 0 && command[len - 1] == 0)
        len--;
    for (ssize_t i = 0; i < len; i++)
        if (command[i] == 0)
            command[i] = ' ';
    command[len > 0 ? len : 0] = 0;
}

static void print_candidate(const Sonde__V1__Target *target, bool is_local) {
    char up[24], command[COMMAND_BYTES] = "";
    cli_age(up, target->start_unix_ns);
    fprintf(stderr, "%8" PRId32 " %8s %8.1f s  %-8s ", target->pid, up,
            (double)target->cpu_ns / 1e9, target->unattached ? "-" : "yes");
    size_t columns = output_terminal_columns(STDERR_FILENO);
    cli_put_name(stderr, target->user);
    if (is_local)
        read_command(target->pid, command, sizeof command);
    fprintf(stderr, "%*s ", 8 > (int)strlen(target->user) ? 8 - (int)strlen(target->user) : 0, "");
    cli_put_columns(stderr, command,
                    columns > COMMAND_COLUMN ? columns - COMMAND_COLUMN : sizeof command);
    fputc('\n', stderr);
}

/* Moves the targets of that name to the front, of one user or (uid NULL) of all, and returns how
 * many they are. */
static size_t keep(Sonde__V1__ListTargetsResponse *list, const char *name, const uid_t *uid) {
    size_t kept = 0;
    for (size_t i = 0; i < list->n_targets; i++) {
        Sonde__V1__Target *target = list->targets[i];
        if (strcmp(target->name, name) != 0 || (uid && target->uid != *uid))
            continue;
        list->targets[i] = list->targets[kept];
        list->targets[kept++] = target;
    }
    return kept;
}

/* If some are the user's own, only these are meant. */
void list_candidates(struct client *client, const Sonde__V1__TargetSelector *selector,
                     bool is_local) {
    const uid_t self = geteuid();
    Sonde__V1__ListTargetsResponse *list = selector && selector->name[0] ? list_all(client) : NULL;
    if (!list)
        return;
    size_t kept = keep(list, selector->name, &self);
    if (kept == 0)
        kept = keep(list, selector->name, NULL);
    if (kept > 1) {
        qsort(list->targets, kept, sizeof *list->targets, by_cpu);
        fprintf(stderr, "%8s %8s %10s  %-8s %-8s %s\n", "PID", "UP", "CPU TIME", "GUEST", "USER",
                is_local ? "COMMAND" : "");
        for (size_t i = 0; i < kept && i < MOST_LISTED; i++)
            print_candidate(list->targets[i], is_local);
    }
    if (kept > MOST_LISTED)
        fprintf(stderr, "%8s %zu more\n", "and", kept - MOST_LISTED);
    if (kept > 1) {
        fprintf(stderr, "type %" PRId32 " instead of ", list->targets[0]->pid);
        cli_put_name(stderr, selector->name);
        fputs(" for the first one, or --all ", stderr);
        cli_put_name(stderr, selector->name);
        fputs(" for all together\n", stderr);
    }
    protobuf_c_message_free_unpacked(&list->base, NULL);
}

/* ---- Other users' processes ---- */

#define COMM_BYTES 15 /* the kernel keeps that much of a name */

/* Whether the process has that name and belongs to somebody else. */
static bool is_of_other(const char *pid, const char *name, uid_t *owner) {
    char path[64], comm[COMM_BYTES + 2] = "";
    struct stat status;
    snprintf(path, sizeof path, "/proc/%.20s/comm", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool is_read = fd >= 0 && fstat(fd, &status) == 0 && read(fd, comm, sizeof comm - 1) > 0;
    if (fd >= 0)
        close(fd);
    if (!is_read || status.st_uid == geteuid())
        return false;
    comm[strcspn(comm, "\n")] = 0;
    *owner = status.st_uid;
    return !name[0] || strncmp(comm, name, COMM_BYTES) == 0;
}

/* The pid of one that is meant; 0 = none. */
static long find_of_other(const Sonde__V1__TargetSelector *selector, uid_t *owner) {
    char pid[16];
    long found = 0;
    if (selector->pid) {
        snprintf(pid, sizeof pid, "%d", selector->pid);
        return is_of_other(pid, selector->name, owner) ? selector->pid : 0;
    }
    DIR *processes = selector->name[0] ? opendir("/proc") : NULL;
    for (struct dirent *entry; processes && !found && (entry = readdir(processes));)
        if (entry->d_name[0] > '0' && entry->d_name[0] <= '9' &&
            is_of_other(entry->d_name, selector->name, owner))
            found = strtol(entry->d_name, NULL, 10);
    if (processes)
        closedir(processes);
    return found;
}

sonde_err explain_owner(const Sonde__V1__TargetSelector *selector, sonde_err err,
                        struct sonde_diag *diag) {
    uid_t owner;
    long pid = selector && geteuid() != 0 ? find_of_other(selector, &owner) : 0;
    if (!pid)
        return err;
    const struct passwd *user = getpwuid(owner);
    return sonde_fail(diag, SONDE_PERMISSION_DENIED,
                      "process %ld belongs to %.63s: only that user and root may sample it", pid,
                      user ? user->pw_name : "another user");
}
