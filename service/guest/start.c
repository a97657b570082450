/* SPDX-License-Identifier: Apache-2.0
 *
 * How the guest starts: a preloaded library starts in its constructor; a program that links or
 * opens the library calls sonde_start, with a name of its own if it likes. A start reads three
 * variables and creates one thread. In a preloaded library that thread waits a moment before it
 * connects, so that sonded does not see short-lived programs, such as the helpers of a shell, which
 * inherit LD_PRELOAD. The constructor does nothing in set-uid programs and where SONDE_DISABLE is
 * set. */
#include "api/sonde.h"
#include "service/guest/guest.h"
#include "service/guest/held.h"
#include "service/guest/labels/otel_context.h"
#include "service/guest/libc.h"
#include "service/guest/process/append.h"
#include "service/guest/process/capabilities.h"
#include "service/guest/process/chroot.h"
#include "service/guest/process/vdso.h"
#include "service/guest/process/wrapper.h"
#include "service/guest/raw.h"
#include "service/guest/sampling/install.h"
#include "service/guest/sampling/thread_scan.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define START_DELAY_MS 20
#define SHELL_DELAY_MS 300 /* until it has started its first child */
#define FORK_DELAY_MS  50

struct guest guest = {.wake = FDS_NONE};
static struct fds_file wake_sender = FDS_NONE; /* handler_wake_control writes to it */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of start, stop and suspension */
static pthread_t control;
static _Atomic bool running;
static bool wanted_in_child; /* the parent of this process had a control thread */

static _Atomic int control_tid; /* 0 = it has not started yet */
static long control_securebits; /* inherited from the thread that created it */

static void *control_thread(void *unused) {
    atomic_store(&control_tid, raw_gettid());
    prctl(PR_SET_NAME, "sonde");
    control_run();
    return NULL;
}

/* All signals are masked. A program with much static thread-local storage needs more stack, so
 * larger ones are tried. */
static int make_thread(void) {
    pthread_attr_t attr;
    sigset_t all, old;
    int error = EINVAL;
    const struct libc_functions *libc = libc_functions();
    if (!libc || pthread_attr_init(&attr) != 0)
        return EAGAIN;
    atomic_store(&control_tid, 0);
    control_securebits = prctl(PR_GET_SECUREBITS);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &old);
    for (size_t stack = GUEST_STACK; error == EINVAL && stack <= 64 * GUEST_STACK; stack *= 4)
        if (libc->pthread_attr_setstacksize(&attr, stack) == 0)
            error = guest_create_thread(&control, &attr, control_thread, NULL);
    sigprocmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return error ? EAGAIN : 0;
}

static void on_fork_child(void);

/* What pthread_atfork calls in glibc. */
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                             void *object) LIBC_WEAK;
extern void *__dso_handle __attribute__((visibility("hidden")));

static void watch_forks(void) {
    static bool watched;
    if (!watched)
        watched = __register_atfork(NULL, NULL, on_fork_child, __dso_handle) == 0;
}

/* The kernel puts the program's file name at the end of the main stack. */
static uint64_t main_stack_end(void) {
    const char *name = (const char *)getauxval(AT_EXECFN);
    return name ? ((uint64_t)name + strlen(name)) | 4095 : 0;
}

static void close_wake(void) {
    handler_state.wake_fd = -1;
    fds_close(&wake_sender);
    fds_close(&guest.wake);
}

bool guest_make_wake(void) {
    int ends[2];
    close_wake();
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        return false;
    guest.wake = fds_keep(ends[0]);
    wake_sender = fds_keep(ends[1]);
    handler_state.wake_fd = wake_sender.fd;
    return true;
}

int guest_start(uint32_t delay_ms) {
    handler_state.pid = (uint32_t)getpid();
    handler_state.main_stack.high = main_stack_end();
    guest.start_delay_ms = delay_ms;
    threads_note_start();
    atomic_store(&guest.stopping, false);
    if (!guest_make_wake())
        return EAGAIN;
    watch_forks();
    int error = make_thread();
    if (error)
        close_wake();
    running = error == 0;
    return error;
}

/* ---- Suspension ---- */

bool guest_capabilities_differ(void) {
    struct capabilities own, control_rights;
    int tid = atomic_load(&control_tid);
    if (!atomic_load(&running) || held_from_calls() || !handler_is_own_process())
        return false;
    if (tid == 0)
        return true; /* not known yet */
    if (!capabilities_get(0, &own) || !capabilities_get(tid, &control_rights))
        return false;
    control_rights.securebits = control_securebits;
    return !capabilities_equal(&own, &control_rights);
}

