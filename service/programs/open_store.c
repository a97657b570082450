/* SPDX-License-Identifier: Apache-2.0 */
#include "service/programs/open_store.h"

#include "api/os/exit_watchdog.h"
#include "api/os/service_manager.h"
#include "service/programs/late_store.h"
#include "service/store/open.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

struct opening {
    const char *name;
    const struct store_limits *limits;
    void (*log)(const char *line);
    struct store *store;
    struct sonde_diag *diag;
    sonde_err err;
    int done; /* an eventfd */
};

static void *run(void *context) {
    struct opening *opening = context;
    opening->err = store_open(opening->name, opening->limits, &opening->store, opening->diag);
    (void)eventfd_write(opening->done, 1);
    return NULL;
}

/* Whether a signal came first. */
static bool wait_for_either(int signals, int done) {
    bool has_terminal = service_manager_has_terminal();
    struct pollfd either[] = {{.fd = signals, .events = POLLIN}, {.fd = done, .events = POLLIN}};
    struct signalfd_siginfo taken;
    while (poll(either, 2, -1) < 0 || !either[1].revents)
        if (read(signals, &taken, sizeof taken) == sizeof taken &&
            (taken.ssi_signo != SIGHUP || has_terminal))
            return true;
    return false;
}

/* A server may start later. A file that another service has may be a mistake, so that is an
 * error. */
static sonde_err wait_longer(struct opening *opening, const struct sonde_diag *diag) {
    if (opening->err != SONDE_UNAVAILABLE || strncmp(opening->name, "sqlite:", 7) == 0)
        return opening->err;
    opening->store = late_store_create(opening->name, opening->limits,
                                       sonde_diag_text(diag, opening->err), opening->log);
    return opening->store ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

static sonde_err await(struct opening *opening, const char *program, struct store_stop *end,
                       int signals, struct sonde_diag *diag) {
    pthread_t thread;
    int os_error = pthread_create(&thread, NULL, run, opening);
    if (os_error)
        return sonde_fail_os(diag, os_error, "cannot start the thread that opens the store");
    bool is_ended = wait_for_either(signals, opening->done);
    if (is_ended) {
        service_manager_stopping();
        exit_watchdog_start(program, "the store", EXIT_WATCHDOG_S);
        atomic_store(&end->is_stopped, true);
    }
    pthread_join(thread, NULL);
    if (!is_ended)
        return opening->err ? wait_longer(opening, diag) : SONDE_OK;
    if (!opening->err)
        store_close(opening->store);
    return SONDE_CANCELLED;
}

sonde_err open_store(const char *program, const char *name, const struct store_limits *limits,
                     struct store_stop *end, const sigset_t *awaited, void (*log)(const char *line),
                     struct store **store, struct sonde_diag *diag) {
    struct opening opening = {.name = name, .limits = limits, .log = log, .diag = diag};
    opening.done = eventfd(0, EFD_CLOEXEC);
    int signals = signalfd(-1, awaited, SFD_CLOEXEC | SFD_NONBLOCK);
    sonde_err err = opening.done < 0 || signals < 0
                        ? sonde_fail_os(diag, errno, "cannot wait for signals")
                        : await(&opening, program, end, signals, diag);
    close(opening.done);
    close(signals);
    if (!err)
        *store = opening.store;
    return err;
}
