/* SPDX-License-Identifier: Apache-2.0
 *
 * The call's batches each hold one of its `pending`; when the last has completed, the call is over
 * and the pause before the next one begins.
 *
 *     status    RECV_STATUS_ON_CLIENT, from the start
 *     receive   RECV_INITIAL_METADATA and RECV_MESSAGE, then RECV_MESSAGE again and again
 *     send      SEND_INITIAL_METADATA with the registration, then one answer at a time */
#include "service/rpc/registration/registration.h"

#include "api/base/clock.h"
#include "api/os/secrets/token_file.h"
#include "api/rpc/client/channel.h"
#include "api/rpc/message.h"
#include "bazel/shims/grpc_core/abseil.h"
#include "bazel/shims/grpc_core/tsan.h"
#include "proto/sonde/v1/controller.pb-c.h"
#include "service/collect/collect.h"
#include "service/rpc/base/loop.h"

#include <grpc/byte_buffer.h>
#include <grpc/compression.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define METHOD       "/sonde.v1.Controller/RegisterHost"
#define MAX_REQUEST  (4u << 20)
#define KEEPALIVE_MS 30000
#define FIRST_WAIT_S 1u
#define LAST_WAIT_S  60u
#define MIN_TOKEN    16
#define ANSWER_TAG   0x12 /* RegisterHostRequest.answer: field 2, bytes */

struct registration {
    struct registration_options options;
    char name[256], instance[64];
    char said[320]; /* the last line of the log */
    struct loop *loop;
    pthread_t thread;
    bool has_thread, is_stopping;
    struct loop_message start_message, stop_message, wake_message;
    _Atomic bool is_woken;
    struct loop_timer retry;
    uint32_t failures; /* in a row */
    struct rpc_channels *channels;
    struct token_file *token; /* NULL = none */
    /* The call, if there is one. */
    struct rpc_channel *channel;
    grpc_call *call;
    unsigned pending;
    struct loop_tag status_tag, receive_tag, send_tag;
    bool is_sending, has_begun; /* has_begun: the controller has asked */
    grpc_metadata_array initial, trailing;
    grpc_status_code status;
    grpc_slice details;
    grpc_byte_buffer *received;
    struct sonde_diag mistake; /* why this side ended it */
    struct collect_link *link;
};

static void say(struct registration *registration, const char *text) {
    if (strcmp(registration->said, text) == 0)
        return;
    snprintf(registration->said, sizeof registration->said, "%s", text);
    registration->options.log(text);
}

/* ---- Batches ---- */

static void start(struct registration *registration, const grpc_op *ops, size_t count,
                  struct loop_tag *tag) {
    registration->pending++;
    core_tag_sent(tag);
    if (grpc_call_start_batch(registration->call, ops, count, tag, NULL) != GRPC_CALL_OK)
        abort(); /* a bug in this file: the core refuses malformed batches only */
}

static void fail(struct registration *registration, sonde_err err, const struct sonde_diag *diag) {
    if (!registration->mistake.code)
        (void)sonde_fail(&registration->mistake, err, "%s", sonde_diag_text(diag, err));
    grpc_call_cancel(registration->call, NULL);
}

static void start_receive(struct registration *registration, bool is_first) {
    grpc_op ops[2] = {{.op = GRPC_OP_RECV_MESSAGE}, {.op = GRPC_OP_RECV_INITIAL_METADATA}};
    ops[0].data.recv_message.recv_message = &registration->received;
    ops[1].data.recv_initial_metadata.recv_initial_metadata = &registration->initial;
    start(registration, ops, is_first ? 2 : 1, &registration->receive_tag);
}

static void start_status(struct registration *registration) {
    grpc_op op = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT};
    op.data.recv_status_on_client.trailing_metadata = &registration->trailing;
    op.data.recv_status_on_client.status = &registration->status;
    op.data.recv_status_on_client.status_details = &registration->details;
    start(registration, &op, 1, &registration->status_tag);
}

static grpc_byte_buffer *pack_registration(struct registration *registration) {
    Sonde__V1__HostRegistration host = SONDE__V1__HOST_REGISTRATION__INIT;
    Sonde__V1__RegisterHostRequest request = SONDE__V1__REGISTER_HOST_REQUEST__INIT;
    host.name = registration->name;
    host.instance = registration->instance;
    request.registration = &host;
    grpc_slice slice =
        grpc_slice_malloc(sonde__v1__register_host_request__get_packed_size(&request));
    sonde__v1__register_host_request__pack(&request, GRPC_SLICE_START_PTR(slice));
    grpc_byte_buffer *bytes = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    return bytes;
}

