/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/services.h"

#include "api/text/nearest.h"
#include "api/text/utf8.h"
#include "clients/c/client.h"
#include "clients/cli/cli.h"
#include "clients/cli/run/rundir.h"

#include <dirent.h>
#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define ASK_TIMEOUT_MS 2000

static const char machines_folder[] = "/run/sonde";

/* ---- Sockets ---- */

enum socket_state { SOCKET_ABSENT, SOCKET_FORBIDDEN, SOCKET_SERVED };

/* Connects, because a killed sonded leaves its file behind. *uid is the user who listens. */
static enum socket_state socket_state(const char *path, uid_t *uid) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ucred server = {.uid = (uid_t)-1};
    socklen_t len = sizeof server;
    int fd = strlen(path) < sizeof address.sun_path
                 ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)
                 : -1;
    if (fd < 0)
        return SOCKET_ABSENT;
    strcpy(address.sun_path, path);
    int failed = connect(fd, (struct sockaddr *)&address, sizeof address);
    enum socket_state state = SOCKET_ABSENT;
    if (failed == 0 || errno == EAGAIN) /* EAGAIN: its queue is full */
        state = SOCKET_SERVED;
    else if (errno == EACCES || errno == EPERM)
        state = SOCKET_FORBIDDEN;
    if (failed == 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &server, &len) == 0)
        *uid = server.uid;
    close(fd);
    return state;
}

static void add(struct found_services *found, const char *path, bool is_of_run) {
    uid_t uid = geteuid();
    if (found->count == SERVICES_MAX || socket_state(path, &uid) != SOCKET_SERVED)
        return;
    struct found_service *one = &found->items[found->count];
    *one = (struct found_service){
        .uid = uid, .is_own = uid == geteuid() || uid == 0, .is_of_run = is_of_run};
    snprintf(one->address, sizeof one->address, "unix:%s", path);
    for (size_t i = 0; i < found->count; i++)
        if (strcmp(found->items[i].address, one->address) == 0)
            return;
    found->count++;
}

static void add_run(void *context, const char *path) {
    add(context, path, true);
}

/* The machine's or a user's sonded, and those of `sonde run`. */
static void add_folder(struct found_services *found, const char *folder) {
    char path[256];
    snprintf(path, sizeof path, "%s/grpc.sock", folder);
    add(found, path, false);
    rundir_each_service(folder, add_run, found);
}

/* ---- Directories ---- */

/* "/run/user/1000/sonde" or "/tmp/sonde-1000" if it belongs to that user and nobody else may enter
 * it, so that nobody else can put sockets there. */
static bool is_users_folder(const char *path, uid_t uid) {
    struct stat info;
    return lstat(path, &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == uid &&
           (info.st_mode & 077) == 0;
}

static void add_user(struct found_services *found, uid_t uid) {
    static const char *const forms[] = {"/run/user/%u/sonde", "/tmp/sonde-%u"};
    char path[64];
    for (size_t i = 0; i < COUNT_OF(forms); i++) {
        snprintf(path, sizeof path, forms[i], (unsigned)uid);
        if (is_users_folder(path, uid))
            add_folder(found, path);
    }
}

/* Adds the users whose number ends the names of the entries: prefix "sonde-", or none. */
static void add_users_in(struct found_services *found, const char *parent, const char *prefix) {
    DIR *folder = opendir(parent);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        size_t len = strlen(prefix);
        const char *digits = entry->d_name + len;
        if (strncmp(entry->d_name, prefix, len) != 0 || !*digits ||
            strspn(digits, "0123456789") != strlen(digits) || strlen(digits) > 10)
            continue;
        add_user(found, (uid_t)strtoul(digits, NULL, 10));
    }
    if (folder)
        closedir(folder);
}

/* Writes $XDG_RUNTIME_DIR/sonde. False if that is the user's usual directory, or none is set, or if
 * run/rundir.c could not use it either. */
static bool is_elsewhere(char folder[128]) {
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    char usual[64];
    snprintf(usual, sizeof usual, "/run/user/%u", (unsigned)geteuid());
    if (!runtime || runtime[0] != '/' || strcmp(runtime, usual) == 0)
        return false;
    if (snprintf(folder, 128, "%s/sonde", runtime) >= 128)
        return false;
    return access(folder, F_OK) == 0 ? is_users_folder(folder, geteuid())
                                     : access(runtime, W_OK) == 0;
}

static int compare(const void *one, const void *other) {
    const struct found_service *a = one, *b = other;
    int by_owner = b->is_own - a->is_own, by_kind = a->is_of_run - b->is_of_run;
    return by_owner ? by_owner : by_kind ? by_kind : strcmp(a->address, b->address);
}

void services_find(struct found_services *found) {
    char folder[128];
    uid_t uid;
    *found = (struct found_services){0};
    add_folder(found, machines_folder);
    if (is_elsewhere(folder)) {
        add_folder(found, folder);
    } else {
        add_user(found, geteuid());
        if (geteuid() == 0) {
            add_users_in(found, "/run/user", "");
            add_users_in(found, "/tmp", "sonde-");
        }
    }
    qsort(found->items, found->count, sizeof found->items[0], compare);
    found->is_roots_forbidden =
        found->count == 0 && socket_state("/run/sonde/grpc.sock", &uid) == SOCKET_FORBIDDEN;
}

