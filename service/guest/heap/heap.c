/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/heap/heap.h"

#include "service/guest/heap/allocator.h"
#include "service/guest/heap/gdump.h"
#include "service/guest/heap/hook.h"
#include "service/guest/limits.h"
#include "service/guest/link.h"
#include "service/guest/raw.h"
#include "service/guest/signal/room.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SEALS     (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)
#define MOST_LG   40u /* 1 TiB */
#define PATH_TEXT 32u
#define BACKTRACE \
    "experimental.hooks.prof_backtrace" /* 5.3 has it; without it jemalloc's own does */

static bool switched_on; /* by us */
static void *original;   /* the backtrace before ours; NULL = ours is not in place */

/* Notes the first step that failed. */
static int failed(sonde_guest_v1_HeapAnswer *answer, const char *name, int error) {
    if (error && !answer->os_error) {
        answer->os_error = error;
        limits_append(answer->failed, sizeof answer->failed, name);
    }
    return error;
}

/* ---- The dump ---- */

/* The allocator opens the memfd by its name among our descriptors and writes it as any file. */
static int write_dump(int fd) {
    char path[PATH_TEXT] = "/proc/self/fd/";
    limits_append_number(path, sizeof path, (uint64_t)fd);
    return allocator_set_text("prof.dump", path);
}

