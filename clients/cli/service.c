/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/service.h"

#include "clients/cli/choose_service.h"
#include "clients/cli/cli.h"
#include "clients/cli/run/private_sonded.h"
#include "clients/cli/suggest_target.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define CALL_TIMEOUT_MS 15000
#define HTTP_ANSWER     "Received http2 header with status: " /* gRPC's words */

static const char roots_address[] = "unix:/run/sonde/grpc.sock";

static const char *socket_path(const char *address) {
    return strncmp(address, "unix:", 5) == 0 ? address + 5 : NULL;
}

/* Called before the client starts threads, so that they inherit the blocked signals. */
static int take_signals(sigset_t *before) {
    sigset_t taken;
    sigemptyset(&taken);
    sigaddset(&taken, SIGINT);
    sigaddset(&taken, SIGTERM);
    sigaddset(&taken, SIGHUP);
    sigprocmask(SIG_BLOCK, &taken, before);
    return signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
}

static sonde_err start_private(struct service *service, struct sonde_diag *diag) {
    const sigset_t *mask = service->settings.mask ? service->settings.mask : &service->mask;
    service->private = calloc(1, sizeof *service->private);
    if (!service->private)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    sonde_err err = private_service_start(service->private, mask, service->signals, diag);
    if (!err)
        snprintf(service->address, sizeof service->address, "%s", service->private->sonded.address);
    if (err) {
        free(service->private);
        service->private = NULL;
    }
    return err;
}

/* Creates the client of service->address. */
static sonde_err create_client(struct service *service, struct sonde_diag *diag) {
    const struct service_settings *settings = &service->settings;
    bool is_private = service->private != NULL;
    struct client_options options = {.address = service->address,
                                     .token = service->is_foreign ? NULL : settings->token,
                                     .ca_file = is_private ? NULL : settings->ca_file,
                                     .cert_file = is_private ? NULL : settings->cert_file,
                                     .key_file = is_private ? NULL : settings->key_file};
    return client_create(&options, &service->client, diag);
}

static void take_found(struct service *service, const struct found_service *found) {
    snprintf(service->address, sizeof service->address, "%s", found->address);
    service->is_foreign = !found->is_own;
}

static sonde_err none_running(struct sonde_diag *diag) {
    char searched[160];
    services_describe_search(searched, sizeof searched);
    return sonde_fail(diag, SONDE_UNAVAILABLE,
                      "no sonded is running (looked in %s); start a server with `sonde run -- "
                      "COMMAND` or pass --service ADDR",
                      searched);
}

/* Decides now if that needs no question: the address is set, or one sonded is running, or none. */
static sonde_err open_service(struct service *service, const struct service_settings *settings,
                              bool names_process, struct sonde_diag *diag) {
    struct found_services *found = &service->found;
    services_find(found);
    size_t count = found->count;
    if (count == 1 && found->items[0].is_own)
        take_found(service, &found->items[0]);
    else if (count == 0 && found->is_roots_forbidden && !service->may_start)
        snprintf(service->address, sizeof service->address, "%s", roots_address);
    else if (count == 0 && !service->may_start)
        return none_running(diag);
    else if (count == 0 && !names_process)
        return sonde_fail(
            diag, SONDE_INVALID_ARGUMENT,
            "which process? Name it or give its pid; `sonde targets --all` lists all");
    if (!settings->mask)
        service->signals = take_signals(&service->mask);
    sonde_err err = SONDE_OK;
    if (count == 0 && service->may_start)
        err = start_private(service, diag);
    return err || !service->address[0] ? err : create_client(service, diag);
}

/* Several are running, or only those of other users: the request decides. */
static sonde_err decide(struct service *service, const struct client_method *method,
                        const ProtobufCMessage *request, struct sonde_diag *diag) {
    const struct service_question question = {.method = method,
                                              .request = request,
                                              .token = service->settings.token,
                                              .may_start = service->may_start};
    const struct found_service *chosen;
    sonde_err err = choose_service(&service->found, &question, &chosen, diag);
    if (err)
        return err;
    if (chosen)
        take_found(service, chosen);
    else
        err = start_private(service, diag);
    return err ? err : create_client(service, diag);
}

