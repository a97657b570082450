/* SPDX-License-Identifier: Apache-2.0
 *
 * `sonde live`: shows where CPU time goes. On a terminal it draws a screen that reacts to keys;
 * otherwise it prints a table, or a line of JSON, per window.
 *
 *     client's thread   adds windows to the view, draws
 *     keys thread       reads keys, changes the options, draws     (one lock for both)
 *     main thread       waits for the end; q sends SIGINT to this process, as Ctrl-C would */
#include "clients/cli/capture.h"
#include "clients/cli/json.h"
#include "clients/cli/verbs/live_view.h"
#include "clients/cli/verbs/verbs.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define KEYS "q quit   / filter   t threads   p processes   i sort by self or total   space pause"

struct settings {
    struct service_settings service;
    uint64_t frequency, window_ms, windows, span;
    const char *mode, *source;
    bool all, json;
};

struct live {
    pthread_mutex_t lock;
    struct live_view *view;
    struct live_options options;
    char filter[64];
    bool is_screen, json, is_typing; /* of the filter */
    bool has_processes;              /* the outermost frames are processes */
    int ended;                       /* eventfd that ends the keys thread */
    struct termios before;
    char end_reason[64];
    sonde_err err;
};

/* ---- The screen ---- */

static void write_out(const struct sonde_buf *text) {
    fwrite(text->data, 1, text->len, stdout);
    fflush(stdout);
}

static void measure(struct live_options *options) {
    struct winsize size;
    bool is_known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 3;
    options->rows = is_known ? size.ws_row - 1u : 23;
    options->columns = is_known && size.ws_col > 20 ? size.ws_col : 80;
}

/* Overwrites the previous screen line by line, so that it does not flicker. */
static void show(struct live *live) {
    struct sonde_buf table = {0}, screen = {0};
    measure(&live->options);
    live->options.filter = live->filter;
    live_view_draw(live->view, &live->options, &table);
    sonde_buf_puts(&screen, "\033[H");
    for (const char *at = table.data; at && *at;) {
        size_t len = strcspn(at, "\n");
        sonde_buf_append(&screen, at, len);
        sonde_buf_puts(&screen, "\033[K\r\n");
        at += len + (at[len] == '\n');
    }
    if (live->is_typing || live->filter[0])
        sonde_buf_printf(&screen, "/%s%s\033[J", live->filter, live->is_typing ? "_" : "");
    else
        sonde_buf_printf(&screen, "%.*s\033[J", (int)live->options.columns - 1, KEYS);
    if (!screen.failed)
        write_out(&screen);
    sonde_buf_finish(&table);
    sonde_buf_finish(&screen);
}

static void open_screen(struct live *live) {
    struct termios raw;
    tcgetattr(STDIN_FILENO, &live->before);
    raw = live->before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    fputs("\033[?1049h\033[?25l", stdout);
    fflush(stdout);
}

static void close_screen(struct live *live) {
    fputs("\033[?25h\033[?1049l", stdout);
    fflush(stdout);
    tcsetattr(STDIN_FILENO, TCSANOW, &live->before);
}

/* ---- Keys ---- */

static void type(struct live *live, char key) {
    size_t len = strlen(live->filter);
    if (key == '\n' || key == '\r')
        live->is_typing = false;
    else if (key == 27)
        live->is_typing = false, live->filter[0] = 0;
    else if ((key == 127 || key == 8) && len > 0)
        live->filter[len - 1] = 0;
    else if (key >= ' ' && key < 127 && len + 1 < sizeof live->filter)
        live->filter[len] = key, live->filter[len + 1] = 0;
}

static void press(struct live *live, char key) {
    switch (key) {
    case 'q':
        kill(getpid(), SIGINT);
        break;
    case '/':
        live->is_typing = true;
        live->filter[0] = 0;
        break;
    case 27:
        live->filter[0] = 0;
        break;
    case 't':
        live->options.by = live->options.by == LIVE_THREADS ? LIVE_FUNCTIONS : LIVE_THREADS;
        break;
    case 'p':
        if (live->has_processes)
            live->options.by = live->options.by == LIVE_PROCESSES ? LIVE_FUNCTIONS : LIVE_PROCESSES;
        break;
    case 'i':
        live->options.by_total = !live->options.by_total;
        break;
    case ' ':
        live->options.is_paused = !live->options.is_paused;
        break;
    default:
        break;
    }
}

static void *read_keys(void *context) {
    struct live *live = context;
    for (;;) {
        struct pollfd fds[] = {{STDIN_FILENO, POLLIN, 0}, {live->ended, POLLIN, 0}};
        char keys[64];
        if (poll(fds, 2, -1) < 0)
            continue;
        ssize_t got = fds[1].revents ? 0 : read(STDIN_FILENO, keys, sizeof keys);
        if (got <= 0)
            return NULL;
        pthread_mutex_lock(&live->lock);
        for (ssize_t i = 0; i < got; i++)
            live->is_typing ? type(live, keys[i]) : press(live, keys[i]);
        show(live);
        pthread_mutex_unlock(&live->lock);
    }
}

/* ---- Windows ---- */

static void print_table(struct live *live) {
    struct sonde_buf table = {0};
    live->options.filter = "";
    live->options.rows = 22;
    live->options.columns = 200;
    live_view_draw(live->view, &live->options, &table);
    sonde_buf_putc(&table, '\n');
    if (!table.failed)
        write_out(&table);
    sonde_buf_finish(&table);
}