/* "Bearer TOKEN"; the caller overwrites it. */
static void read_token(struct registration *registration, char out[300]) {
    char token[260] = "";
    out[0] = 0;
    if (registration->token)
        token_file_first(registration->token, token, sizeof token);
    if (token[0])
        snprintf(out, 300, "Bearer %s", token);
    explicit_bzero(token, sizeof token);
}

static void send_registration(struct registration *registration) {
    char authorization[300];
    read_token(registration, authorization);
    grpc_metadata token = {.key = grpc_slice_from_static_string("authorization"),
                           .value = grpc_slice_from_copied_string(authorization)};
    grpc_op ops[2] = {{.op = GRPC_OP_SEND_INITIAL_METADATA}, {.op = GRPC_OP_SEND_MESSAGE}};
    grpc_byte_buffer *bytes = pack_registration(registration);
    ops[0].data.send_initial_metadata.count = authorization[0] ? 1 : 0;
    ops[0].data.send_initial_metadata.metadata = &token;
    ops[1].data.send_message.send_message = bytes;
    registration->is_sending = true;
    start(registration, ops, 2, &registration->send_tag);
    grpc_byte_buffer_destroy(bytes);
    grpc_slice_unref(token.value);
    explicit_bzero(authorization, sizeof authorization);
}

/* ---- Answers ---- */

/* The packed RegisterHostRequest around a packed CollectResponse. */
static grpc_byte_buffer *wrap(const struct sonde_buf *answer) {
    uint8_t head[11] = {ANSWER_TAG};
    size_t len = 1;
    for (size_t left = answer->len;; left >>= 7) {
        head[len++] = (uint8_t)((left & 0x7f) | (left > 0x7f ? 0x80 : 0));
        if (left <= 0x7f)
            break;
    }
    grpc_slice slices[] = {grpc_slice_from_copied_buffer((const char *)head, len),
                           grpc_slice_from_copied_buffer(answer->data, answer->len)};
    grpc_byte_buffer *bytes = grpc_raw_byte_buffer_create(slices, 2);
    grpc_slice_unref(slices[0]);
    grpc_slice_unref(slices[1]);
    return bytes;
}

static void send_next(struct registration *registration) {
    struct sonde_buf answer = {0};
    struct sonde_diag diag = {0};
    bool is_empty = true;
    if (!registration->link || registration->is_sending)
        return;
    sonde_err err =
        collect_next(registration->link, clock_ns(CLOCK_MONOTONIC), &answer, &is_empty, &diag);
    if (!err && !is_empty) {
        grpc_byte_buffer *bytes = wrap(&answer);
        grpc_op op = {.op = GRPC_OP_SEND_MESSAGE};
        op.data.send_message.send_message = bytes;
        registration->is_sending = true;
        start(registration, &op, 1, &registration->send_tag);
        grpc_byte_buffer_destroy(bytes);
    }
    sonde_buf_finish(&answer);
    if (err)
        fail(registration, err, &diag);
}

static void on_wake(struct loop_message *message) {
    struct registration *registration = container_of(message, struct registration, wake_message);
    atomic_store(&registration->is_woken, false);
    send_next(registration);
}

/* Any thread. */
static void wake(void *context) {
    struct registration *registration = context;
    if (!atomic_exchange(&registration->is_woken, true))
        loop_post(registration->loop, &registration->wake_message);
}

/* ---- Requests ---- */

static Sonde__V1__CollectRequest *unpack(grpc_byte_buffer *bytes) {
    struct sonde_diag diag;
    grpc_slice all;
    if (sonde_message_read(bytes, MAX_REQUEST, &all, &diag))
        return NULL;
    Sonde__V1__CollectRequest *request =
        sonde__v1__collect_request__unpack(NULL, GRPC_SLICE_LENGTH(all), GRPC_SLICE_START_PTR(all));
    grpc_slice_unref(all);
    return request;
}

