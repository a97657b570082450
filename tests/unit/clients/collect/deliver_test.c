/* SPDX-License-Identifier: Apache-2.0
 *
 * The delivery to a real sonde-history over a store in a file. */
#include "clients/collect/spool/deliver.h"

#include "clients/c/client.h"
#include "proto/sonde/v1/history.pb-c.h"
#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK 0x1234567890abcdefu

static char base[256], address[300], refusal[512];
static _Atomic bool has_refusal; /* refusal is written once, before this */
static pid_t history;
static _Atomic int durable, asked_stacks, asked_sources;

static void on_exit_kill(void) {
    if (history)
        kill(history, SIGKILL);
}

static void start_history(void) {
    char store[300], line[512] = "";
    int pipes[2];
    snprintf(store, sizeof store, "sqlite:%s/store", base);
    CHECK(pipe(pipes) == 0);
    history = fork();
    if (history == 0) {
        dup2(pipes[1], STDOUT_FILENO);
        execl("service/sonde-history", "sonde-history", "--store", store, "--grpc", address,
              (char *)NULL);
        _exit(127);
    }
    close(pipes[1]);
    FILE *out = fdopen(pipes[0], "r");
    CHECK(out && fgets(line, sizeof line, out) && strstr(line, "grpc: "));
    fclose(out);
}

static void stop_history(int signal_number) {
    kill(history, signal_number);
    waitpid(history, NULL, 0);
    history = 0;
}

static void begin(void) {
    static bool has_exit;
    if (!mkdtemp(temporary_template(base, sizeof base)))
        abort();
    snprintf(address, sizeof address, "unix:%s/h", base);
    if (!has_exit)
        atexit(on_exit_kill);
    has_exit = true;
    durable = asked_stacks = asked_sources = 0;
    atomic_store(&has_refusal, false);
}

static void on_durable(void *context, bool is_durable) {
    (void)context;
    durable += is_durable;
}

static void on_unknown(void *context, const uint64_t *sources, size_t source_count,
                       const uint64_t *stacks, size_t stack_count) {
    (void)context;
    asked_sources += (int)(source_count == 1 && sources[0] == 7);
    asked_stacks += (int)(stack_count == 1 && stacks[0] == STACK);
}

static void log_line(const char *line) {
    if (atomic_load(&has_refusal) || !strstr(line, "refused"))
        return;
    snprintf(refusal, sizeof refusal, "%s", line);
    atomic_store(&has_refusal, true);
}

/* A window of one row, whose stack is not defined. length_s 0 is what History refuses. */
static void add_window(struct spool *spool, uint64_t seq, uint32_t length_s) {
    uint64_t stack = STACK;
    uint32_t thread = 0;
    int64_t value = 1000;
    char *threads[] = {""};
    Sonde__V1__StoredWindow window = SONDE__V1__STORED_WINDOW__INIT, *windows[] = {&window};
    Sonde__V1__WriteRequest request = SONDE__V1__WRITE_REQUEST__INIT;
    struct sonde_buf bytes = {0};
    window.source = 7;
    window.epoch = 1;
    window.seq = seq;
    window.event = "on-cpu";
    window.service = "web";
    window.host = "h";
    window.instance = "0123456789abcdef0123456789abcdef";
    window.begin_unix_s = 1700000000 + 10 * (int64_t)seq;
    window.length_s = length_s;
    window.samples = 1;
    window.threads = threads;
    window.n_threads = 1;
    window.stack = &stack;
    window.thread = &thread;
    window.value = &value;
    window.n_stack = window.n_thread = window.n_value = 1;
    request.windows = windows;
    request.n_windows = 1;
    char *packed = sonde_buf_extend(&bytes, sonde__v1__write_request__get_packed_size(&request));
    CHECK(packed);
    sonde__v1__write_request__pack(&request, (uint8_t *)packed);
    const struct spool_entry entry = {7, 1, sonde_buf_slice(&bytes)};
    CHECK_INT(spool_add(spool, &entry, on_durable, NULL, NULL), ==, SONDE_OK);
    sonde_buf_finish(&bytes);
}

static struct spool *open_spool(void) {
    char dir[300];
    const struct spool_options options = {dir, 0, log_line};
    struct spool *spool = NULL;
    snprintf(dir, sizeof dir, "%s/spool", base);
    CHECK_INT(spool_open(&options, &spool, NULL), ==, SONDE_OK);
    return spool;
}

static struct deliver *start_deliver(struct spool *spool) {
    static const char *addresses[1];
    const struct deliver_options options = {.spool = spool,
                                            .addresses = addresses,
                                            .address_count = 1,
                                            .on_unknown = on_unknown,
                                            .log = log_line};
    struct deliver *deliver = NULL;
    addresses[0] = address;
    CHECK_INT(deliver_create(&options, &deliver, NULL), ==, SONDE_OK);
    return deliver;
}

