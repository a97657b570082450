/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/heap/heap_commands.h"

#include "service/guest/heap/alloc_backtrace.h"
#include "service/guest/heap/gdump.h"
#include "service/guest/heap/jemalloc_hooks.h"
#include "service/guest/heap/mallctl.h"
#include "service/guest/heap/sampler.h"
#include "service/guest/heap/sampler_control.h"
#include "service/guest/link.h"
#include "service/guest/process/address_space.h"
#include "service/guest/process/append.h"
#include "service/guest/raw.h"
#include "service/guest/signal/handler_state.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SEALS      (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)
#define MAX_LG     40u /* 1 TiB */
#define DEFAULT_LG 19u
#define PATH_BYTES 32u
#define SAMPLER    "Sonde's sampler" /* in HeapAnswer.failed */
#define MAX_MEAN   (1ull << MAX_LG)
#define BACKTRACE  "experimental.hooks.prof_backtrace" /* since jemalloc 5.3 */

#define GDUMP_MAX  (1ll << 30)  /* bytes; sonded reads no more */
#define COPY_BYTES 8192u        /* of the control thread's stack */
#define TABLES_NS  3000000000ll /* how long an answer waits for unwind tables */

static bool is_active_by_us;     /* prof.active was switched on by us */
static void *replaced_backtrace; /* jemalloc's, while ours is installed; else NULL */

/* Notes the first failure in the answer, and returns the error. */
static int note_failure(sonde_guest_v1_HeapAnswer *answer, const char *name, int error) {
    if (error && !answer->os_error) {
        answer->os_error = error;
        append_text(answer->failed, sizeof answer->failed, name);
        if (error == ENOMEM)
            (void)address_space_reason(answer->reason, sizeof answer->reason);
    }
    return error;
}

/* ---- The dump ---- */

/* jemalloc opens the memfd through /proc and writes it like any file. */
static int write_dump(int fd) {
    char path[PATH_BYTES] = "/proc/thread-self/fd/";
    append_number(path, sizeof path, (uint64_t)fd);
    return mallctl_set_text("prof.dump", path);
}

/* jemalloc takes no descriptor: without /proc, as in most chroots, it cannot write. */
static bool can_dump(void) {
    long fd = system_call(SYS_openat, AT_FDCWD, (long)"/proc/thread-self/fd",
                          O_PATH | O_DIRECTORY | O_CLOEXEC, 0, 0);
    if (fd >= 0)
        raw_close((int)fd);
    return fd >= 0;
}

static int refuse_dump(sonde_guest_v1_HeapAnswer *answer) {
    append_text(answer->reason, sizeof answer->reason,
                "it has no /proc (a chroot?), through which jemalloc writes; switch heap profiling "
                "off, and on with the backend interposed");
    return note_failure(answer, "prof.dump", ENOENT);
}

/* Returns a sealed memfd with the dump, or -1. */
static int make_dump(sonde_guest_v1_HeapAnswer *answer) {
    struct stat file;
    int fd = raw_memfd("sonde-heap");
    if (note_failure(answer, "memfd_create", fd < 0 ? -fd : 0))
        return -1;
    int error =
        can_dump() ? note_failure(answer, "prof.dump", write_dump(fd)) : refuse_dump(answer);
    if (!error && fcntl(fd, F_ADD_SEALS, SEALS) != 0)
        error = note_failure(answer, "memfd", errno);
    if (!error)
        error = note_failure(answer, "memfd", (int)-raw_fstat(fd, &file));
    if (error) {
        raw_close(fd);
        return -1;
    }
    answer->dump_bytes = (uint64_t)file.st_size;
    answer->has_dump = true;
    return fd;
}

/* ---- Our backtrace ---- */

static void install_backtrace(void) {
    void *before = NULL;
    if (replaced_backtrace || mallctl_get_pointer(BACKTRACE, &before) != 0 || !before ||
        before == (void *)alloc_backtrace_hook)
        return;
    alloc_backtrace_set_original((alloc_backtrace_function *)before);
    replaced_backtrace =
        mallctl_swap(BACKTRACE, (void *)alloc_backtrace_hook, &before) == 0 ? before : NULL;
}

/* If the program has installed a hook of its own since, that one stays. */
static void restore_backtrace(void) {
    void *now = NULL;
    if (replaced_backtrace && mallctl_get_pointer(BACKTRACE, &now) == 0 &&
        now == (void *)alloc_backtrace_hook)
        (void)mallctl_swap(BACKTRACE, replaced_backtrace, &now);
    replaced_backtrace = NULL;
}

/* ---- The switches ---- */