void services_describe_search(char *text, size_t size) {
    char folder[128];
    unsigned uid = (unsigned)geteuid();
    if (is_elsewhere(folder))
        snprintf(text, size, "%s and %s", machines_folder, folder);
    else if (uid == 0)
        snprintf(text, size, "%s, /run/user/*/sonde and /tmp/sonde-*", machines_folder);
    else
        snprintf(text, size, "%s, /run/user/%u/sonde and /tmp/sonde-%u", machines_folder, uid, uid);
}

/* ---- Asking ---- */

struct question {
    struct found_service *service;
    const Sonde__V1__TargetSelector *selector;
    struct client *client;
    sem_t *ended;
};

static bool is_meant(const Sonde__V1__TargetSelector *selector, const Sonde__V1__Target *target) {
    if (!selector || (!selector->pid && !selector->name[0] && !selector->uuid[0]))
        return true;
    return (!selector->pid || selector->pid == target->pid) &&
           (!selector->name[0] || strcmp(selector->name, target->name) == 0) &&
           (!selector->uuid[0] || strcmp(selector->uuid, target->uuid) == 0);
}

static void keep_nearest(struct found_service *service, const Sonde__V1__TargetSelector *selector,
                         const char *name) {
    const char *names[] = {service->nearest[0] ? service->nearest : NULL, name};
    if (!selector || !selector->name[0] || strlen(name) >= sizeof service->nearest)
        return;
    if (sonde_nearest(selector->name, names, COUNT_OF(names)) == name)
        snprintf(service->nearest, sizeof service->nearest, "%s", name);
}

static bool is_users_process(uid_t uid, int32_t pid) {
    char path[32];
    struct stat info;
    snprintf(path, sizeof path, "/proc/%d", pid);
    return stat(path, &info) == 0 && info.st_uid == uid;
}

/* What does not fit is left out: "web 12, web 13, ...". */
static void add_name(struct found_service *service, const Sonde__V1__Target *target) {
    static const char rest[] = ", ...";
    size_t len = strlen(service->names), room = sizeof service->names - len;
    char name[100];
    int written =
        snprintf(name, sizeof name, "%s%.64s %d", len ? ", " : "", target->name, target->pid);
    if (len >= sizeof rest && strcmp(service->names + len + 1 - sizeof rest, rest) == 0)
        return;
    if ((size_t)written + sizeof rest > room) {
        snprintf(service->names + len, room, "%s", rest);
        return;
    }
    sonde_utf8_replace(name, '?'); /* its owner must not control this terminal */
    snprintf(service->names + len, room, "%s", name);
}

static bool on_targets(void *context, struct client_call *call, const ProtobufCMessage *message) {
    struct question *question = context;
    struct found_service *service = question->service;
    const Sonde__V1__ListTargetsResponse *answer = (const void *)message;
    (void)call;
    for (size_t i = 0; i < answer->n_targets; i++) {
        const Sonde__V1__Target *target = answer->targets[i];
        if (target->unattached ||
            (!service->is_own && !is_users_process(service->uid, target->pid)))
            continue;
        service->targets++;
        service->matches += is_meant(question->selector, target);
        keep_nearest(service, question->selector, target->name);
        add_name(service, target);
    }
    return true;
}

static void on_end(void *context, sonde_err err, const struct sonde_diag *diag) {
    struct question *question = context;
    (void)diag;
    question->service->answers = err == SONDE_OK;
    sem_post(question->ended);
}

static bool start_question(struct question *question, const char *token) {
    static const struct client_callbacks callbacks = {.on_message = on_targets, .on_end = on_end};
    Sonde__V1__ListTargetsRequest request = SONDE__V1__LIST_TARGETS_REQUEST__INIT;
    struct client_options options = {.address = question->service->address,
                                     .token = question->service->is_own ? token : NULL};
    return client_create(&options, &question->client, NULL) == SONDE_OK &&
           client_call_start(question->client, &client_list_targets, &request.base, ASK_TIMEOUT_MS,
                             NULL, &callbacks, question);
}

void services_ask(struct found_services *found, const Sonde__V1__TargetSelector *selector,
                  const char *token) {
    struct question questions[SERVICES_MAX];
    size_t started = 0;
    sem_t ended;
    sem_init(&ended, 0, 0);
    for (size_t i = 0; i < found->count; i++) {
        questions[i] =
            (struct question){.service = &found->items[i], .selector = selector, .ended = &ended};
        found->items[i].targets = found->items[i].matches = 0;
        found->items[i].names[0] = found->items[i].nearest[0] = 0;
        started += start_question(&questions[i], token);
    }
    while (started > 0)
        started -= sem_wait(&ended) == 0;
    for (size_t i = 0; i < found->count; i++)
        if (questions[i].client)
            client_destroy(questions[i].client);
    sem_destroy(&ended);
}

void services_print(const struct found_services *found, FILE *out) {
    size_t width = 0;
    for (size_t i = 0; i < found->count; i++)
        if (strlen(found->items[i].address) > width)
            width = strlen(found->items[i].address);
    for (size_t i = 0; i < found->count; i++) {
        const struct found_service *one = &found->items[i];
        fprintf(out, "  --service %-*s  %s\n", (int)width, one->address,
                one->targets   ? one->names
                : one->answers ? "no targets"
                               : "does not answer");
    }
}
