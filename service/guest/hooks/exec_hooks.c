/* SPDX-License-Identifier: Apache-2.0
 *
 * exec under a running capture. The kernel removes our events at an exec, but not a tick that has
 * fired already and waits to be signalled when the call returns: by then SIGTRAP has its default
 * action again, and the new program would die of it. So the calling thread's clock stands still
 * during the call (the other threads are gone before the handlers are). posix_spawn, system and
 * popen exec in a child that has no clock, and do not come here. */
#include "service/guest/raw.h"
#include "service/guest/sampling/thread_scan.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

extern char **environ;

static int exec_at(int folder, const char *path, char *const argv[], char *const envp[],
                   int flags) {
    threads_hold_own_clock();
    long result = raw_call(SYS_execveat, folder, (long)path, (long)argv, (long)envp, flags);
    threads_release_own_clock();
    errno = (int)-result;
    return -1;
}

EXPORT int execve(const char *path, char *const argv[], char *const envp[]) {
    threads_hold_own_clock();
    long result = raw_call3(SYS_execve, (long)path, (long)argv, (long)envp);
    threads_release_own_clock();
    errno = (int)-result;
    return -1;
}

EXPORT int execv(const char *path, char *const argv[]) {
    return execve(path, argv, environ);
}

EXPORT int execveat(int folder, const char *path, char *const argv[], char *const envp[],
                    int flags) {
    return exec_at(folder, path, argv, envp, flags);
}

EXPORT int fexecve(int fd, char *const argv[], char *const envp[]) {
    return exec_at(fd, "", argv, envp, AT_EMPTY_PATH);
}

typedef int search_function(const char *file, char *const argv[], char *const envp[]);

/* The search through PATH is libc's. */
EXPORT int execvpe(const char *file, char *const argv[], char *const envp[]) {
    search_function *search = (search_function *)dlsym(RTLD_NEXT, "execvpe");
    if (!search) {
        errno = ENOSYS;
        return -1;
    }
    threads_hold_own_clock();
    int result = search(file, argv, envp);
    int saved = errno;
    threads_release_own_clock();
    errno = saved;
    return result;
}

EXPORT int execvp(const char *file, char *const argv[]) {
    return execvpe(file, argv, environ);
}

/* How many arguments follow up to the NULL, the first included. */
static size_t count_arguments(const char *first, va_list list) {
    size_t count = first != NULL;
    while (first && va_arg(list, const char *))
        count++;
    return count;
}

static void copy_arguments(char **argv, size_t count, const char *first, va_list list) {
    argv[0] = (char *)first;
    for (size_t i = 1; i <= count; i++)
        argv[i] = va_arg(list, char *);
}

/* The arguments stand in the caller's registers and on its stack; the list is made on ours, as libc
 * does: no allocator can be trusted in the child of a fork. __VA_ARGS__: what is done with argv;
 * `list` stands behind the NULL then. */
#define WITH_ARGUMENTS(first, ...)                              \
    va_list list;                                               \
    va_start(list, first);                                      \
    size_t count = count_arguments(first, list);                \
    va_end(list);                                               \
    char **argv = __builtin_alloca((count + 2) * sizeof *argv); \
    va_start(list, first);                                      \
    copy_arguments(argv, count, first, list);                   \
    int result = __VA_ARGS__;                                   \
    va_end(list);                                               \
    return result

EXPORT int execl(const char *path, const char *first, ...) {
    WITH_ARGUMENTS(first, execve(path, argv, environ));
}

EXPORT int execlp(const char *file, const char *first, ...) {
    WITH_ARGUMENTS(first, execvpe(file, argv, environ));
}

EXPORT int execle(const char *path, const char *first, ...) {
    WITH_ARGUMENTS(first, execve(path, argv, va_arg(list, char **)));
}