static int reset(sonde_guest_v1_HeapAnswer *answer, uint32_t lg_sample) {
    size_t lg = lg_sample;
    if (lg == 0 && note_failure(answer, "prof.lg_sample", mallctl_get_size("prof.lg_sample", &lg)))
        return answer->os_error;
    return note_failure(answer, "prof.reset", mallctl_set_size("prof.reset", lg));
}

static void activate_jemalloc(sonde_guest_v1_HeapAnswer *answer,
                              const sonde_guest_v1_HeapCommand *command) {
    size_t lg = 0;
    (void)mallctl_get_size("prof.lg_sample", &lg);
    if (command->lg_sample && command->lg_sample != lg && reset(answer, command->lg_sample))
        return;
    if (!command->default_backtrace)
        install_backtrace();
    is_active_by_us = !note_failure(answer, "prof.active", mallctl_set_bool("prof.active", true));
    if (!is_active_by_us)
        restore_backtrace();
}

static void deactivate_jemalloc(sonde_guest_v1_HeapAnswer *answer) {
    note_failure(answer, "prof.active", mallctl_set_bool("prof.active", false));
    restore_backtrace();
    is_active_by_us = false;
}

/* ---- Sonde's sampler ---- */

static bool is_sampler_on(void) {
    return sampler_control_is_wanted(SAMPLER_USE_HEAP);
}

static void activate_sampler(sonde_guest_v1_HeapAnswer *answer,
                             const sonde_guest_v1_HeapCommand *command) {
    uint32_t lg = command->lg_sample ? command->lg_sample : DEFAULT_LG;
    struct sampler_rate rate = {.mean = 1ull << lg};
    note_failure(answer, SAMPLER, sampler_control_set_rate(SAMPLER_USE_HEAP, &rate));
}

static void reset_sampler(sonde_guest_v1_HeapAnswer *answer,
                          const sonde_guest_v1_HeapCommand *command) {
    struct sampler_rate rate = {.mean = sampler_control_heap_mean()};
    if (command->lg_sample)
        rate.mean = 1ull << command->lg_sample;
    if (!note_failure(answer, SAMPLER, sampler_control_set_rate(SAMPLER_USE_HEAP, &rate)))
        sampler_control_forget_live();
}

static void set_allocs_rate(sonde_guest_v1_HeapAnswer *answer,
                            const sonde_guest_v1_HeapCommand *command) {
    struct sampler_rate rate = {command->sample_bytes, command->probability};
    bool is_invalid = !(rate.probability >= 0 && rate.probability <= 1) || rate.mean > MAX_MEAN;
    int error = is_invalid ? EINVAL : sampler_control_set_rate(SAMPLER_USE_ALLOCS, &rate);
    note_failure(answer, SAMPLER, error);
}

/* ---- Commands ---- */

static void activate(sonde_guest_v1_HeapAnswer *answer, const sonde_guest_v1_HeapCommand *command) {
    bool may_use_jemalloc = command->backend != sonde_guest_v1_HeapBackend_HEAP_INTERPOSED;
    bool may_use_sampler = command->backend != sonde_guest_v1_HeapBackend_HEAP_JEMALLOC;
    if (answer->was_active)
        note_failure(answer, "activation", EALREADY);
    else if (may_use_jemalloc && answer->profiling && can_dump())
        activate_jemalloc(answer, command);
    else if (may_use_sampler && answer->interposable)
        activate_sampler(answer, command);
    else if (may_use_jemalloc && answer->profiling)
        refuse_dump(answer);
    else
        note_failure(answer, "activation", ENOTSUP);
}

static void deactivate(sonde_guest_v1_HeapAnswer *answer) {
    bool is_active = false;
    if (is_sampler_on())
        (void)sampler_control_set_rate(SAMPLER_USE_HEAP, &(struct sampler_rate){0});
    if (answer->profiling)
        (void)mallctl_get_bool("prof.active", &is_active);
    if (is_active || is_active_by_us)
        deactivate_jemalloc(answer);
}

static void describe_jemalloc(sonde_guest_v1_HeapAnswer *answer) {
    size_t lg = 0;
    (void)mallctl_get_bool("prof.active", &answer->active);
    (void)mallctl_get_bool("prof.gdump", &answer->gdump);
    answer->gdump |= gdump_is_on(); /* prof.gdump is off during a pause */
    (void)mallctl_get_bool("opt.prof_accum", &answer->accumulates);
    (void)mallctl_get_size("prof.lg_sample", &lg);
    answer->lg_sample = (uint32_t)lg;
    answer->hooked = replaced_backtrace != NULL;
}

