/* SPDX-License-Identifier: Apache-2.0
 *
 * `sonde live`: shows where CPU time goes. On a terminal it draws a screen that reacts to keys;
 * otherwise it prints a table, or a line of JSON, per window.
 *
 *     client's thread   adds windows to the view, draws
 *     keys thread       reads keys, changes the options, draws     (one lock for both)
 *     main thread       waits for the end; q sends SIGINT to this process, as Ctrl-C would */
#include "api/profile/event.h"
#include "clients/cli/capture.h"
#include "clients/cli/json.h"
#include "clients/cli/verbs/live/live_view.h"
#include "clients/cli/verbs/verbs.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#define KEYS "q quit  j/k select  Enter callers  / filter  t threads  i sort  space pause"
#define PROCESS_KEYS \
    "q quit  j/k Enter callers  / filter  t threads  p process  i sort  space pause"
#define THREADS_KEYS   "q quit  t back to functions  j/k select  / filter  i sort  space pause"
#define PROCESSES_KEYS "q quit  p back to functions  j/k Enter callers  / filter  t threads  i sort"
#define WAIT_KEYS      "h hide idle  "
#define CALL_KEYS      "q quit  j/k select  Enter callers of it  Esc back  space pause"
#define ESCAPE         27
#define PAGE           10
#define SEQUENCE_MS    25 /* within which the rest of a key's escape sequence arrives */

struct settings {
    struct service_settings service;
    uint64_t frequency, window_ms, windows, span;
    const char *mode, *source;
    bool all, json, hide_idle, ignored;
};

