/* SPDX-License-Identifier: Apache-2.0
 *
 * The control thread's loop: one poll over the socket, the wake-up descriptor and, while sonded is
 * away, an inotify watch on the folder in which its socket will appear. Connected and idle, it
 * waits without a timeout. While sonded is away, it tries to connect when the socket appears, and
 * after 1, 2, 4 ... 60 s. Without a watch (an abstract socket, a missing folder) the longest pause
 * is 10 s. */
#include "service/guest/guest.h"
#include "service/guest/heap/heap_commands.h"
#include "service/guest/link.h"
#include "service/guest/process/append.h"
#include "service/guest/process/capabilities.h"
#include "service/guest/process/limits.h"
#include "service/guest/process/procfs.h"
#include "service/guest/process/wrapper.h"
#include "service/guest/raw.h"
#include "service/guest/sampling/capture_state.h"
#include "service/guest/sampling/thread_scan.h"
#include "service/guest/signal/handler_state.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define FIRST_PAUSE_MS  1000
#define WATCH_PAUSE_MS  60000 /* at most, with a watch */
#define BLIND_PAUSE_MS  10000 /* at most, without one */
#define LISTEN_PAUSE_MS 50    /* the socket exists, but sonded does not listen yet */
#define LISTEN_TRIES    5

static struct fds_file watch = FDS_NONE;
static int pause_ms, tries_left;
static bool suspended;       /* the previous thread has left its state for the next one */
static bool attached;        /* Hello was sent; the link may have been closed since */
static bool labels_reported; /* over this link */
static int64_t away_since_s;

static void set_state(enum guest_state state) {
    atomic_store(&guest.state, state);
}

/* ---- Hello ---- */

/* Filled once per sonde_start, so that the uuid stays when the guest connects again. */
static sonde_guest_v1_Hello hello;

static void fill_hello(void) {
    hello.protocol = 1;
    hello.pid = (int32_t)handler_state.pid;
    append_text(hello.name, sizeof hello.name, guest.name);
    append_text(hello.labels, sizeof hello.labels, guest.labels);
    append_text(hello.version, sizeof hello.version, GUEST_VERSION);
    ssize_t len = readlink("/proc/thread-self/exe", hello.executable, sizeof hello.executable - 1);
    hello.executable[len > 0 ? len : 0] = 0;
    if (system_call3(SYS_getrandom, (long)hello.uuid, sizeof hello.uuid, GRND_NONBLOCK) < 0)
        memcpy(hello.uuid, &handler_state.pid, sizeof handler_state.pid);
    hello.start_ticks = procfs_stat_field(22);
    hello.page_size = (uint32_t)sysconf(_SC_PAGESIZE);
    hello.cpus = limits_cpus();
}

/* Of three readings the one that took the shortest time. */
static int64_t real_minus_monotonic(void) {
    int64_t shortest = INT64_MAX, difference = 0;
    for (int i = 0; i < 3; i++) {
        int64_t before = handler_clock_ns(CLOCK_MONOTONIC), real = handler_clock_ns(CLOCK_REALTIME);
        int64_t took = handler_clock_ns(CLOCK_MONOTONIC) - before;
        if (took >= shortest)
            continue;
        shortest = took;
        difference = real - before - took / 2;
    }
    return difference;
}

static bool send_hello(void) {
    if (hello.protocol == 0)
        fill_hello();
    link_out *out = link_message();
    out->which_message = sonde_guest_v1_FromGuest_hello_tag;
    out->message.hello = hello;
    out->message.hello.real_minus_monotonic_ns = real_minus_monotonic();
    return link_send(-1);
}

/* ---- Away ---- */

static void close_watch(void) {
    fds_close(&watch);
}

/* Watches the socket's folder, unless the socket is abstract or the folder does not exist. */
static void set_watch(void) {
    char folder[GUEST_PATH_BYTES] = "";
    append_text(folder, sizeof folder, guest.socket_path);
    char *slash = strrchr(folder, '/');
    if (watch.fd >= 0 || !slash || slash == folder || folder[0] == '@')
        return;
    *slash = 0;
    int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fd < 0)
        return;
    watch = fds_keep(fd);
    if (inotify_add_watch(watch.fd, folder, IN_CREATE | IN_MOVED_TO | IN_ATTRIB) < 0)
        close_watch();
}

static int64_t now_s(void) {
    return handler_clock_ns(CLOCK_MONOTONIC) / 1000000000;
}

static void wait_for_sonded(void) {
    set_watch();
    int most = watch.fd >= 0 ? WATCH_PAUSE_MS : BLIND_PAUSE_MS;
    pause_ms = pause_ms == 0 ? FIRST_PAUSE_MS : pause_ms * 2 < most ? pause_ms * 2 : most;
    if (atomic_load(&guest.state) != GUEST_REFUSED)
        set_state(GUEST_AWAY);
}

/* The socket's folder has changed. sonded may have created its socket and listen in a moment. */
static void on_watch(void) {
    char events[1024];
    while (read(watch.fd, events, sizeof events) > 0)
        continue;
    tries_left = LISTEN_TRIES;
    pause_ms = 0;
}

/* The socket's owner may change, so the guest tries again, like when nobody listens. */
static void on_foreign_peer(uint32_t uid) {
    guest.refusal[0] = 0;
    append_text(guest.refusal, sizeof guest.refusal, "its listener (uid ");
    append_number(guest.refusal, sizeof guest.refusal, uid);
    append_text(guest.refusal, sizeof guest.refusal, ") is neither root nor this user: ");
    append_text(guest.refusal, sizeof guest.refusal, guest.socket_path);
    set_state(GUEST_REFUSED);
}