bool guest_suspend_control(void) {
    pthread_mutex_lock(&lock);
    if (!running) {
        pthread_mutex_unlock(&lock);
        return false;
    }
    atomic_store(&guest.suspending, true);
    handler_wake_control();
    libc_functions()->pthread_join(control, NULL);
    return true;
}

static void end_running(void) {
    install_restore();
    close_wake();
    running = false;
}

void guest_resume_control(void) {
    atomic_store(&guest.suspending, false);
    if (make_thread() != 0) {
        control_end();
        end_running();
    }
    pthread_mutex_unlock(&lock);
}

/* ---- Before a chroot ---- */

#define CONNECT_TRIES 50

static bool is_unconnected(void) {
    uint32_t state = atomic_load(&guest.state);
    return state == GUEST_OFF || state == GUEST_AWAY;
}

void guest_connect_now(void) {
    int saved = errno;
    struct timespec pause = {0, 1000000};
    bool socket_exists = guest.socket_path[0] == '@' || access(guest.socket_path, F_OK) == 0;
    if (atomic_load(&running) && socket_exists && handler_is_own_process() && is_unconnected()) {
        handler_wake_control();
        for (int i = 0; i < CONNECT_TRIES && is_unconnected(); i++)
            nanosleep(&pause, NULL);
    }
    errno = saved;
}

/* ---- Forks ---- */

/* The child has inherited the filter. The descriptors stay open: close may kill as well. */
static void end_without_calls(void) {
    atomic_store(&held_process, true);
    atomic_store(&handler_state.sampling, false);
    handler_state.wake_fd = -1;
    running = wanted_in_child = false;
    atomic_store(&guest.state, GUEST_OFF);
}

/* Other libraries' handlers may not have released their locks yet, so nothing here allocates or
 * creates a thread. */
static void on_fork_child(void) {
    if (held_from_calls()) {
        end_without_calls();
        return;
    }
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    wanted_in_child = running || wanted_in_child;
    running = false;
    atomic_store(&guest.suspending, false);
    handler_state.pid = (uint32_t)system_call3(SYS_getpid, 0, 0, 0);
    close_wake();
    atomic_store(&guest.state, GUEST_OFF);
    install_after_fork();
    threads_after_fork();
    chroot_after_fork();
    control_after_fork();
}

void guest_restart_after_fork(void) {
    if (!wanted_in_child)
        return;
    int saved = errno;
    wanted_in_child = false;
    guest_start(FORK_DELAY_MS);
    errno = saved;
}

/* ---- Settings ---- */

static void copy(char *to, size_t size, const char *from) {
    to[0] = 0;
    append_text(to, size, from);
}

/* The same rule as in api/os/paths.c, which is not linked into targets. */
static void default_socket(char *path, size_t size) {
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    path[0] = 0;
    if (geteuid() == 0) {
        append_text(path, size, "/run");
    } else if (runtime && runtime[0] == '/') {
        append_text(path, size, runtime);
    } else {
        append_text(path, size, "/tmp/sonde-");
        append_number(path, size, geteuid());
        append_text(path, size, "/guest.sock");
        return;
    }
    append_text(path, size, "/sonde/guest.sock");
}

#define WRAPPER_PID "SONDE_WRAPPER_PID"

/* The base of argv[0] at the start: servers overwrite argv later. */
static char first_name[GUEST_NAME_BYTES];

static bool is_pid(const char *text, long pid) {
    return text && *text && strtol(text, NULL, 10) == pid;
}

/* `sonde run` passes a name and, in SONDE_PID, the process it is for. Children of that process have
 * their own names, unless it is a wrapper. */
static bool is_for_us(const char *name) {
    const char *pid = getenv("SONDE_PID"), *wrapper = getenv(WRAPPER_PID);
    bool mine = !pid || !*pid || is_pid(pid, getpid()) || is_pid(wrapper, getppid()) ||
                is_pid(wrapper, getpid()); /* it has executed this program */
    return name && *name && mine;
}

/* The name is for what it starts. */
static void pass_on_name(void) {
    char pid[16] = "";
    append_number(pid, sizeof pid, (uint64_t)getpid());
    if (is_for_us(getenv("SONDE_NAME")) && getenv("SONDE_PID"))
        setenv(WRAPPER_PID, pid, 1);
}

static const char *name_by_default(void) {
    const char *name = getenv("SONDE_NAME");
    return is_for_us(name) ? name : first_name;
}

/* `sonde run` passes the name of a script, which is better than its interpreter's. It is for this
 * program only: one that replaces it by exec, as with env, has its own name. */
static void take_first_name(void) {
    const char *name = getenv("SONDE_FIRST_NAME");
    copy(first_name, sizeof first_name, is_for_us(name) ? name : program_invocation_short_name);
    if (name)
        unsetenv("SONDE_FIRST_NAME");
}

