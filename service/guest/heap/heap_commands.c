/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/heap/heap_commands.h"

#include "service/guest/heap/alloc_backtrace.h"
#include "service/guest/heap/allocator.h"
#include "service/guest/heap/gdump.h"
#include "service/guest/heap/sampler.h"
#include "service/guest/heap/sampler_control.h"
#include "service/guest/link.h"
#include "service/guest/process/append.h"
#include "service/guest/raw.h"
#include "service/guest/signal/handler_state.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SEALS      (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)
#define MOST_LG    40u /* 1 TiB */
#define PATH_TEXT  32u
#define DEFAULT_LG 19u
#define MOST_MEAN  (1ull << MOST_LG)
#define BACKTRACE \
    "experimental.hooks.prof_backtrace" /* 5.3 has it; without it jemalloc's own does */

#define TABLES_NS 3000000000ll

static bool switched_on; /* by us */
static void *original;   /* the backtrace before ours; NULL = ours is not in place */

/* Notes the first step that failed. */
static int failed(sonde_guest_v1_HeapAnswer *answer, const char *name, int error) {
    if (error && !answer->os_error) {
        answer->os_error = error;
        append_text(answer->failed, sizeof answer->failed, name);
    }
    return error;
}

/* ---- The dump ---- */

/* The allocator opens the memfd by its name among our descriptors and writes it as any file. */
static int write_dump(int fd) {
    char path[PATH_TEXT] = "/proc/self/fd/";
    append_number(path, sizeof path, (uint64_t)fd);
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
        before == (void *)alloc_backtrace_hook)
        return;
    alloc_backtrace_set_original((alloc_backtrace_function *)before);
    original =
        allocator_swap(BACKTRACE, (void *)alloc_backtrace_hook, &before) == 0 ? before : NULL;
}