struct live {
    pthread_mutex_t lock;
    struct live_view *view;
    struct live_options options;
    char filter[64];
    bool is_screen, json, is_typing; /* of the filter */
    bool has_processes;              /* the outermost frames are processes */
    char title[120];
    int ended;   /* eventfd that ends the keys thread */
    int resized; /* signalfd of SIGWINCH */
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

static const char *keys_of(const struct live *live) {
    static const char *const keys[] = {
        [LIVE_FUNCTIONS] = KEYS, [LIVE_THREADS] = THREADS_KEYS, [LIVE_PROCESSES] = PROCESSES_KEYS};
    if (live->options.focus)
        return CALL_KEYS;
    bool is_first = live->options.by == LIVE_FUNCTIONS;
    return is_first && live->has_processes ? PROCESS_KEYS : keys[live->options.by];
}

static void put_keys(const struct live *live, struct sonde_buf *out) {
    char text[200];
    if (live->is_typing)
        snprintf(text, sizeof text, "/%s_  Enter keep  Esc all rows", live->filter);
    else if (live->filter[0] && !live->options.focus)
        snprintf(text, sizeof text, "/%s  Esc all rows  / change  %s", live->filter, keys_of(live));
    else
        snprintf(text, sizeof text, "%s%s", live->options.is_cpu_time ? "" : WAIT_KEYS,
                 keys_of(live));
    sonde_buf_printf(out, "%.*s\033[J", (int)live->options.columns - 1, text);
}

/* Overwrites the previous screen line by line, so that it does not flicker. */
static void show(struct live *live) {
    struct sonde_buf table = {0}, screen = {0};
    measure(&live->options);
    live->options.filter = live->filter;
    unsigned marked = live_view_draw(live->view, &live->options, &table);
    sonde_buf_puts(&screen, "\033[H");
    unsigned line = 1;
    for (const char *at = table.data; at && *at; line++) {
        size_t len = strcspn(at, "\n");
        sonde_buf_puts(&screen, line == marked ? "\033[7m" : "");
        sonde_buf_append(&screen, at, len);
        sonde_buf_puts(&screen, line == marked ? "\033[K\033[m\r\n" : "\033[K\r\n");
        at += len + (at[len] == '\n');
    }
    put_keys(live, &screen);
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

/* The rows of another kind have other numbers. */
static void show_rows(struct live *live, enum live_rows by) {
    live->options.by = live->options.by == by ? LIVE_FUNCTIONS : by;
    live->options.focus = live->options.selected = 0;
}

static void go_back(struct live *live) {
    if (live->options.focus)
        live->options.selected = live->options.focus;
    else if (live->filter[0])
        live->filter[0] = 0;
    else
        live->options.selected = 0;
    live->options.focus = 0;
}

static void press(struct live *live, char key) {
    switch (key) {
    case 'j':
    case 'k':
        live_view_move(live->view, &live->options, key == 'j' ? 1 : -1);
        break;
    case 'J':
    case 'K':
        live_view_move(live->view, &live->options, key == 'J' ? PAGE : -PAGE);
        break;
    case '\n':
    case '\r':
        live_view_enter(live->view, &live->options);
        break;
    case 'q':
        kill(getpid(), SIGINT);
        break;
    case '/':
        live->is_typing = true;
        live->filter[0] = 0;
        break;
    case ESCAPE:
        go_back(live);
        break;
    case 't':
        show_rows(live, LIVE_THREADS);
        break;
    case 'p':
        if (live->has_processes)
            show_rows(live, LIVE_PROCESSES);
        break;
    case 'i':
        live->options.by_total = !live->options.by_total;
        break;
    case 'h':
        live->options.hides_idle ^= !live->options.is_cpu_time;
        break;
    case ' ':
        live->options.is_paused = !live->options.is_paused;
        live_view_freeze(live->view, live->options.is_paused);
        break;
    default:
        break;
    }
}

/* The letter for an escape sequence that begins at keys; 0 if it has none, ESCAPE if it is the key
 * Escape. *used is its length. */
static char read_sequence(const char *keys, size_t len, size_t *used) {
    static const struct {
        const char *sequence;
        char letter;
    } known[] = {{"\033[A", 'k'}, {"\033[B", 'j'},  {"\033OA", 'k'},
                 {"\033OB", 'j'}, {"\033[5~", 'K'}, {"\033[6~", 'J'}};
    *used = 1;
    if (len < 2 || (keys[1] != '[' && keys[1] != 'O'))
        return ESCAPE;
    for (*used = 2; *used < len && (keys[*used] < '@' || keys[*used] > '~');)
        ++*used;
    *used += *used < len;
    for (size_t i = 0; i < COUNT_OF(known); i++)
        if (strlen(known[i].sequence) == *used && memcmp(keys, known[i].sequence, *used) == 0)
            return known[i].letter;
    return 0;
}

static void press_all(struct live *live, const char *keys, size_t len) {
    for (size_t i = 0, used; i < len; i += used) {
        used = 1;
        bool is_sequence = keys[i] == ESCAPE;
        char key = is_sequence ? read_sequence(keys + i, len - i, &used) : keys[i];
        if (live->is_typing && (!is_sequence || key == ESCAPE))
            type(live, key);
        else if (!live->is_typing && key)
            press(live, key);
    }
}

/* Reads keys. An Escape at the end may begin a sequence, whose rest is waited for. */
static ssize_t read_input(char *keys, size_t size) {
    struct pollfd rest = {STDIN_FILENO, POLLIN, 0};
    ssize_t got = read(STDIN_FILENO, keys, size), more = 0;
    if (got > 0 && (size_t)got < size && keys[got - 1] == ESCAPE && poll(&rest, 1, SEQUENCE_MS) > 0)
        more = read(STDIN_FILENO, keys + got, size - (size_t)got);
    return more > 0 ? got + more : got;
}

static void *read_keys(void *context) {
    struct live *live = context;
    for (;;) {
        struct pollfd fds[] = {
            {STDIN_FILENO, POLLIN, 0}, {live->ended, POLLIN, 0}, {live->resized, POLLIN, 0}};
        struct signalfd_siginfo signal;
        char keys[64];
        if (poll(fds, 3, -1) < 0)
            continue;
        if (fds[2].revents)
            (void)!read(live->resized, &signal, sizeof signal);
        ssize_t got = fds[0].revents ? read_input(keys, sizeof keys) : 0;
        if (fds[1].revents || got < 0 || (got == 0 && fds[0].revents))
            return NULL;
        pthread_mutex_lock(&live->lock);
        press_all(live, keys, (size_t)got);
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
    sigset_t ending, resizing;
    sigemptyset(&resizing);
    sigaddset(&resizing, SIGWINCH);
    pthread_sigmask(SIG_BLOCK, &resizing, NULL);
    sigemptyset(&ending);
    sigaddset(&ending, SIGINT);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &ending, NULL); /* service_open reads them from a signalfd */
    live->ended = eventfd(0, EFD_CLOEXEC);
    live->resized = signalfd(-1, &resizing, SFD_CLOEXEC | SFD_NONBLOCK);
    open_screen(live);
    show(live);
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
    close(live->resized);
    return err;
}

/* "redis-server", "all processes of redis-server, off-CPU" */
static void set_title(struct live *live, const struct settings *settings, const char *target) {
    bool is_pid = target && target[strspn(target, "0123456789")] == 0;
    snprintf(live->title, sizeof live->title, "%s%s%.60s%s%.20s",
             !settings->all ? ""
             : is_pid       ? "with all that it starts: "
             : target       ? "all processes of "
                            : "all processes",
             is_pid ? "process " : "",
             target          ? target
             : settings->all ? ""
                             : "the attached process",
             live->options.is_cpu_time ? "" : ", ",
             live->options.is_cpu_time ? "" : settings->mode);
    live->options.title = live->title;
}

/* Colours can be switched off as for other programs: no-color.org. */
static bool has_colour(void) {
    const char *terminal = getenv("TERM"), *none = getenv("NO_COLOR");
    return terminal && *terminal && strcmp(terminal, "dumb") != 0 && !(none && *none);
}

static int on_live(int argc, char **argv) {
    struct settings settings = {.frequency = 99, .window_ms = 1000, .span = 10};
    struct sonde_diag diag = {0};
    int status;
    if (!cli_options(&verb_live, &settings, false, &argc, argv, &status))
        return status;
    if (argc > 2)
        return cli_usage(&verb_live, "unexpected argument \"%s\"", argv[2]);
    bool is_cpu_time =
        !settings.mode || strcmp(settings.mode, sonde_events[SONDE_ON_CPU].mode) == 0;
    if (settings.hide_idle && (is_cpu_time || settings.json))
        return cli_usage(&verb_live, settings.json
                                         ? "--hide-idle: not with --json"
                                         : "--hide-idle: only with --mode wall or off-cpu");
    struct live live = {.lock = PTHREAD_MUTEX_INITIALIZER,
                        .view = live_view_create((uint32_t)settings.span),
                        .json = settings.json,
                        .has_processes = settings.all,
                        .options.is_cpu_time = is_cpu_time,
                        .options.hides_idle = settings.hide_idle,
                        .is_screen =
                            !settings.json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)};
    sonde_err err = SONDE_OUT_OF_MEMORY;
    set_title(&live, &settings, argv[1]);
    live.options.has_colour = live.is_screen && has_colour();
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
    {"window", 0, "MS", NULL, SONDE_OPTION_MILLISECONDS, offsetof(struct settings, window_ms), 50,
     60000, "refresh interval: 1000 (default), 500ms, 5s"},
    {"span", 0, "N", NULL, SONDE_OPTION_NUMBER, offsetof(struct settings, span), 1, LIVE_MAX_SPAN,
     "number of windows that the table covers (default 10)"},
    {"windows", 'n', "N", NULL, SONDE_OPTION_NUMBER, offsetof(struct settings, windows), 0, 1e9,
     "exit after N windows (default 0: never)"},
    {"mode", 0, "MODE", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, mode), 0, 0,
     "cpu, wall (all threads, running or not) or off-cpu (only waiting)"},
    {"hide-idle", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, hide_idle), 0, 0,
     "with wall and off-cpu: leave out threads that only wait"},
    {"json", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, json), 0, 0,
     "print each window as a line of JSON"},
    PERF_OPTIONS(struct settings, ignored),
    SERVICE_OPTIONS(struct settings, service),
};

static const struct sonde_options options = {
    .usage = "sonde live PID | NAME | --all [PID | NAME] [-F HZ] [--window MS]",
    .about =
        "Shows the hottest functions as they change, and the callers and callees of one.\n" KEYS,
    .examples = "  sonde live --all\n"
                "  sonde live redis-server -F 999 --window 250\n"
                "  sonde live -n 5 | cat                     print five tables and exit\n"
                "  sonde live --json | jq -r .sequence\n",
    .table = table,
    .count = COUNT_OF(table),
};

const struct verb verb_live = {"live", "watch the hottest functions as they change", on_live,
                               &options};
