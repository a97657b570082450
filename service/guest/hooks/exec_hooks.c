/* SPDX-License-Identifier: Apache-2.0
 *
 * An exec during a capture. The kernel removes the perf events, but not a tick that has fired and
 * is delivered when the call returns. By then SIGTRAP has its default action again, which would
 * kill the new program. So the calling thread's clock is stopped during the call; the kernel ends
 * the other threads before it resets the handlers. posix_spawn, system and popen exec in a child
 * that has no clock, and do not call these functions. */
#include "service/guest/hooks/hooks.h"
#include "service/guest/libc.h"
#include "service/guest/raw.h"
#include "service/guest/sampling/thread_scan.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

extern char **environ;

static int exec_at(int folder, const char *path, char *const argv[], char *const envp[],
                   int flags) {
    threads_hold_own_clock();
    long result = system_call(SYS_execveat, folder, (long)path, (long)argv, (long)envp, flags);
    threads_release_own_clock();
    errno = (int)-result;
    return -1;
}

HOOK int execve(const char *path, char *const argv[], char *const envp[]) {
    threads_hold_own_clock();
    long result = system_call3(SYS_execve, (long)path, (long)argv, (long)envp);
    threads_release_own_clock();
    errno = (int)-result;
    return -1;
}

HOOK int execv(const char *path, char *const argv[]) {
    return execve(path, argv, environ);
}

HOOK int execveat(int folder, const char *path, char *const argv[], char *const envp[], int flags) {
    return exec_at(folder, path, argv, envp, flags);
}

HOOK int fexecve(int fd, char *const argv[], char *const envp[]) {
    return exec_at(fd, "", argv, envp, AT_EMPTY_PATH);
}

typedef int search_function(const char *file, char *const argv[], char *const envp[]);

/* libc searches PATH. */
HOOK int execvpe(const char *file, char *const argv[], char *const envp[]) {
    search_function *search = (search_function *)libc_find_next("execvpe");
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

HOOK int execvp(const char *file, char *const argv[]) {
    return execvpe(file, argv, environ);
}

/* Number of arguments before the NULL, `first` included. */
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

/* Copies the variable arguments into an array on the stack, as libc does: malloc cannot be trusted
 * in the child of a fork. __VA_ARGS__ is evaluated with argv; `list` is positioned after the NULL
 * then. */
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

HOOK int execl(const char *path, const char *first, ...) {
    WITH_ARGUMENTS(first, execve(path, argv, environ));
}

HOOK int execlp(const char *file, const char *first, ...) {
    WITH_ARGUMENTS(first, execvpe(file, argv, environ));
}

HOOK int execle(const char *path, const char *first, ...) {
    WITH_ARGUMENTS(first, execve(path, argv, va_arg(list, char **)));
}