static sonde_err take_request(struct registration *registration, grpc_byte_buffer *bytes,
                              struct sonde_diag *diag) {
    char text[600];
    Sonde__V1__CollectRequest *request = unpack(bytes);
    if (!request)
        return sonde_fail(diag, SONDE_PROTOCOL, "the controller's request cannot be decoded");
    sonde_err err = registration->link ? collect_receive(registration->link, request, diag)
                                       : collect_open(registration->options.collect, request, wake,
                                                      registration, &registration->link, diag);
    sonde__v1__collect_request__free_unpacked(request, NULL);
    if (err || registration->has_begun)
        return err;
    registration->has_begun = true;
    snprintf(text, sizeof text, "registered with %s as %s", registration->options.address,
             registration->name);
    say(registration, text);
    return SONDE_OK;
}

/* ---- Tags ---- */

static void end(struct registration *registration);

static bool is_last(struct registration *registration) {
    if (--registration->pending > 0)
        return false;
    end(registration);
    return true;
}

static void on_received(struct loop_tag *tag, bool ok) {
    struct registration *registration = container_of(tag, struct registration, receive_tag);
    grpc_byte_buffer *bytes = registration->received;
    struct sonde_diag diag = {0};
    registration->received = NULL;
    if (ok && bytes && !registration->mistake.code) {
        sonde_err err = take_request(registration, bytes, &diag);
        if (err)
            fail(registration, err, &diag);
        else
            start_receive(registration, false);
        send_next(registration);
    }
    grpc_byte_buffer_destroy(bytes);
    (void)is_last(registration);
}

static void on_sent(struct loop_tag *tag, bool ok) {
    struct registration *registration = container_of(tag, struct registration, send_tag);
    registration->is_sending = false;
    if (ok)
        send_next(registration);
    (void)is_last(registration);
}

static void on_status(struct loop_tag *tag, bool ok) {
    struct registration *registration = container_of(tag, struct registration, status_tag);
    (void)ok;
    collect_close(registration->link);
    registration->link = NULL;
    (void)is_last(registration);
}

/* ---- Calls ---- */

static void connect_controller(struct registration *registration) {
    registration->channel = rpc_channels_take(registration->channels);
    registration->call = grpc_channel_create_call(
        registration->channel->core, NULL, GRPC_PROPAGATE_DEFAULTS, loop_queue(registration->loop),
        grpc_slice_from_static_string(METHOD), NULL, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    grpc_metadata_array_init(&registration->initial);
    grpc_metadata_array_init(&registration->trailing);
    registration->details = grpc_empty_slice();
    registration->has_begun = false;
    registration->mistake = (struct sonde_diag){.code = SONDE_OK};
    start_status(registration);
    start_receive(registration, true);
    send_registration(registration);
}

static void on_retry(struct loop_timer *timer) {
    connect_controller(container_of(timer, struct registration, retry));
}

/* Half of the pause is random, so that hosts do not return together. */
static uint32_t pause_ms(uint32_t failures) {
    uint32_t random = 0, seconds = FIRST_WAIT_S;
    while (--failures > 0 && seconds < LAST_WAIT_S)
        seconds *= 2;
    seconds = seconds < LAST_WAIT_S ? seconds : LAST_WAIT_S;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
        random = 0;
    return seconds * 500 + random % (seconds * 500);
}

static void report(struct registration *registration) {
    char text[600], details[300];
    size_t len = GRPC_SLICE_LENGTH(registration->details);
    len = len < sizeof details - 1 ? len : sizeof details - 1;
    memcpy(details, GRPC_SLICE_START_PTR(registration->details), len);
    details[len] = 0;
    if (registration->mistake.code)
        snprintf(details, sizeof details, "%s", registration->mistake.text);
    snprintf(text, sizeof text, "%s %s: %s; trying again",
             registration->has_begun ? "the call to" : "cannot register with",
             registration->options.address,
             details[0] ? details : "the controller has ended the call");
    say(registration, text);
}

static void end(struct registration *registration) {
    registration->failures = registration->has_begun ? 1 : registration->failures + 1;
    collect_close(registration->link);
    registration->link = NULL;
    if (!registration->is_stopping)
        report(registration);
    grpc_metadata_array_destroy(&registration->initial);
    grpc_metadata_array_destroy(&registration->trailing);
    grpc_slice_unref(registration->details);
    grpc_call_unref(registration->call);
    registration->call = NULL;
    rpc_channels_drop(registration->channels, registration->channel);
    if (registration->is_stopping)
        loop_close(registration->loop);
    else
        loop_timer_set(registration->loop, &registration->retry, pause_ms(registration->failures));
}

/* ---- Life ---- */

static void on_start(struct loop_message *message) {
    connect_controller(container_of(message, struct registration, start_message));
}

static void on_stop(struct loop_message *message) {
    struct registration *registration = container_of(message, struct registration, stop_message);
    registration->is_stopping = true;
    loop_timer_clear(registration->loop, &registration->retry);
    collect_close(registration->link);
    registration->link = NULL;
    if (registration->call)
        grpc_call_cancel(registration->call, NULL);
    else
        loop_close(registration->loop);
}

static void *run(void *context) {
    struct registration *registration = context;
    loop_run(registration->loop);
    return NULL;
}

static void identify(struct registration *registration) {
    struct sonde_arena arena = {0};
    Sonde__V1__CollectHello hello = SONDE__V1__COLLECT_HELLO__INIT;
    const struct registration_options *options = &registration->options;
    collect_identify(options->collect, &arena, &hello);
    snprintf(registration->name, sizeof registration->name, "%s",
             options->name ? options->name : hello.host);
    snprintf(registration->instance, sizeof registration->instance, "%s", hello.instance);
    sonde_arena_finish(&arena);
}

static const struct rpc_channel_setting settings[] = {
    {GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, MAX_REQUEST},
    {GRPC_ARG_KEEPALIVE_TIME_MS, KEEPALIVE_MS},
    {GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0},
    {GRPC_COMPRESSION_CHANNEL_DEFAULT_ALGORITHM, GRPC_COMPRESS_GZIP},
    {GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200},
};

static sonde_err open_channels(struct registration *registration, struct sonde_diag *diag) {
    const struct registration_options *options = &registration->options;
    const struct tls_files_options files = {.ca_file = options->ca_file,
                                            .cert_file = options->cert_file,
                                            .key_file = options->key_file,
                                            .key_kind = SONDE_FILE_SECRET,
                                            .log = options->log};
    const struct rpc_channels_options channels = {.address = options->address,
                                                  .own_tls = options->ca_file ? &files : NULL,
                                                  .settings = settings,
                                                  .setting_count =
                                                      sizeof settings / sizeof *settings};
    sonde_err err = SONDE_OK;
    if (!strchr(options->address, ':'))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "--register \"%.64s\" is neither HOST:PORT nor unix:PATH",
                          options->address);
    if (!options->ca_file && (options->cert_file || options->key_file))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "--register-cert and --register-key need --register-ca");
    if (options->token_file)
        err = token_file_create(options->token_file, MIN_TOKEN, options->log, &registration->token,
                                diag);
    return err ? err : rpc_channels_create(&channels, &registration->channels, diag);
}

