/* SPDX-License-Identifier: Apache-2.0
 *
 * One run of the worker: its descriptors, its start, its end. The worker gets open files and no
 * names; its table counts when it is whole, however the worker ended. */
#include "service/symbol/locate.h"
#include "service/symbol/prepare.h"
#include "service/symbol/store.h"
#include "service/symbol/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIND       "full"
#define TIMEOUT_MS (15 * 60 * 1000)
#define ABOVE      64 /* where copies of descriptors go, so that none stands in another's place */

static bool fd_has_dwarf(int fd) {
    struct symbol_elf_input input;
    struct symbol_elf elf = {0};
    bool has = fd >= 0 && symbol_elf_input_of_file(fd, &input) &&
               symbol_elf_open(&input, &elf, NULL) == SONDE_OK && symbol_has_dwarf(&elf);
    symbol_elf_finish(&elf);
    return has;
}

static int dwarf_fd(struct symbol_module *module) {
    if (fd_has_dwarf(module->fd))
        return module->fd;
    return fd_has_dwarf(module->debug_fd) ? module->debug_fd : -1;
}

bool symbol_module_has_dwarf(struct symbol_module *module) {
    return dwarf_fd(module) >= 0;
}

/* The file that dwz made of what several files share; -1 = none. */
static int open_alt(struct symbol_module *module, int fd) {
    char link[64], path[PATH_MAX];
    struct symbol_elf_input input;
    struct symbol_elf elf = {0};
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    path[len > 0 ? len : 0] = 0;
    int alt = -1;
    if (symbol_elf_input_of_file(fd, &input) && symbol_elf_open(&input, &elf, NULL) == SONDE_OK)
        alt = symbol_locate_alt(&elf, 0, path, module->store->debug_roots);
    symbol_elf_finish(&elf);
    return alt;
}

static int copy_fd(int fd) {
    return fcntl(fd, F_DUPFD_CLOEXEC, ABOVE);
}

static void close_all(int *fds, int count) {
    for (int i = 0; i < count; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* Our copies of what becomes descriptors 3 and up; false when one is missing. */
static bool gather(struct symbol_module *module, int out, int fds[SYMBOL_WORKER_FD_END]) {
    int dwarf = dwarf_fd(module), alt = dwarf >= 0 ? open_alt(module, dwarf) : -1;
    int none = open("/dev/null", O_RDWR | O_CLOEXEC);
    int scratch = symbol_cache_scratch(&module->store->cache);
    int scratch_alt = symbol_cache_scratch(&module->store->cache);
    fds[0] = fds[1] = fds[2] = -1;
    fds[SYMBOL_WORKER_MAIN] = copy_fd(module->fd);
    fds[SYMBOL_WORKER_DWARF] = copy_fd(dwarf);
    fds[SYMBOL_WORKER_ALT] = copy_fd(alt >= 0 ? alt : none);
    fds[SYMBOL_WORKER_SCRATCH] = copy_fd(scratch);
    fds[SYMBOL_WORKER_SCRATCH_ALT] = copy_fd(scratch_alt);
    fds[SYMBOL_WORKER_OUT] = copy_fd(out);
    int own[] = {alt, none, scratch, scratch_alt};
    close_all(own, 4);
    for (int i = SYMBOL_WORKER_MAIN; i < SYMBOL_WORKER_FD_END; i++)
        if (fds[i] < 0)
            return false;
    return true;
}

/* The pid, or -1. Nothing of our environment goes over: no preloads, no debuginfod. */
static pid_t spawn(const char *program, const char *identity, const int *fds) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    char *arguments[] = {(char *)program, (char *)SYMBOL_WORKER_ARGUMENT, (char *)identity, NULL};
    char *environment[] = {(char *)"LC_ALL=C", NULL};
    pid_t pid = -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    for (int i = SYMBOL_WORKER_MAIN; i < SYMBOL_WORKER_FD_END; i++)
        posix_spawn_file_actions_adddup2(&actions, fds[i], i);
    posix_spawn_file_actions_addclosefrom_np(&actions, SYMBOL_WORKER_FD_END);
    posix_spawnattr_init(&attributes);
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (posix_spawn(&pid, program, &actions, &attributes, arguments, environment) != 0)
        pid = -1;
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return pid;
}

/* Waits for the worker's end, and ends it when its time is over. It is not reaped here: until then
 * its pid can be nobody else's. */
static void await(pid_t pid) {
    struct pollfd ended = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
    int ready = 0;
    if (ended.fd >= 0) {
        do
            ready = poll(&ended, 1, TIMEOUT_MS);
        while (ready < 0 && errno == EINTR);
        close(ended.fd);
        if (ready == 0)
            kill(pid, SIGKILL);
    }
    siginfo_t about;
    while (waitid(P_PID, (id_t)pid, &about, WEXITED | WNOWAIT) < 0 && errno == EINTR)
        continue;
}

/* The pid is told under the lock, so that a store that ends can end the worker too. */
static void run(struct symbol_module *module, const int *fds) {
    struct symbol_store *store = module->store;
    lock_take(&store->lock);
    pid_t pid = store->stopping ? -1 : spawn(store->worker, module->identity, fds);
    store->worker_pid = pid > 0 ? pid : 0;
    lock_drop(&store->lock);
    if (pid <= 0)
        return;
    await(pid);
    lock_take(&store->lock);
    store->worker_pid = 0;
    lock_drop(&store->lock);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}

int symbol_convert(struct symbol_module *module) {
    struct symbol_cache *cache = &module->store->cache;
    char name[SYMBOL_CACHE_NAME];
    int fds[SYMBOL_WORKER_FD_END];
    int out = symbol_cache_begin(cache, name);
    if (out < 0)
        return -1;
    if (gather(module, out, fds))
        run(module, fds);
    close_all(fds, SYMBOL_WORKER_FD_END);
    if (symbol_table_is_whole(out) && symbol_cache_commit(cache, out, name, module->identity, KIND))
        return out;
    symbol_cache_abandon(cache, name);
    close(out);
    return -1;
}