static sonde_err open_any(struct service *service, const struct service_settings *settings,
                          bool may_start, bool names_process, struct sonde_diag *diag) {
    *service = (struct service){.settings = *settings,
                                .is_found = !settings->address,
                                .may_start = may_start,
                                .signals = -1,
                                .watched = -1};
    if (!settings->address)
        return open_service(service, settings, names_process, diag);
    if (snprintf(service->address, sizeof service->address, "%s", settings->address) >=
        (int)sizeof service->address)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "--service: address too long");
    if (!settings->mask)
        service->signals = take_signals(&service->mask);
    return create_client(service, diag);
}

sonde_err service_open(struct service *service, const struct service_settings *settings,
                       struct sonde_diag *diag) {
    return open_any(service, settings, false, false, diag);
}

sonde_err service_open_or_start(struct service *service, const struct service_settings *settings,
                                bool names_process, struct sonde_diag *diag) {
    return open_any(service, settings, true, names_process, diag);
}

void service_close(struct service *service) {
    if (service->client)
        client_destroy(service->client);
    if (service->private)
        private_service_stop(service->private);
    free(service->private);
    if (service->signals > 0)
        close(service->signals);
    *service = (struct service){.signals = -1, .watched = -1};
}

/* The user who owns the socket, or the directory that hides it. */
static const char *owner_of(const char *path, char name[64]) {
    char folder[512];
    struct stat info;
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    if (stat(path, &info) != 0 && stat(folder, &info) != 0)
        return "its user";
    const struct passwd *user = getpwuid(info.st_uid);
    if (user)
        snprintf(name, 64, "%s", user->pw_name);
    else
        snprintf(name, 64, "user %u", info.st_uid);
    return name;
}

/* gRPC says only that it could not connect. */
static bool is_forbidden(const char *address) {
    const char *path = socket_path(address);
    return path && access(path, R_OK | W_OK) != 0 && errno == EACCES;
}

/* This command as root would start a private sonded that may do more. */
static sonde_err suggest_sudo(const struct service *service, sonde_err err,
                              struct sonde_diag *diag) {
    bool helps = err == SONDE_PERMISSION_DENIED || err == SONDE_NOT_AVAILABLE;
    if (!diag || !helps || !service->is_found || geteuid() == 0 || !strstr(diag->text, "root"))
        return err;
    size_t len = strlen(diag->text);
    snprintf(diag->text + len, sizeof diag->text - len, "; here: run this command with sudo");
    return err;
}

/* A private sonded is only unreachable if it has ended, and its last line may say why. */
static sonde_err name_end(const struct service *service, sonde_err err, struct sonde_diag *diag) {
    struct helper *helper = &service->private->sonded.helper;
    helper_read(helper);
    return sonde_fail(diag, err, "the private sonded of this command has ended%s%.120s",
                      helper->line_count > 1 ? ": " : "",
                      helper->line_count > 1 ? helper_last_line(helper) : "");
}

/* Adds the address to the error, since the user may not know which one was chosen. A service that
 * was reached says itself what is unavailable, for example its store. */
static sonde_err name_address(struct service *service, sonde_err err, struct sonde_diag *diag) {
    if (diag && strncmp(diag->text, HTTP_ANSWER, strlen(HTTP_ANSWER)) == 0)
        return sonde_fail(diag, SONDE_UNAVAILABLE,
                          "%.120s serves HTTP, not gRPC: pass the address of sonded, not of a "
                          "gateway",
                          service->address);
    if (err != SONDE_UNAVAILABLE || (diag && diag->text[0]))
        return err;
    if (service->private)
        return name_end(service, err, diag);
    char owner[64];
    if (is_forbidden(service->address))
        return sonde_fail(
            diag, SONDE_PERMISSION_DENIED, "permission denied on %.120s: run as %s or with sudo",
            socket_path(service->address), owner_of(socket_path(service->address), owner));
    if (service->settings.is_controller)
        return sonde_fail(diag, err,
                          "cannot reach sonde-collect at %.120s; start it with --grpc ADDR, or "
                          "pass --controller ADDR",
                          service->address);
    services_find(&service->found);
    if (service->found.count > 0)
        return sonde_fail(diag, err,
                          "cannot reach sonded at %.100s; %zu running here, for example at %s",
                          service->address, service->found.count, service->found.items[0].address);
    return sonde_fail(diag, err,
                      "cannot reach sonded at %.120s; start a server with `sonde run` or pass "
                      "--service ADDR",
                      service->address);
}

/* A call that runs, and the FinishCapture call that may be sent to end it early. The client
 * library's thread writes the results; the main thread reads them once both have ended. */