static void read_settings(const struct sonde_start_options *options) {
    const char *path = options ? options->socket_path : NULL;
    const char *name = options ? options->name : NULL;
    if (!path)
        path = getenv("SONDE_SOCKET");
    if (path && *path)
        copy(guest.socket_path, sizeof guest.socket_path, path);
    else
        default_socket(guest.socket_path, sizeof guest.socket_path);
    copy(guest.name, sizeof guest.name, name ? name : name_by_default());
    const char *labels = getenv("SONDE_LABELS");
    copy(guest.labels, sizeof guest.labels, labels ? labels : "");
    otel_context_find();
}

static bool is_disabled(void) {
    const char *disable = getenv("SONDE_DISABLE");
    return !libc_is_glibc() || getauxval(AT_SECURE) ||
           (disable && *disable && strcmp(disable, "0") != 0);
}

#define LIBRARY "libsonde.so"

/* Whether the list, separated by white space or colons, has a path of this library. */
static bool lists_library(const char *list) {
    for (const char *at = strstr(list, LIBRARY); at; at = strstr(at + 1, LIBRARY)) {
        char next = at[strlen(LIBRARY)];
        if ((at == list || strchr("/: \t\n", at[-1])) && (next == 0 || strchr(".: \t\n", next)))
            return true;
    }
    return false;
}

/* Looks into both of the dynamic linker's lists. */
static bool is_preloaded(void) {
    const char *list = getenv("LD_PRELOAD");
    if (list && lists_library(list))
        return true;
    char text[4096];
    int fd = open("/etc/ld.so.preload", O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        raw_close(fd);
    text[len > 0 ? len : 0] = 0;
    return lists_library(text);
}

static void start_preloaded(void) {
    enum wrapper wrapper = wrapper_of(program_invocation_short_name);
    if (wrapper != WRAPPER_NONE)
        pass_on_name();
    if (wrapper == WRAPPER_ALWAYS)
        return;
    read_settings(NULL);
    guest.is_shell = wrapper == WRAPPER_SHELL;
    guest_start(guest.is_shell ? SHELL_DELAY_MS : START_DELAY_MS);
}

__attribute__((constructor)) static void on_load(void) {
    int saved = errno;
    handler_set_clock(vdso_find_clock());
    take_first_name();
    if (!is_disabled() && is_preloaded())
        start_preloaded();
    errno = saved;
}

/* ---- sonde.h ---- */

int sonde_start(const struct sonde_start_options *options) {
    if (options && options->size < sizeof *options)
        return EINVAL;
    if (!libc_is_glibc())
        return ENOSYS;
    pthread_mutex_lock(&lock);
    int error = running ? EALREADY : held_from_calls() ? EPERM : 0;
    if (!error) {
        wanted_in_child = false;
        read_settings(options);
        error = guest_start(0);
    }
    pthread_mutex_unlock(&lock);
    return error;
}

/* Returns whether the guest was running. */
static bool stop(bool is_for_good) {
    pthread_mutex_lock(&lock);
    bool was_running = running;
    wanted_in_child = false;
    if (running) {
        atomic_store(&guest.stopping, true);
        handler_wake_control();
        libc_functions()->pthread_join(control, NULL);
        end_running();
    }
    if (is_for_good)
        atomic_store(&held_process, true);
    pthread_mutex_unlock(&lock);
    return was_running;
}

void sonde_stop(void) {
    stop(false);
}

bool guest_leave(void) {
    return stop(true);
}

void guest_come_back(bool was_running) {
    pthread_mutex_lock(&lock);
    atomic_store(&held_process, false);
    if (was_running && !running)
        guest_start(0);
    pthread_mutex_unlock(&lock);
}

const char *sonde_status(void) {
    static __thread char text[256];
    static const char *const sentences[] = {
        [GUEST_OFF] = "off",
        [GUEST_AWAY] = "no sonded at ",
        [GUEST_REFUSED] = "refused: ",
        [GUEST_IDLE] = "connected, idle",
        [GUEST_PREPARING] = "connected, a capture is being prepared",
        [GUEST_RUNNING] = "connected, a capture runs",
    };
    uint32_t state = atomic_load(&guest.state);
    copy(text, sizeof text,
         atomic_load(&held_process) ? "off: a seccomp filter may kill for the guest's calls"
                                    : sentences[state]);
    if (state == GUEST_AWAY)
        append_text(text, sizeof text, guest.socket_path);
    if (state == GUEST_REFUSED)
        append_text(text, sizeof text, guest.refusal);
    return text;
}