static void try_to_connect(void) {
    uint32_t uid;
    int error = link_open(guest.socket_path, &uid);
    if (error == 0 && send_hello()) {
        close_watch();
        pause_ms = tries_left = 0;
        attached = true;
        labels_reported = false;
        set_state(GUEST_IDLE);
        capture_keep_maps(heap_wants_maps());
        return;
    }
    link_close();
    if (error == EPERM && uid != UINT32_MAX)
        on_foreign_peer(uid);
    wait_for_sonded();
    if (tries_left > 0 && error == ECONNREFUSED) {
        tries_left--;
        pause_ms = LISTEN_PAUSE_MS;
    }
}

/* ---- Attached ---- */

static void on_refusal(const sonde_guest_v1_Refusal *refusal) {
    guest.refusal[0] = 0;
    append_text(guest.refusal, sizeof guest.refusal, refusal->reason);
    set_state(GUEST_REFUSED);
    pause_ms = WATCH_PAUSE_MS;
    link_close();
}

static void on_message(const link_in *in, int fd) {
    capabilities_limit_to(
        (int)handler_state.pid); /* if the server has dropped capabilities, so do we */
    switch (in->which_message) {
    case sonde_guest_v1_ToGuest_refusal_tag:
        on_refusal(&in->message.refusal);
        break;
    case sonde_guest_v1_ToGuest_cpu_config_tag:
        capture_on_config(&in->message.cpu_config);
        break;
    case sonde_guest_v1_ToGuest_table_tag:
        capture_on_table(&in->message.table, fd);
        break;
    case sonde_guest_v1_ToGuest_tables_done_tag:
        capture_on_tables_done(&in->message.tables_done);
        heap_on_tables();
        break;
    case sonde_guest_v1_ToGuest_heap_command_tag:
        heap_on_command(&in->message.heap_command, capture_has_maps());
        capture_keep_maps(heap_wants_maps());
        break;
    default: /* Welcome needs no answer; messages of a newer sonded are ignored */
        break;
    }
}

/* The first try after a hang-up waits, so that a restarted sonded is not met by all its guests at
 * once. */
static void after_hang_up(void) {
    attached = false;
    away_since_s = now_s();
    capture_abandon();
    wait_for_sonded();
}

static void report_labels(void) {
    if (!attached || labels_reported || !atomic_load(&handler_state.uses_labels))
        return;
    labels_reported = true;
    link_out *out = link_message();
    out->which_message = sonde_guest_v1_FromGuest_uses_labels_tag;
    out->message.uses_labels = true;
    (void)link_send(-1); /* a broken link is noticed when it is read */
}

/* ---- The loop ---- */

static void drain_wake(void) {
    char none;
    while (recv(guest.wake.fd, &none, sizeof none, MSG_DONTWAIT) == 0)
        continue;
}

/* Reopens descriptors that the application has closed or reused (process/fds.h). */
static void repair_descriptors(void) {
    if (!fds_ours(&guest.wake))
        guest_make_wake();
    if (attached && link_lost())
        pause_ms = 1;
    if (watch.fd >= 0 && !fds_ours(&watch))
        close_watch();
}

static void wait_for_events(int timeout_ms) {
    struct pollfd waits[] = {
        {guest.wake.fd, POLLIN, 0}, {link_fd(), POLLIN, 0}, {watch.fd, POLLIN, 0}};
    int ready = poll(waits, 3, timeout_ms);
    repair_descriptors();
    if (ready > 0 && waits[0].revents)
        drain_wake();
    if (ready > 0 && waits[2].revents)
        on_watch();
    if (ready > 0 && waits[1].revents)
        link_receive(on_message);
    if (!attached && (ready == 0 || waits[2].revents))
        try_to_connect();
    if (!attached)
        heap_while_away(away_since_s);
    report_labels();
}

/* True if the thread has something to do before the time is over. */
static bool wait_before_start(int delay_ms) {
    struct pollfd stop = {guest.wake.fd, POLLIN, 0};
    return delay_ms > 0 && poll(&stop, 1, delay_ms) != 0;
}

/* The shorter of two waits; -1 = no timeout. */
static int sooner(int a, int b) {
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

static bool must_end(void) {
    return atomic_load(&guest.stopping) || atomic_load(&guest.suspending);
}

static void begin(void) {
    pause_ms = tries_left = 0;
    memset(&hello, 0, sizeof hello);
    set_state(GUEST_AWAY);
    bool is_woken = wait_before_start((int)guest.start_delay_ms);
    while (guest.is_shell && !is_woken && wrapper_has_child())
        is_woken = wait_before_start((int)guest.start_delay_ms);
    if (!must_end())
        try_to_connect();
}

/* Continues the work of a suspended control thread. */
static void resume(void) {
    suspended = false;
    threads_exclude_self();
    heap_exclude_self();
}

void control_run(void) {
    if (suspended)
        resume();
    else
        begin();
    while (!must_end()) {
        int due_ms = attached ? sooner(capture_tick(), heap_tick()) : pause_ms;
        if (attached && link_fd() < 0)
            after_hang_up();
        else
            wait_for_events(due_ms);
    }
    suspended = !atomic_load(&guest.stopping);
    if (suspended)
        capture_suspend();
    else
        control_end();
}

void control_end(void) {
    suspended = false;
    heap_stop();
    capture_abandon();
    attached = false;
    link_close();
    close_watch();
    set_state(GUEST_OFF);
}

void control_after_fork(void) {
    attached = suspended = false;
    link_close();
    close_watch();
    heap_after_fork();
    capture_after_fork();
}
