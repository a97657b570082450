/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/heap/gdump.h"

#include "service/guest/heap/mallctl.h"
#include "service/guest/raw.h"
#include "service/guest/signal/handler_state.h"

#include <fcntl.h>
#include <string.h>
#include <time.h>

#define HOOK "experimental.hooks.prof_dump"

typedef void dump_function(const char *name);

static bool is_on;
static int64_t pause_until_ns; /* 0 = no pause */
static _Atomic(dump_function *) previous_hook;
static _Atomic bool is_catching;
static _Atomic int caught = -1;
static _Atomic uint64_t dropped;

bool gdump_is_name(const char *name) {
    size_t len = strlen(name);
    if (len < 5 || strcmp(name + len - 5, ".heap") != 0)
        return false;
    size_t at = len - 5;
    while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9')
        at--;
    return at < len - 5 && at >= 2 && name[at - 1] == 'u' && name[at - 2] == '.';
}

static void catch_file(const char *name) {
    int none = -1;
    int fd = (int)system_open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    system_unlink(name);
    if (fd < 0)
        return;
    if (atomic_compare_exchange_strong(&caught, &none, fd)) {
        handler_wake_control();
        return;
    }
    raw_close(fd);
    atomic_fetch_add(&dropped, 1);
}

/* jemalloc calls this inside an allocation, so nothing here may allocate. */
static void on_dump(const char *name) {
    dump_function *next = atomic_load(&previous_hook);
    if (atomic_load(&is_catching) && name && gdump_is_name(name))
        catch_file(name);
    else if (next)
        next(name);
}

static int install(void) {
    void *now = NULL;
    int error = mallctl_get_pointer(HOOK, &now);
    if (error || now == (void *)on_dump)
        return error;
    atomic_store(&previous_hook, (dump_function *)now);
    return mallctl_swap(HOOK, (void *)on_dump, &now);
}

int gdump_switch(bool on) {
    int error = on ? install() : 0;
    if (error)
        return error;
    if (on)
        atomic_store(&is_catching, true);
    error = mallctl_set_bool("prof.gdump", on);
    is_on = on && !error;
    pause_until_ns = 0;
    if (is_on)
        return 0;
    atomic_store(&is_catching, false);
    uint64_t unsent;
    int fd = gdump_take(&unsent);
    if (fd >= 0)
        raw_close(fd);
    return error;
}

bool gdump_is_on(void) {
    return is_on;
}

int gdump_take(uint64_t *skipped) {
    int fd = atomic_exchange(&caught, -1);
    if (fd < 0)
        return -1;
    *skipped = atomic_exchange(&dropped, 0);
    if (is_on && mallctl_set_bool("prof.gdump", false) == 0)
        pause_until_ns = handler_clock_ns(CLOCK_MONOTONIC) + GDUMP_PAUSE_NS;
    return fd;
}

int gdump_tick(int64_t now_ns) {
    if (!is_on || pause_until_ns == 0)
        return -1;
    if (now_ns < pause_until_ns)
        return (int)((pause_until_ns - now_ns) / 1000000) + 1;
    pause_until_ns = 0;
    (void)mallctl_set_bool("prof.gdump", true);
    return -1;
}

void gdump_after_fork(void) {
    is_on = false;
    atomic_store(&is_catching, false);
    int fd = atomic_exchange(&caught, -1);
    if (fd >= 0)
        raw_close(fd);
}