static struct deliver_state until(struct deliver *deliver, uint64_t stored, uint64_t duplicates,
                                  uint64_t refused) {
    struct deliver_state state;
    for (int i = 0; i < 3000; i++) {
        deliver_state(deliver, &state);
        if (state.windows_stored == stored && state.duplicates == duplicates &&
            state.refused_windows == refused)
            return state;
        usleep(10000);
    }
    check_fail(__FILE__, __LINE__, "%d stored, %d duplicates, %d refused: %s",
               (int)state.windows_stored, (int)state.duplicates, (int)state.refused_windows,
               state.trouble);
}

TEST(windows_are_stored_once_and_what_is_refused_is_counted) {
    begin();
    start_history();
    struct spool *spool = open_spool();
    struct deliver *deliver = start_deliver(spool);
    add_window(spool, 1, 10);
    add_window(spool, 2, 0);
    add_window(spool, 3, 10);
    until(deliver, 2, 0, 1);
    for (int i = 0; i < 3000 && !atomic_load(&has_refusal); i++)
        usleep(10000);
    CHECK(strstr(refusal, "length_s"));
    add_window(spool, 3, 10);
    until(deliver, 2, 1, 1);
    CHECK_INT(asked_stacks, ==, 1); /* once a minute */
    CHECK_INT(asked_sources, ==, 1);
    for (int i = 0; i < 1000 && spool_take(spool, 10); i++)
        check_fail(__FILE__, __LINE__, "the spool has something that was delivered");
    deliver_destroy(deliver);
    spool_close(spool);
    stop_history(SIGTERM);
}

TEST(what_waits_while_history_is_away_is_delivered_when_it_is_back) {
    struct deliver_state state;
    begin();
    struct spool *spool = open_spool();
    struct deliver *deliver = start_deliver(spool);
    add_window(spool, 1, 10);
    for (int i = 0; i < 3000; i++) {
        deliver_state(deliver, &state);
        if (state.trouble[0])
            break;
        usleep(10000);
    }
    CHECK(strstr(state.trouble, address));
    start_history();
    state = until(deliver, 1, 0, 0);
    CHECK_STR(state.trouble, "");
    CHECK_INT(state.retries, >, 0);
    stop_history(SIGKILL);
    add_window(spool, 2, 10);
    start_history();
    until(deliver, 2, 0, 0);
    deliver_destroy(deliver);
    spool_close(spool);
    stop_history(SIGTERM);
}

TEST(an_end_while_history_is_away_keeps_everything) {
    begin();
    struct spool *spool = open_spool();
    struct deliver *deliver = start_deliver(spool);
    add_window(spool, 1, 10);
    usleep(100000);
    deliver_destroy(deliver);
    spool_close(spool);
    CHECK_INT(durable, ==, 1);
    spool = open_spool();
    struct spool_segment *segment = spool_take(spool, 20000);
    CHECK(segment && segment->count == 1);
    spool_put_back(spool, segment);
    spool_close(spool);
}

/* ---- Clients that share a thread ---- */

static _Atomic int answers, ends;

static bool on_message(void *context, struct client_call *call, const ProtobufCMessage *message) {
    (void)context;
    (void)call;
    (void)message;
    answers++;
    return true;
}

static void on_end(void *context, sonde_err err, const struct sonde_diag *diag) {
    (void)context;
    (void)err;
    (void)diag;
    ends++;
}

TEST(many_clients_share_one_thread_and_each_can_be_destroyed_alone) {
    enum { CLIENTS = 40 };
    static const struct client_callbacks callbacks = {.on_message = on_message, .on_end = on_end};
    struct client_loop *loop = NULL;
    struct client *clients[CLIENTS];
    begin();
    start_history();
    CHECK_INT(client_loop_create(NULL, NULL, &loop, NULL), ==, SONDE_OK);
    const struct client_options options = {.address = address, .loop = loop, .is_lean = true};
    const Sonde__V1__GetHistoryInfoRequest request = SONDE__V1__GET_HISTORY_INFO_REQUEST__INIT;
    const Sonde__V1__WriteRequest write = SONDE__V1__WRITE_REQUEST__INIT;
    for (int i = 0; i < CLIENTS; i++) {
        CHECK_INT(client_create(&options, &clients[i], NULL), ==, SONDE_OK);
        CHECK(client_call_start(clients[i], &client_get_history_info, &request.base, 20000, NULL,
                                &callbacks, NULL));
    }
    for (int i = 0; i < 3000 && ends < CLIENTS; i++)
        usleep(10000);
    CHECK_INT(answers, ==, CLIENTS);
    CHECK(client_call_start_sending(clients[0], &client_write, &write.base, 0, NULL, &callbacks,
                                    NULL, NULL));
    client_destroy(clients[0]); /* ends its call */
    CHECK_INT(ends, ==, CLIENTS + 1);
    CHECK(client_call_start(clients[1], &client_get_history_info, &request.base, 20000, NULL,
                            &callbacks, NULL));
    for (int i = 0; i < 3000 && ends < CLIENTS + 2; i++)
        usleep(10000);
    for (int i = 1; i < CLIENTS; i++)
        client_destroy(clients[i]);
    CHECK_INT(ends, ==, CLIENTS + 2);
    client_loop_destroy(loop);
    stop_history(SIGTERM);
}