static bool on_window(void *context, const ProtobufCMessage *message) {
    const Sonde__V1__CpuWindow *window = (const void *)message;
    struct live *live = context;
    pthread_mutex_lock(&live->lock);
    if (window->last)
        snprintf(live->end_reason, sizeof live->end_reason, "%s", window->end_reason);
    if (live->json)
        json_print(message);
    else if (!live_view_add(live->view, window))
        live->err = SONDE_PROTOCOL;
    else if (!window->more && live->is_screen && !live->options.is_paused)
        show(live);
    else if (!window->more && !live->is_screen)
        print_table(live);
    bool goes_on = !live->err && !ferror(stdout);
    pthread_mutex_unlock(&live->lock);
    return goes_on;
}

static sonde_err follow(struct live *live, const struct settings *settings, const char *target,
                        struct sonde_diag *diag) {
    Sonde__V1__StreamCpuRequest request = SONDE__V1__STREAM_CPU_REQUEST__INIT;
    Sonde__V1__TargetSelector selector;
    struct service service;
    service_select(target, &selector);
    selector.all = settings->all;
    request.target = &selector;
    request.window_ms = (uint32_t)settings->window_ms;
    request.frequency_hz = (uint32_t)settings->frequency;
    request.max_windows = (uint32_t)settings->windows;
    sonde_err err = capture_read_mode(settings->mode, &request.mode, diag);
    if (!err)
        err = capture_read_source(settings->source, &request.source, diag);
    if (err)
        return err;
    err = service_open_or_start(&service, &settings->service, target || settings->all, diag);
    if (!err)
        err = service_stream(&service, &client_stream_cpu, &request.base, 0, on_window, live, diag);
    service_close(&service);
    if (err == SONDE_CANCELLED)
        return SONDE_OK; /* q or Ctrl-C */
    return err ? err : live->err;
}

static sonde_err follow_on_screen(struct live *live, const struct settings *settings,
                                  const char *target, struct sonde_diag *diag) {
    pthread_t keys;
    sigset_t ending;
    sigemptyset(&ending);
    sigaddset(&ending, SIGINT);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &ending, NULL); /* service_open reads them from a signalfd */
    live->ended = eventfd(0, EFD_CLOEXEC);
    open_screen(live);
    sonde_err err = pthread_create(&keys, NULL, read_keys, live) == 0
                        ? SONDE_OK
                        : sonde_fail(diag, SONDE_OUT_OF_MEMORY, "cannot start a thread");
    if (!err) {
        err = follow(live, settings, target, diag);
        eventfd_write(live->ended, 1);
        pthread_join(keys, NULL);
    }
    close_screen(live);
    close(live->ended);
    return err;
}

static int on_live(int argc, char **argv) {
    struct settings settings = {.frequency = 99, .window_ms = 1000, .span = 10};
    struct sonde_diag diag = {0};
    int status;
    if (!cli_options(&verb_live, &settings, false, &argc, argv, &status))
        return status;
    if (argc > 2)
        return cli_usage(&verb_live, "unexpected argument \"%s\"", argv[2]);
    struct live live = {.lock = PTHREAD_MUTEX_INITIALIZER,
                        .view = live_view_create((uint32_t)settings.span),
                        .json = settings.json,
                        .has_processes = settings.all,
                        .options.is_cpu_time = !settings.mode || strcmp(settings.mode, "cpu") == 0,
                        .is_screen =
                            !settings.json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)};
    sonde_err err = SONDE_OUT_OF_MEMORY;
    if (live.view)
        err = live.is_screen ? follow_on_screen(&live, &settings, argv[1], &diag)
                             : follow(&live, &settings, argv[1], &diag);
    live_view_destroy(live.view);
    if (err)
        return cli_fail(&verb_live, err, &diag);
    if (live.end_reason[0] && strcmp(live.end_reason, "max_windows") != 0)
        fprintf(stderr, "sonde live: %s\n", live.end_reason);
    return 0;
}

static const struct sonde_option table[] = {
    {"frequency", 'F', "HZ", NULL, SONDE_OPTION_NUMBER, offsetof(struct settings, frequency), 1,
     10000, "samples per second of CPU time (default 99)"},
    {"all", 'a', NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, all), 0, 0,
     "the whole machine, all processes of a name, or a process tree"},
    {"source", 0, "SOURCE", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, source), 0, 0,
     "auto, host (sample from outside) or guest (libsonde.so)"},
    {"window", 0, "MS", NULL, SONDE_OPTION_NUMBER, offsetof(struct settings, window_ms), 50, 60000,
     "refresh interval in milliseconds (default 1000)"},
    {"span", 0, "N", NULL, SONDE_OPTION_NUMBER, offsetof(struct settings, span), 1, LIVE_MAX_SPAN,
     "number of windows that the table covers (default 10)"},
    {"windows", 'n', "N", NULL, SONDE_OPTION_NUMBER, offsetof(struct settings, windows), 0, 1e9,
     "exit after N windows (default 0: never)"},
    {"mode", 0, "MODE", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, mode), 0, 0,
     "cpu, wall (all threads, running or not) or off-cpu (only waiting)"},
    {"json", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, json), 0, 0,
     "print each window as a line of JSON"},
    SERVICE_OPTIONS(struct settings, service),
};

static const struct sonde_options options = {
    .usage = "sonde live PID | NAME | --all [PID | NAME] [-F HZ] [--window MS]",
    .about = "Shows the hottest functions as they change.\n" KEYS,
    .examples = "  sonde live --all\n"
                "  sonde live redis-server -F 999 --window 250\n"
                "  sonde live -n 5 | cat                     print five tables and exit\n"
                "  sonde live --json | jq -r .sequence\n",
    .table = table,
    .count = COUNT_OF(table),
};

const struct verb verb_live = {"live", "watch the hottest functions as they change", on_live,
                               &options};