static void describe(sonde_guest_v1_HeapAnswer *answer) {
    const struct got_patch_info *patch = got_patch_find();
    append_text(answer->symbol, sizeof answer->symbol, mallctl_symbol());
    append_text(answer->allocator, sizeof answer->allocator, patch->allocator);
    describe_jemalloc(answer);
    answer->in_program = patch->refusal == GOT_PATCH_IN_PROGRAM;
    answer->program_imports = patch->program_imports;
    answer->interposed = is_sampler_on();
    answer->table = sampler_control_table();
    answer->alloc_hooks = jemalloc_hooks_are_on();
    answer->start_ns = (uint64_t)handler_clock_ns(CLOCK_MONOTONIC);
    if (!answer->interposed)
        return;
    answer->active = answer->accumulates = true;
    answer->sample_bytes = sampler_control_heap_mean();
}

/* Commands that need jemalloc's profiling. Returns the descriptor of a dump, or -1. */
static int execute_in_jemalloc(const sonde_guest_v1_HeapCommand *command,
                               sonde_guest_v1_HeapAnswer *answer) {
    if (command->verb == sonde_guest_v1_HeapVerb_HEAP_RESET)
        reset(answer, command->lg_sample);
    else if (command->verb == sonde_guest_v1_HeapVerb_HEAP_DUMP)
        return make_dump(answer);
    else if (command->verb == sonde_guest_v1_HeapVerb_HEAP_GDUMP_ON)
        note_failure(answer, "prof.gdump", gdump_switch(true));
    else if (command->verb == sonde_guest_v1_HeapVerb_HEAP_GDUMP_OFF)
        note_failure(answer, "prof.gdump", gdump_switch(false));
    else
        note_failure(answer, "verb", ENOSYS);
    return -1;
}

/* Returns the descriptor of a dump, or -1. */
static int execute(const sonde_guest_v1_HeapCommand *command, sonde_guest_v1_HeapAnswer *answer) {
    sonde_guest_v1_HeapVerb verb = command->verb;
    if (command->lg_sample > MAX_LG)
        note_failure(answer, "lg_sample", EINVAL);
    else if (verb == sonde_guest_v1_HeapVerb_HEAP_ACTIVATE)
        activate(answer, command);
    else if (verb == sonde_guest_v1_HeapVerb_HEAP_DEACTIVATE)
        deactivate(answer);
    else if (verb == sonde_guest_v1_HeapVerb_HEAP_ALLOCS)
        set_allocs_rate(answer, command);
    else if (verb == sonde_guest_v1_HeapVerb_HEAP_RESET && is_sampler_on())
        reset_sampler(answer, command);
    else if (verb == sonde_guest_v1_HeapVerb_HEAP_STATUS ||
             (verb == sonde_guest_v1_HeapVerb_HEAP_DUMP && is_sampler_on()))
        return -1;
    else if (answer->profiling)
        return execute_in_jemalloc(command, answer);
    return -1;
}

/* ---- Answers ---- */

/* The answer that is sent when the unwind tables have arrived. */
static struct {
    bool is_waiting;
    uint32_t known_table; /* number of the table that sonded has mapped */
    int64_t until_ns;
    sonde_guest_v1_HeapAnswer answer;
} deferred;

/* fd: the dump, which is closed, or -1. */
static void send_answer(const sonde_guest_v1_HeapAnswer *made, uint32_t known_table, int fd) {
    link_out *out = link_message();
    sonde_guest_v1_HeapAnswer *answer = &out->message.heap_answer;
    out->which_message = sonde_guest_v1_FromGuest_heap_answer_tag;
    *answer = *made;
    describe(answer);
    int table_fd = answer->table && answer->table != known_table ? sampler_control_table_fd() : -1;
    answer->has_table = !answer->has_dump && table_fd >= 0;
    link_send(answer->has_table ? table_fd : fd);
    if (fd >= 0)
        raw_close(fd);
}

static void send_deferred(void) {
    if (!deferred.is_waiting)
        return;
    deferred.is_waiting = false;
    note_failure(&deferred.answer, SAMPLER, sampler_control_start());
    send_answer(&deferred.answer, deferred.known_table, -1);
}

void heap_on_tables(void) {
    send_deferred();
}

void heap_exclude_self(void) {
    sampler_exclude_self();
}