/* Somebody else's that came after ours stays. */
static void take_hook_back(void) {
    void *now = NULL;
    if (original && allocator_get_pointer(BACKTRACE, &now) == 0 &&
        now == (void *)alloc_backtrace_hook)
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

static void activate_jemalloc(sonde_guest_v1_HeapAnswer *answer,
                              const sonde_guest_v1_HeapCommand *command) {
    size_t lg = 0;
    (void)allocator_get_size("prof.lg_sample", &lg);
    if (command->lg_sample && command->lg_sample != lg && reset(answer, command->lg_sample))
        return;
    if (!command->default_backtrace)
        put_hook();
    switched_on = !failed(answer, "prof.active", allocator_set_bool("prof.active", true));
    if (!switched_on)
        take_hook_back();
}

static void deactivate_jemalloc(sonde_guest_v1_HeapAnswer *answer) {
    failed(answer, "prof.active", allocator_set_bool("prof.active", false));
    take_hook_back();
    switched_on = false;
}

/* ---- Our own sampler ---- */

static bool is_interposed(void) {
    return interposer_is_wanted(INTERPOSER_HEAP);
}

static void activate_ours(sonde_guest_v1_HeapAnswer *answer,
                          const sonde_guest_v1_HeapCommand *command) {
    uint32_t lg = command->lg_sample ? command->lg_sample : DEFAULT_LG;
    struct interposer_wish wish = {.mean = 1ull << lg};
    failed(answer, "our own sampler", interposer_want(INTERPOSER_HEAP, &wish));
}

static void reset_ours(sonde_guest_v1_HeapAnswer *answer,
                       const sonde_guest_v1_HeapCommand *command) {
    struct interposer_wish wish = {.mean = interposer_mean()};
    if (command->lg_sample)
        wish.mean = 1ull << command->lg_sample;
    if (!failed(answer, "our own sampler", interposer_want(INTERPOSER_HEAP, &wish)))
        interposer_forget();
}

static void want_allocs(sonde_guest_v1_HeapAnswer *answer,
                        const sonde_guest_v1_HeapCommand *command) {
    struct interposer_wish wish = {command->sample_bytes, command->probability};
    bool is_wrong = !(wish.probability >= 0 && wish.probability <= 1) || wish.mean > MOST_MEAN;
    int error = is_wrong ? EINVAL : interposer_want(INTERPOSER_ALLOCS, &wish);
    failed(answer, "our own sampler", error);
}

/* ---- Commands ---- */

static void activate(sonde_guest_v1_HeapAnswer *answer, const sonde_guest_v1_HeapCommand *command) {
    sonde_guest_v1_HeapBackend backend = command->backend;
    if (answer->was_active)
        failed(answer, "activation", EALREADY);
    else if (backend != sonde_guest_v1_HeapBackend_HEAP_INTERPOSED && answer->profiling)
        activate_jemalloc(answer, command);
    else if (backend != sonde_guest_v1_HeapBackend_HEAP_JEMALLOC && answer->interposable)
        activate_ours(answer, command);
    else
        failed(answer, "activation", ENOTSUP);
}

static void deactivate(sonde_guest_v1_HeapAnswer *answer) {
    bool is_jemallocs = false;
    if (is_interposed())
        (void)interposer_want(INTERPOSER_HEAP, &(struct interposer_wish){0});
    if (answer->profiling)
        (void)allocator_get_bool("prof.active", &is_jemallocs);
    if (is_jemallocs || switched_on)
        deactivate_jemalloc(answer);
}

static void describe_jemalloc(sonde_guest_v1_HeapAnswer *answer) {
    size_t lg = 0;
    (void)allocator_get_bool("prof.active", &answer->active);
    (void)allocator_get_bool("prof.gdump", &answer->gdump);
    answer->gdump |= gdump_is_on(); /* also in a pause */
    (void)allocator_get_bool("opt.prof_accum", &answer->accumulates);
    (void)allocator_get_size("prof.lg_sample", &lg);
    answer->lg_sample = (uint32_t)lg;
    answer->hooked = original != NULL;
}

static void describe(sonde_guest_v1_HeapAnswer *answer) {
    const struct patch_facts *facts = patch_find();
    append_text(answer->symbol, sizeof answer->symbol, allocator_symbol());
    append_text(answer->allocator, sizeof answer->allocator, facts->allocator);
    describe_jemalloc(answer);
    answer->in_program = facts->refusal == PATCH_IN_PROGRAM;
    answer->program_imports = facts->program_words;
    answer->interposed = is_interposed();
    answer->table = interposer_table();
    answer->start_ns = (uint64_t)handler_clock_ns(CLOCK_MONOTONIC);
    if (!answer->interposed)
        return;
    answer->active = answer->accumulates = true;
    answer->sample_bytes = interposer_mean();
}

/* What jemalloc alone can do. */
static int obey_with_jemalloc(const sonde_guest_v1_HeapCommand *command,
                              sonde_guest_v1_HeapAnswer *answer) {
    if (command->verb == sonde_guest_v1_HeapVerb_HEAP_RESET)
        reset(answer, command->lg_sample);
    else if (command->verb == sonde_guest_v1_HeapVerb_HEAP_DUMP)
        return make_dump(answer);
    else if (command->verb == sonde_guest_v1_HeapVerb_HEAP_GDUMP_ON)
        failed(answer, "prof.gdump", gdump_switch(true));
    else if (command->verb == sonde_guest_v1_HeapVerb_HEAP_GDUMP_OFF)
        failed(answer, "prof.gdump", gdump_switch(false));
    else
        failed(answer, "verb", ENOSYS);
    return -1;
}

/* The descriptor of a dump, or -1. */
static int obey(const sonde_guest_v1_HeapCommand *command, sonde_guest_v1_HeapAnswer *answer) {
    sonde_guest_v1_HeapVerb verb = command->verb;
    if (command->lg_sample > MOST_LG)
        failed(answer, "lg_sample", EINVAL);
    else if (verb == sonde_guest_v1_HeapVerb_HEAP_ACTIVATE)
        activate(answer, command);
    else if (verb == sonde_guest_v1_HeapVerb_HEAP_DEACTIVATE)
        deactivate(answer);
    else if (verb == sonde_guest_v1_HeapVerb_HEAP_ALLOCS)
        want_allocs(answer, command);
    else if (verb == sonde_guest_v1_HeapVerb_HEAP_RESET && is_interposed())
        reset_ours(answer, command);
    else if (verb == sonde_guest_v1_HeapVerb_HEAP_STATUS ||
             (verb == sonde_guest_v1_HeapVerb_HEAP_DUMP && is_interposed()))
        return -1;
    else if (answer->profiling)
        return obey_with_jemalloc(command, answer);
    return -1;
}

/* ---- Answers ---- */

/* The answer that waits for tables. */
static struct {
    bool is_waiting;
    uint32_t table; /* that sonded has */
    int64_t until_ns;
    sonde_guest_v1_HeapAnswer answer;
} late;

/* fd: of a dump, or -1. */
static void tell(const sonde_guest_v1_HeapAnswer *made, uint32_t known_table, int fd) {
    link_out *out = link_message();
    sonde_guest_v1_HeapAnswer *answer = &out->message.heap_answer;
    out->which_message = sonde_guest_v1_FromGuest_heap_answer_tag;
    *answer = *made;
    describe(answer);
    int table_fd = answer->table && answer->table != known_table ? interposer_table_fd() : -1;
    answer->has_table = !answer->has_dump && table_fd >= 0;
    link_send(answer->has_table ? table_fd : fd);
    if (fd >= 0)
        raw_close(fd);
}

static void send_late(void) {
    if (!late.is_waiting)
        return;
    late.is_waiting = false;
    failed(&late.answer, "our own sampler", interposer_begin());
    tell(&late.answer, late.table, -1);
}

void heap_on_tables(void) {
    send_late();
}

void heap_exclude_self(void) {
    sampler_mute();
}

void heap_on_command(const sonde_guest_v1_HeapCommand *command, bool maps_are_known) {
    sonde_guest_v1_HeapAnswer answer = {.sequence = command->sequence};
    send_late(); /* answers keep their order */
    sampler_mute();
    bool has_jemalloc = allocator_find(command->mallctl);
    if (has_jemalloc)
        (void)allocator_get_bool("opt.prof", &answer.profiling);
    if (answer.profiling) {
        (void)allocator_get_bool("prof.active", &answer.was_active);
        (void)allocator_set_bool("thread.prof.active", false); /* the guest is never shown */
    }
    answer.was_active |= is_interposed();
    answer.interposable = (has_jemalloc || command->searched) && interposer_is_possible();
    int fd = has_jemalloc || command->searched ? obey(command, &answer) : -1;
    bool is_waiting = interposer_is_waiting();
    if (is_waiting && maps_are_known)
        failed(&answer, "our own sampler", interposer_begin());
    else if (is_waiting) {
        late.is_waiting = true;
        late.table = command->table;
        late.until_ns = handler_clock_ns(CLOCK_MONOTONIC) + TABLES_NS;
        late.answer = answer;
        return;
    }
    tell(&answer, command->table, fd);
}

static void send_gdump(void) {
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
}

static int sooner(int a, int b) {
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

static int late_tick(int64_t now_ns) {
    if (late.is_waiting && now_ns >= late.until_ns)
        send_late();
    return late.is_waiting ? (int)((late.until_ns - now_ns) / 1000000) + 1 : -1;
}

int heap_tick(void) {
    int64_t now_ns = handler_clock_ns(CLOCK_MONOTONIC);
    send_gdump();
    return sooner(late_tick(now_ns), sooner(gdump_tick(now_ns), interposer_tick(now_ns)));
}

bool heap_wants_maps(void) {
    return original != NULL || is_interposed() || interposer_is_wanted(INTERPOSER_ALLOCS);
}

void heap_stop(void) {
    sonde_guest_v1_HeapAnswer unsent = {0};
    late.is_waiting = false;
    if (gdump_is_on())
        (void)gdump_switch(false);
    if (switched_on)
        deactivate_jemalloc(&unsent);
    interposer_stop();
}

/* Nobody will ask for the window's end: it ended with sonded. */
static void end_windows(void) {
    late.is_waiting = false;
    (void)interposer_want(INTERPOSER_ALLOCS, &(struct interposer_wish){0});
    if (interposer_is_waiting())
        (void)interposer_begin();
    (void)interposer_tick(handler_clock_ns(CLOCK_MONOTONIC));
}

void heap_while_away(int64_t since_s) {
    bool is_on = switched_on || gdump_is_on() || is_interposed();
    end_windows();
    if (is_on && handler_clock_ns(CLOCK_MONOTONIC) / 1000000000 - since_s >= HEAP_AWAY_S)
        heap_stop();
}

/* The hook is in place here, too, and goes on by the allocator's own means. */
void heap_after_fork(void) {
    switched_on = false;
    late.is_waiting = false;
    alloc_backtrace_after_fork();
    gdump_after_fork();
    interposer_after_fork();
}