struct running_call {
    service_on_message *on_message;
    void (*each_sent)(void *context,
                      struct client_call *call); /* NULL: there is only one request */
    void *context;
    struct client_call *call;
    sonde_err err;
    struct sonde_diag diag;
    int ended;            /* eventfd: counts the calls that have ended */
    pthread_mutex_t lock; /* of `call`, which is NULL after on_end */
    atomic_bool refused;  /* on_message returned false */
    bool is_finishing;    /* main thread only */
};

static bool on_message(void *context, struct client_call *call, const ProtobufCMessage *message) {
    struct running_call *running = context;
    if (atomic_load(&running->refused))
        return true;
    if (!running->on_message(running->context, message)) {
        atomic_store(&running->refused, true);
        client_call_cancel(call);
    }
    return true;
}

static void on_sent(void *context, struct client_call *call) {
    struct running_call *running = context;
    running->each_sent(running->context, call);
}

static void count_end(struct running_call *running) {
    uint64_t one = 1;
    while (write(running->ended, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

static void on_end(void *context, sonde_err err, const struct sonde_diag *diag) {
    struct running_call *running = context;
    pthread_mutex_lock(&running->lock);
    running->call = NULL;
    pthread_mutex_unlock(&running->lock);
    running->err = err;
    if (diag)
        running->diag = *diag;
    count_end(running);
}

static void cancel(struct running_call *running) {
    pthread_mutex_lock(&running->lock);
    if (running->call)
        client_call_cancel(running->call);
    pthread_mutex_unlock(&running->lock);
}

static bool on_finish_message(void *context, struct client_call *call,
                              const ProtobufCMessage *message) {
    (void)context, (void)call, (void)message;
    return true;
}

/* Without the service's help the capture can only be cancelled. */
static void on_finish_end(void *context, sonde_err err, const struct sonde_diag *diag) {
    struct running_call *running = context;
    (void)diag;
    if (err)
        cancel(running);
    count_end(running);
}

void service_finish_capture(struct service *service) {
    static const struct client_callbacks callbacks = {.on_message = on_finish_message,
                                                      .on_end = on_finish_end};
    Sonde__V1__FinishCaptureRequest request = SONDE__V1__FINISH_CAPTURE_REQUEST__INIT;
    struct running_call *running = service->running;
    if (!running || running->is_finishing)
        return;
    request.key = service->key;
    running->is_finishing =
        client_call_start(service->client, &client_finish_capture, &request.base, CALL_TIMEOUT_MS,
                          NULL, &callbacks, running) != NULL;
    if (!running->is_finishing)
        cancel(running);
}

/* True if the next signal is to have its usual effect. */
static bool take_signal(struct service *service, struct running_call *running) {
    struct signalfd_siginfo info;
    if (read(service->signals, &info, sizeof info) <= 0)
        return false;
    bool finishes = service->key[0] && !running->is_finishing;
    if (finishes)
        service_finish_capture(service);
    else
        cancel(running);
    return !finishes;
}

static void unblock_signals(void) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Waits for the end of the call, and of the one that finishes it. */
static void wait_for_end(struct service *service, struct running_call *running) {
    struct helper *private = service->private ? &service->private->sonded.helper : NULL;
    struct pollfd waiting[] = {{running->ended, POLLIN, 0},
                               {service->signals, POLLIN, 0},
                               {service->watched, POLLIN, 0},
                               {-1, POLLIN, 0}};
    eventfd_t ended = 0, count = 0; /* reading it orders on_end's writes before our reads */
    while (ended < 1u + running->is_finishing) {
        waiting[3].fd = private ? private->output : -1;
        if (poll(waiting, COUNT_OF(waiting), -1) < 0)
            continue;
        if ((waiting[0].revents & POLLIN) && eventfd_read(running->ended, &count) == 0)
            ended += count;
        if ((waiting[1].revents & POLLIN) && take_signal(service, running)) {
            waiting[1].fd = -1;
            unblock_signals();
        }
        if (waiting[2].revents & POLLIN)
            service->on_watched(service->watched_context);
        if (waiting[3].revents)
            helper_read(private);
    }
}

static bool is_on_this_machine(const struct service *service) {
    return service->is_found || service->private || socket_path(service->address);
}

static sonde_err explain_target(struct service *service, sonde_err err,
                                const ProtobufCMessage *request, struct sonde_diag *diag) {
    const Sonde__V1__TargetSelector *selector = choose_selector(request);
    if (err == SONDE_TARGET_NOT_FOUND && is_on_this_machine(service))
        err = explain_owner(selector, err, diag);
    if (err == SONDE_TARGET_NOT_FOUND)
        suggest_target(service->client, &service->found, selector, diag);
    if (err == SONDE_TARGET_AMBIGUOUS)
        list_candidates(service->client, selector, is_on_this_machine(service));
    return name_address(service, err, diag);
}

static sonde_err perform(struct service *service, const struct client_method *method,
                         const ProtobufCMessage *request, uint32_t deadline_ms,
                         struct running_call *running, struct sonde_diag *diag) {
    static const struct client_callbacks callbacks = {.on_message = on_message, .on_end = on_end};
    sonde_err err = service->client ? SONDE_OK : decide(service, method, request, diag);
    if (err == SONDE_TARGET_NOT_FOUND)
        suggest_target(NULL, &service->found, choose_selector(request), diag);
    if (err)
        return err;
    pthread_mutex_init(&running->lock, NULL);
    running->ended = eventfd(0, EFD_CLOEXEC);
    if (running->ended < 0)
        return sonde_fail_os(diag, errno, "cannot create an eventfd");
    pthread_mutex_lock(&running->lock);
    running->call =
        client_call_start_sending(service->client, method, request, deadline_ms, NULL, &callbacks,
                                  running->each_sent ? on_sent : NULL, running);
    bool started = running->call != NULL;
    pthread_mutex_unlock(&running->lock);
    service->running = running;
    if (started)
        wait_for_end(service, running);
    else
        running->err = sonde_fail(&running->diag, SONDE_OUT_OF_MEMORY, "out of memory");
    service->running = NULL;
    close(running->ended);
    if (running->err == SONDE_CANCELLED && atomic_load(&running->refused))
        return SONDE_OK;
    if (running->err && diag)
        *diag = running->diag;
    return suggest_sudo(service, explain_target(service, running->err, request, diag), diag);
}

sonde_err service_stream(struct service *service, const struct client_method *method,
                         const ProtobufCMessage *request, uint32_t deadline_ms,
                         service_on_message *each, void *context, struct sonde_diag *diag) {
    struct running_call running = {.on_message = each, .context = context};
    return perform(service, method, request, deadline_ms, &running, diag);
}

sonde_err service_upload(struct service *service, const struct client_method *method,
                         const ProtobufCMessage *first,
                         void (*each_sent)(void *context, struct client_call *call),
                         service_on_message *each, void *context, struct sonde_diag *diag) {
    struct running_call running = {.on_message = each, .each_sent = each_sent, .context = context};
    return perform(service, method, first, 0, &running, diag);
}

struct answer {
    const ProtobufCMessageDescriptor *type;
    ProtobufCMessage *copy;
};

/* Copies the answer by packing and unpacking it, since messages are valid only during the callback.
 */
static bool on_answer(void *context, const ProtobufCMessage *message) {
    struct answer *answer = context;
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = malloc(size ? size : 1);
    if (!bytes)
        return false;
    protobuf_c_message_pack(message, bytes);
    answer->copy = protobuf_c_message_unpack(answer->type, NULL, size, bytes);
    free(bytes);
    return answer->copy != NULL;
}

sonde_err service_call(struct service *service, const struct client_method *method,
                       const ProtobufCMessage *request, ProtobufCMessage **response,
                       struct sonde_diag *diag) {
    struct answer answer = {.type = method->response};
    sonde_err err =
        service_stream(service, method, request, CALL_TIMEOUT_MS, on_answer, &answer, diag);
    if (!err && !answer.copy)
        err = sonde_fail(diag, SONDE_PROTOCOL, "the service sent no answer");
    if (err && answer.copy) {
        protobuf_c_message_free_unpacked(answer.copy, NULL);
        answer.copy = NULL;
    }
    *response = answer.copy;
    return err;
}

void service_select(const char *target, Sonde__V1__TargetSelector *selector) {
    *selector = (Sonde__V1__TargetSelector)SONDE__V1__TARGET_SELECTOR__INIT;
    if (!target || !*target)
        return;
    if (strspn(target, "0123456789") == strlen(target) && strlen(target) < 10)
        selector->pid = atoi(target);
    else
        selector->name = (char *)target;
}