void heap_on_command(const sonde_guest_v1_HeapCommand *command, bool maps_are_known) {
    sonde_guest_v1_HeapAnswer answer = {.sequence = command->sequence};
    send_deferred(); /* answers are sent in the order of the commands */
    sampler_exclude_self();
    alloc_backtrace_use_places(command->knows_places);
    bool has_jemalloc = mallctl_find(command->mallctl);
    if (has_jemalloc)
        (void)mallctl_get_bool("opt.prof", &answer.profiling);
    if (answer.profiling) {
        (void)mallctl_get_bool("prof.active", &answer.was_active);
        (void)mallctl_set_bool("thread.prof.active", false); /* never sample the control thread */
    }
    answer.was_active |= is_sampler_on();
    answer.interposable =
        (has_jemalloc || command->searched) && sampler_control_is_possible(SAMPLER_USE_HEAP);
    int fd = has_jemalloc || command->searched ? execute(command, &answer) : -1;
    bool is_waiting = sampler_control_is_pending();
    if (is_waiting && maps_are_known)
        note_failure(&answer, SAMPLER, sampler_control_start());
    else if (is_waiting) {
        deferred.is_waiting = true;
        deferred.known_table = command->table;
        deferred.until_ns = handler_clock_ns(CLOCK_MONOTONIC) + TABLES_NS;
        deferred.answer = answer;
        return;
    }
    send_answer(&answer, command->table, fd);
}

/* With read and write, which every seccomp filter allows. */
static bool copy_all(int from, int to, off_t bytes) {
    char part[COPY_BYTES];
    for (off_t at = 0; at < bytes;) {
        ssize_t got = pread(from, part, sizeof part, at);
        if (got <= 0 || pwrite(to, part, (size_t)got, at) != got)
            return false;
        at += got;
    }
    return true;
}

/* A sealed memfd with the file's bytes, or -1: sonded takes no ordinary file, since its owner could
 * cut it while sonded reads. */
static int copy_to_memory(int from, off_t *bytes) {
    struct stat file;
    if (raw_fstat(from, &file) != 0 || file.st_size == 0 || file.st_size > GDUMP_MAX)
        return -1;
    *bytes = file.st_size;
    int fd = raw_memfd("sonde-gdump");
    if (fd < 0 || (copy_all(from, fd, *bytes) && fcntl(fd, F_ADD_SEALS, SEALS) == 0))
        return fd;
    raw_close(fd);
    return -1;
}

static void send_gdump(void) {
    uint64_t skipped;
    off_t bytes;
    int file = gdump_take(&skipped);
    int fd = file >= 0 ? copy_to_memory(file, &bytes) : -1;
    if (fd >= 0) {
        link_out *out = link_message();
        out->which_message = sonde_guest_v1_FromGuest_heap_gdump_tag;
        out->message.heap_gdump.bytes = (uint64_t)bytes;
        out->message.heap_gdump.skipped = skipped;
        link_send(fd);
        raw_close(fd);
    }
    if (file >= 0)
        raw_close(file);
}

static int sooner(int a, int b) {
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

static int deferred_tick(int64_t now_ns) {
    if (deferred.is_waiting && now_ns >= deferred.until_ns)
        send_deferred();
    return deferred.is_waiting ? (int)((deferred.until_ns - now_ns) / 1000000) + 1 : -1;
}

int heap_tick(void) {
    int64_t now_ns = handler_clock_ns(CLOCK_MONOTONIC);
    send_gdump();
    return sooner(deferred_tick(now_ns), sooner(gdump_tick(now_ns), sampler_control_tick(now_ns)));
}

bool heap_wants_maps(void) {
    return replaced_backtrace != NULL || is_sampler_on() ||
           sampler_control_is_wanted(SAMPLER_USE_ALLOCS);
}

void heap_stop(void) {
    sonde_guest_v1_HeapAnswer unsent = {0};
    deferred.is_waiting = false;
    if (gdump_is_on())
        (void)gdump_switch(false);
    if (is_active_by_us)
        deactivate_jemalloc(&unsent);
    sampler_control_stop();
}

/* A window of allocations ends when sonded is gone, since nobody will ask for its result. */
static void end_windows(void) {
    deferred.is_waiting = false;
    (void)sampler_control_set_rate(SAMPLER_USE_ALLOCS, &(struct sampler_rate){0});
    if (sampler_control_is_pending())
        (void)sampler_control_start();
    (void)sampler_control_tick(handler_clock_ns(CLOCK_MONOTONIC));
}

void heap_while_away(int64_t since_s) {
    bool is_on = is_active_by_us || gdump_is_on() || is_sampler_on();
    end_windows();
    if (is_on && handler_clock_ns(CLOCK_MONOTONIC) / 1000000000 - since_s >= HEAP_AWAY_S)
        heap_stop();
}

/* The child keeps the hook, which calls jemalloc's own backtrace, because no map is published. */
void heap_after_fork(void) {
    is_active_by_us = false;
    deferred.is_waiting = false;
    alloc_backtrace_after_fork();
    gdump_after_fork();
    sampler_control_after_fork();
}
