/* SPDX-License-Identifier: Apache-2.0
 *
 * The checks that need no service: the installed files, the clocks that the kernel permits, limits,
 * and the data directory. The clocks are tried, because a container's seccomp filter refuses
 * perf_event_open whatever perf_event_paranoid says. */
#include "clients/cli/verbs/doctor/doctor.h"

#include "api/os/paths.h"
#include "api/settings/install.h"
#include "clients/cli/verbs/doctor/run_program.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPACE_GIB     2.0
#define SPACE_PERCENT 10.0

/* A part of another build may not understand this one. A library has no --version. */
static void check_program(struct doctor *doctor, const char *name, const char *path) {
    char version[64];
    const char *const argv[] = {path, "--version", NULL};
    bool is_known = access(path, X_OK) == 0 && !strstr(name, ".so") &&
                    run_program(argv, version, sizeof version);
    version[is_known ? strcspn(version, "\n") : 0] = 0;
    if (is_known && strcmp(version, SONDE_VERSION) != 0)
        doctor_report(doctor, FINDING_FIX, "programs",
                      "install all parts from the same release: apt-get install sonde sonded "
                      "sonde-gateway libsonde0",
                      "%s at %.200s is version %.40s, this is %s", name, path, version,
                      SONDE_VERSION);
    else
        doctor_report(doctor, FINDING_OK, "programs", NULL, "%s found at %.300s", name, path);
}

void doctor_check_programs(struct doctor *doctor) {
    for (enum installed file = 0; file < INSTALLED_COUNT; file++) {
        char path[PATH_MAX];
        struct sonde_diag diag = {0};
        if (install_find(file, path, &diag) == SONDE_OK)
            check_program(doctor, install_name(file), path);
        else
            doctor_report(doctor, FINDING_FIX, "programs",
                          "apt-get install sonded sonde-gateway libsonde0, or bazel run //:install "
                          "-- --prefix DIR",
                          "%.380s", diag.text);
    }
}

static int read_number(const char *path, int otherwise) {
    FILE *file = fopen(path, "re");
    int number = otherwise;
    if (file && fscanf(file, "%d", &number) != 1)
        number = otherwise;
    if (file)
        fclose(file);
    return number;
}

/* Opens the clock that the guest would use. Returns 0 or an errno. */
static int try_perf(bool with_kernel) {
    struct perf_event_attr clock = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof clock,
        .config = PERF_COUNT_SW_CPU_CLOCK,
        .sample_period = 10000000,
        .disabled = 1,
        .exclude_kernel = !with_kernel,
        .exclude_hv = 1,
        .sigtrap = 1,
        .remove_on_exec = 1,
    };
    long fd = syscall(SYS_perf_event_open, &clock, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0)
        return errno;
    close((int)fd);
    return 0;
}

static bool try_timer(void) {
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_NONE};
    if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) != 0)
        return false;
    timer_delete(timer);
    return true;
}

/* Reports why perf events are refused and what would permit them. */
static void explain_refusal(struct doctor *doctor, int os_error) {
    int paranoid = read_number("/proc/sys/kernel/perf_event_paranoid", -1);
    const char *but =
        try_timer() ? "; sampling falls back to timer_create, which is limited to the kernel's tick"
                    : "";
    if (os_error == EINVAL)
        doctor_report(doctor, FINDING_NOTE, "clock", "apt-get install linux-image-amd64; reboot",
                      "this kernel lacks perf events with sigtrap (Linux 5.13 or later has them)%s",
                      but);
    else if (paranoid > 2)
        doctor_report(doctor, FINDING_FIX, "clock", "sudo sysctl kernel.perf_event_paranoid=2",
                      "kernel.perf_event_paranoid is %d, so the kernel refuses perf events to "
                      "users%s",
                      paranoid, but);
    else
        doctor_report(doctor, FINDING_FIX, "clock",
                      "docker run --cap-add PERFMON ... (or use a seccomp profile that allows "
                      "perf_event_open)",
                      "perf_event_open is refused (%s), probably by a container's seccomp filter%s",
                      strerror(os_error), but);
}

void doctor_check_clock(struct doctor *doctor) {
    int os_error = try_perf(true);
    if (os_error == 0) {
        doctor_report(doctor, FINDING_OK, "clock", NULL,
                      "perf events work, including time in the kernel");
        return;
    }
    int user_error = try_perf(false);
    if (user_error == 0)
        doctor_report(
            doctor, FINDING_NOTE, "clock", "sysctl -w kernel.perf_event_paranoid=1",
            "perf events work for user code only; time in the kernel is counted but has no "
            "kernel stacks");
    else
        explain_refusal(doctor, user_error);
}

void doctor_check_limits(struct doctor *doctor) {
    struct rlimit files, signals;
    getrlimit(RLIMIT_NOFILE, &files);
    getrlimit(RLIMIT_SIGPENDING, &signals);
    if (files.rlim_cur < 256)
        doctor_report(
            doctor, FINDING_NOTE, "limits", "ulimit -n 4096",
            "the limit of %llu open files is low; if a process has many threads, some will "
            "share a clock",
            (unsigned long long)files.rlim_cur);
    else
        doctor_report(doctor, FINDING_OK, "limits", NULL,
                      "%llu open files and %llu pending signals per process",
                      (unsigned long long)files.rlim_cur, (unsigned long long)signals.rlim_cur);
}

/* True if the directory is writable, or can be created. */
static bool can_write(const char *folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s", folder);
    while (access(path, F_OK) != 0) {
        char *slash = strrchr(path, '/');
        if (!slash || slash == path)
            return access("/", W_OK) == 0;
        *slash = 0;
    }
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode) && access(path, W_OK | X_OK) == 0;
}

/* A full disk costs what is recorded, so it is reported before that. */
static void check_space(struct doctor *doctor, const char *folder) {
    struct statvfs disk;
    char fix[300];
    double free_gib = 0, percent = 100;
    if (statvfs(folder, &disk) == 0 && disk.f_blocks > 0) {
        free_gib = (double)disk.f_bavail * (double)disk.f_frsize / 0x1p30;
        percent = 100.0 * (double)disk.f_bavail / (double)disk.f_blocks;
    }
    snprintf(fix, sizeof fix, "du -sh %.200s/*, or a smaller sonded --history-mib", folder);
    if (percent < 100 && free_gib < SPACE_GIB && percent < SPACE_PERCENT)
        doctor_report(doctor, free_gib < SPACE_GIB / 10 ? FINDING_FIX : FINDING_NOTE, "data", fix,
                      "%.250s has %.2f GiB (%.1f %%) left", folder, free_gib, percent);
    else
        doctor_report(doctor, FINDING_OK, "data", NULL, "%.300s is writable", folder);
}

void doctor_check_data(struct doctor *doctor) {
    const char *named = getenv("SONDE_DATA_DIR");
    const char *folder = named && *named ? named : sonde_default_data_dir();
    char fix[300];
    snprintf(fix, sizeof fix, "mkdir -p %.100s && chown $(id -u) %.100s", folder, folder);
    if (can_write(folder))
        check_space(doctor, folder);
    else
        doctor_report(doctor, FINDING_FIX, "data", fix,
                      "%.250s is not writable, so sonded rebuilds its tables at every start",
                      folder);
}
