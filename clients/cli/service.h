/* SPDX-License-Identifier: Apache-2.0
 *
 * A verb's connection to sonded: finding its address or starting a private one, unary calls, and
 * streams that Ctrl-C cancels in the target, too, or ends with a result. Main thread only; the
 * messages of a stream arrive on the client's thread, one at a time, while the main thread waits.
 */
#ifndef SONDE_CLIENTS_CLI_SERVICE_H
#define SONDE_CLIENTS_CLI_SERVICE_H

#include "api/error.h"
#include "api/settings/options.h"
#include "clients/c/client.h"
#include "clients/cli/services.h"
#include "proto/sonde/v1/profiler.pb-c.h"

#include <signal.h>
#include <stdbool.h>

struct service_settings {
    const char *address, *token, *ca_file, *cert_file, *key_file;
    /* Not NULL: the caller has blocked the signals and reads them (run/supervise.h); this was the
     * mask before. */
    const sigset_t *mask;
    bool is_controller; /* it is sonde-collect that is called, at `address` */
};

/* Option rows for every verb that calls sonded. `at` is the path from the verb's settings to a
 * struct service_settings. */
#define SERVICE_OPTION(type, at, name, argument, environment, field, help) \
    { name, 0, argument, environment, SONDE_OPTION_TEXT, offsetof(type, at.field), 0, 0, help }
#define SERVICE_OPTIONS(type, at)                                                         \
    SERVICE_OPTION(type, at, "service", "ADDR", "SONDE_SERVICE", address,                 \
                   "address of sonded: unix:PATH or HOST:PORT (default: the local one)"), \
        SERVICE_OPTION(type, at, "token", "TOKEN", "SONDE_TOKEN", token, "access token"), \
        SERVICE_OPTION(type, at, "service-ca", "FILE", "SONDE_SERVICE_CA", ca_file,       \
                       "TLS: trusted CA certificates (PEM)"),                             \
        SERVICE_OPTION(type, at, "service-cert", "FILE", "SONDE_SERVICE_CERT", cert_file, \
                       "TLS: client certificate (PEM)"),                                  \
        SERVICE_OPTION(type, at, "service-key", "FILE", "SONDE_SERVICE_KEY", key_file,    \
                       "TLS: client private key (PEM)")

struct service {
    struct client *client; /* NULL: several sonded are running, and the first call chooses one */
    struct service_settings settings;
    char address[512];
    struct found_services found;
    bool is_found;                   /* the address was found, not named */
    bool is_foreign;                 /* it is another user's */
    bool may_start;                  /* may start a private one */
    sigset_t mask;                   /* as it was before */
    int signals;                     /* signalfd for SIGINT, SIGTERM and SIGHUP; -1 = none */
    struct private_service *private; /* NULL: joined a running one */
    char key[40];                    /* of the running capture, which a signal ends with its result,
                                        the next one without; "" = a signal cancels the call */
    struct running_call *running;
    /* Called whenever the descriptor is readable while a call runs. */
    int watched; /* -1 = none */
    void (*on_watched)(void *context);
    void *watched_context;
};

/* Does not connect: the first call does. Without an address in the settings, uses the sonded that
 * is running (services.h). If there are several, the first call uses the one that its target is
 * attached to (choose_service.h). SONDE_UNAVAILABLE if none is running. */
SONDE_MUST_USE sonde_err service_open(struct service *service,
                                      const struct service_settings *settings,
                                      struct sonde_diag *diag);
/* The same, but starts a private one, which service_close ends, if no address is set and this user
 * may use none that is running, or if several are and the target is attached to none of them. For
 * verbs that can look at processes from outside. Nothing attaches to a private one:
 * SONDE_INVALID_ARGUMENT if it would be started, but the verb names no process. */
SONDE_MUST_USE sonde_err service_open_or_start(struct service *service,
                                               const struct service_settings *settings,
                                               bool names_process, struct sonde_diag *diag);
/* Accepts a zeroed struct. */
void service_close(struct service *service);
/* Ends the running capture (`key`) with its result. For on_watched. */
void service_finish_capture(struct service *service);

/* Makes a unary call. The caller frees *response with protobuf_c_message_free_unpacked. */
SONDE_MUST_USE sonde_err service_call(struct service *service, const struct client_method *method,
                                      const ProtobufCMessage *request, ProtobufCMessage **response,
                                      struct sonde_diag *diag);

/* Makes a server-streaming call. on_message returns false to cancel it; the result is then
 * SONDE_OK, and `context` knows why. SONDE_CANCELLED after a signal. */
typedef bool service_on_message(void *context, const ProtobufCMessage *message);
SONDE_MUST_USE sonde_err service_stream(struct service *service, const struct client_method *method,
                                        const ProtobufCMessage *request, uint32_t deadline_ms,
                                        service_on_message *on_message, void *context,
                                        struct sonde_diag *diag);

/* Makes a client-streaming call. Sends `first`, then calls each_sent on the client's thread after
 * each message has been sent; each_sent sends the next one with client_call_send. */
SONDE_MUST_USE sonde_err service_upload(struct service *service, const struct client_method *method,
                                        const ProtobufCMessage *first,
                                        void (*each_sent)(void *context, struct client_call *call),
                                        service_on_message *on_message, void *context,
                                        struct sonde_diag *diag);

/* Selects a target: "" selects none, a number is a pid, anything else a name. The selector borrows
 * the text. */
void service_select(const char *target, Sonde__V1__TargetSelector *selector);

#endif