static sonde_err start_thread(struct registration *registration, struct sonde_diag *diag) {
    int error = pthread_create(&registration->thread, NULL, run, registration);
    if (error)
        return sonde_fail_os(diag, error, "the thread that registers cannot be started");
    registration->has_thread = true;
    pthread_setname_np(registration->thread, "sonde-register");
    loop_post(registration->loop, &registration->start_message);
    return SONDE_OK;
}

sonde_err registration_start(const struct registration_options *options,
                             struct registration **started, struct sonde_diag *diag) {
    struct registration *registration = calloc(1, sizeof *registration);
    sigset_t all, before;
    *started = NULL;
    if (!registration)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    registration->options = *options;
    registration->start_message.run = on_start;
    registration->stop_message.run = on_stop;
    registration->wake_message.run = on_wake;
    registration->retry.run = on_retry;
    registration->status_tag.run = on_status;
    registration->receive_tag.run = on_received;
    registration->send_tag.run = on_sent;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    core_skip_lock_checks();
    grpc_init();
    identify(registration);
    sonde_err err = open_channels(registration, diag);
    if (!err)
        err = loop_create(&registration->loop, diag);
    if (!err)
        err = start_thread(registration, diag);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err)
        registration_stop(registration);
    else
        *started = registration;
    return err;
}

static void stop_thread(struct registration *registration) {
    loop_post(registration->loop, &registration->stop_message);
    pthread_join(registration->thread, NULL);
}

void registration_stop(struct registration *registration) {
    if (!registration)
        return;
    if (registration->has_thread)
        stop_thread(registration);
    else if (registration->loop)
        loop_close(registration->loop);
    if (registration->loop && !registration->has_thread)
        loop_run(registration->loop);
    loop_destroy(registration->loop);
    rpc_channels_destroy(registration->channels);
    token_file_destroy(registration->token);
    grpc_shutdown();
    free(registration);
}