/* A sealed memfd with the dump, or -1. */
static int make_dump(sonde_guest_v1_HeapAnswer *answer) {
    struct stat file;
    int fd = memfd_create("sonde-heap", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (failed(answer, "memfd_create", fd < 0 ? errno : 0))
        return -1;
    int error = failed(answer, "prof.dump", write_dump(fd));
    if (!error && (fcntl(fd, F_ADD_SEALS, SEALS) != 0 || fstat(fd, &file) != 0))
        error = failed(answer, "memfd", errno);
    if (error) {
        raw_close(fd);
        return -1;
    }
    answer->dump_bytes = (uint64_t)file.st_size;
    answer->has_dump = true;
    return fd;
}

/* ---- Our backtrace ---- */

static void put_hook(void) {
    void *before = NULL;
    if (original || allocator_get_pointer(BACKTRACE, &before) != 0 || !before ||
        before == (void *)hook_backtrace)
        return;
    hook_set_original((hook_function *)before);
    original = allocator_swap(BACKTRACE, (void *)hook_backtrace, &before) == 0 ? before : NULL;
}

/* Somebody else's that came after ours stays. */
static void take_hook_back(void) {
    void *now = NULL;
    if (original && allocator_get_pointer(BACKTRACE, &now) == 0 && now == (void *)hook_backtrace)
        (void)allocator_swap(BACKTRACE, original, &now);
    original = NULL;
}

/* ---- The switches ---- */

static int reset(sonde_guest_v1_HeapAnswer *answer, uint32_t lg_sample) {
    size_t lg = lg_sample;
    if (lg == 0 && failed(answer, "prof.lg_sample", allocator_get_size("prof.lg_sample", &lg)))
        return answer->os_error;
    return failed(answer, "prof.reset", allocator_set_size("prof.reset", lg));
}

static void activate(sonde_guest_v1_HeapAnswer *answer, const sonde_guest_v1_HeapCommand *command) {
    size_t lg = 0;
    if (answer->was_active) {
        failed(answer, "prof.active", EALREADY);
        return;
    }
    (void)allocator_get_size("prof.lg_sample", &lg);
    if (command->lg_sample && command->lg_sample != lg && reset(answer, command->lg_sample))
        return;
    if (!command->default_backtrace)
        put_hook();
    switched_on = !failed(answer, "prof.active", allocator_set_bool("prof.active", true));
    if (!switched_on)
        take_hook_back();
}

static void deactivate(sonde_guest_v1_HeapAnswer *answer) {
    failed(answer, "prof.active", allocator_set_bool("prof.active", false));
    take_hook_back();
    switched_on = false;
}

/* ---- Commands ---- */

static void describe(sonde_guest_v1_HeapAnswer *answer) {
    size_t lg = 0;
    limits_append(answer->symbol, sizeof answer->symbol, allocator_symbol());
    (void)allocator_get_bool("prof.active", &answer->active);
    (void)allocator_get_bool("prof.gdump", &answer->gdump);
    answer->gdump |= gdump_is_on(); /* also in a pause */
    (void)allocator_get_bool("opt.prof_accum", &answer->accumulates);
    (void)allocator_get_size("prof.lg_sample", &lg);
    answer->lg_sample = (uint32_t)lg;
    answer->hooked = original != NULL;
}

/* What is asked, with profiling possible; the descriptor that goes with the answer, or -1. */
static int obey(const sonde_guest_v1_HeapCommand *command, sonde_guest_v1_HeapAnswer *answer) {
    (void)allocator_get_bool("prof.active", &answer->was_active);
    (void)allocator_set_bool("thread.prof.active", false); /* the guest itself is never shown */
    if (command->lg_sample > MOST_LG)
        failed(answer, "lg_sample", EINVAL);
    else if (command->verb == sonde_guest_v1_HeapVerb_HEAP_ACTIVATE)
        activate(answer, command);
    else if (command->verb == sonde_guest_v1_HeapVerb_HEAP_DEACTIVATE)
        deactivate(answer);
    else if (command->verb == sonde_guest_v1_HeapVerb_HEAP_RESET)
        reset(answer, command->lg_sample);
    else if (command->verb == sonde_guest_v1_HeapVerb_HEAP_DUMP)
        return make_dump(answer);
    else if (command->verb == sonde_guest_v1_HeapVerb_HEAP_GDUMP_ON)
        failed(answer, "prof.gdump", gdump_switch(true));
    else if (command->verb == sonde_guest_v1_HeapVerb_HEAP_GDUMP_OFF)
        failed(answer, "prof.gdump", gdump_switch(false));
    else if (command->verb != sonde_guest_v1_HeapVerb_HEAP_STATUS)
        failed(answer, "verb", ENOSYS);
    return -1;
}

void heap_on_command(const sonde_guest_v1_HeapCommand *command) {
    link_out *out = link_message();
    sonde_guest_v1_HeapAnswer *answer = &out->message.heap_answer;
    out->which_message = sonde_guest_v1_FromGuest_heap_answer_tag;
    answer->sequence = command->sequence;
    int fd = -1;
    if (allocator_find(command->mallctl))
        (void)allocator_get_bool("opt.prof", &answer->profiling);
    if (answer->profiling)
        fd = obey(command, answer);
    describe(answer);
    link_send(fd);
    if (fd >= 0)
        raw_close(fd);
}

int heap_tick(void) {
    struct stat file;
    uint64_t skipped;
    int fd = gdump_take(&skipped);
    if (fd >= 0 && fstat(fd, &file) == 0) {
        link_out *out = link_message();
        out->which_message = sonde_guest_v1_FromGuest_heap_gdump_tag;
        out->message.heap_gdump.bytes = (uint64_t)file.st_size;
        out->message.heap_gdump.skipped = skipped;
        link_send(fd);
    }
    if (fd >= 0)
        raw_close(fd);
    return gdump_tick(room_clock_ns(CLOCK_MONOTONIC));
}

bool heap_wants_maps(void) {
    return original != NULL;
}

void heap_stop(void) {
    sonde_guest_v1_HeapAnswer unsent = {0};
    if (gdump_is_on())
        (void)gdump_switch(false);
    if (switched_on)
        deactivate(&unsent);
}

void heap_while_away(int64_t since_s) {
    if ((switched_on || gdump_is_on()) &&
        room_clock_ns(CLOCK_MONOTONIC) / 1000000000 - since_s >= HEAP_AWAY_S)
        heap_stop();
}

/* The hook is in place here, too, and goes on by the allocator's own means. */
void heap_after_fork(void) {
    switched_on = false;
    hook_after_fork();
    gdump_after_fork();
}
