/* SPDX-License-Identifier: Apache-2.0
 *
 * A verb's connection to sonded: where it is, one question and one answer, or a stream that Ctrl-C
 * ends in the target as well. Main thread only; messages of a stream come on the client's thread,
 * one at a time, while the main thread does nothing but wait. */
#ifndef SONDE_CLIENTS_CLI_SERVICE_H
#define SONDE_CLIENTS_CLI_SERVICE_H

#include "api/error.h"
#include "api/options.h"
#include "clients/c/client.h"
#include "proto/sonde/v1/profiler.pb-c.h"

struct service_settings {
    const char *address, *token, *ca_file, *cert_file, *key_file;
};

/* The rows that every verb's table has; `at` leads from its settings to a struct service_settings.
 */
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
    struct client *client;
    char address[512];
    int signals; /* signalfd: SIGINT, SIGTERM, SIGHUP */
};

/* The address that is named, else of the `sonde run` that runs, else of the machine's own sonded.
 * SONDE_INVALID_ARGUMENT when several run. */
SONDE_MUST_USE sonde_err service_address(const struct service_settings *settings, char address[512],
                                         struct sonde_diag *diag);
/* Does not wait for the connection: the first call does. */
SONDE_MUST_USE sonde_err service_open(struct service *service,
                                      const struct service_settings *settings,
                                      struct sonde_diag *diag);
void service_close(struct service *service);

/* *response is freed with protobuf_c_message_free_unpacked. */
SONDE_MUST_USE sonde_err service_call(struct service *service, const struct client_method *method,
                                      const ProtobufCMessage *request, ProtobufCMessage **response,
                                      struct sonde_diag *diag);

/* on_message returns false to cancel the stream: then SONDE_OK is the result, and what went wrong
 * is the context's to know. SONDE_CANCELLED after a signal. */
typedef bool service_on_message(void *context, const ProtobufCMessage *message);
SONDE_MUST_USE sonde_err service_stream(struct service *service, const struct client_method *method,
                                        const ProtobufCMessage *request, uint32_t deadline_ms,
                                        service_on_message *on_message, void *context,
                                        struct sonde_diag *diag);

/* The same for methods with many requests: `first` is sent, then each_sent is called whenever one
 * has left, on the client's thread, to send the next by client_call_send. */
SONDE_MUST_USE sonde_err service_upload(struct service *service, const struct client_method *method,
                                        const ProtobufCMessage *first,
                                        void (*each_sent)(void *context, struct client_call *call),
                                        service_on_message *on_message, void *context,
                                        struct sonde_diag *diag);

/* "" chooses nothing, digits a pid, anything else a name. The selector borrows the text. */
void service_select(const char *target, Sonde__V1__TargetSelector *selector);

#endif
