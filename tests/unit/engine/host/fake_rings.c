/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/engine/host/fake_rings.h"

#include "service/engine/loop/loop.h"
#include "service/machine/own/here.h"
#include "service/symbol/locate/proc_maps.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct queued {
    struct queued *next;
    struct host_record record;
    char path[256];
};

struct rings {
    uint64_t records;
};

struct fake_rings fake;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* rings are opened by builders */
static struct queued *first, **last = &first;

/* Of caller_of_leaf, in a thread of its own. */
static struct unwind_registers registers;
static uint8_t stack[STACK_BYTES];
static uint32_t stack_bytes;

/* --- the rings -------------------------------------------------------------------------------- */

static sonde_err fake_open(const struct rings_options *options, struct rings **rings,
                           struct sonde_diag *diag) {
    pthread_mutex_lock(&lock);
    fake.opened++;
    fake.options = *options;
    bool is_refused = options->pid_count == 0 ? fake.refuses_all : fake.refuses_processes;
    fake.open_sets += !is_refused;
    pthread_mutex_unlock(&lock);
    if (is_refused)
        return sonde_fail(diag, SONDE_PERMISSION_DENIED, "only own processes: run sonded as root");
    *rings = calloc(1, sizeof **rings);
    return SONDE_OK;
}

static void fake_close(struct rings *rings) {
    pthread_mutex_lock(&lock);
    fake.open_sets--;
    pthread_mutex_unlock(&lock);
    free(rings);
}

static void fake_start(struct rings *rings) {
}

static void fake_set_period(struct rings *rings, uint64_t period_ns) {
    fake.period_ns = period_ns;
}

static sonde_err fake_add_process(struct rings *rings, pid_t pid, struct sonde_diag *diag) {
    if (fake.added_count < 8)
        fake.added[fake.added_count++] = pid;
    return SONDE_OK;
}

static bool fake_drain(struct rings *rings, uint64_t until_ns, host_on_record *on_record,
                       void *context, bool (*is_over)(void *context)) {
    for (uint32_t i = 0; first && (until_ns == 0 || first->record.time_ns <= until_ns); i++) {
        if (i % 16 == 15 && is_over && is_over(context))
            return true;
        struct queued *record = first;
        first = record->next;
        last = first ? last : &first;
        fake.queued--;
        fake.sampled += record->record.kind == HOST_SAMPLE ? record->record.sample.weight_ns : 0;
        on_record(context, &record->record);
        free(record);
    }
    return false;
}

static int fake_poll_fd(const struct rings *rings) {
    return -1;
}

static void fake_counts(const struct rings *rings, struct rings_counts *counts) {
    *counts = (struct rings_counts){
        .invalid = fake.invalid, .sampled = fake.sampled, .rings = 1, .ring_bytes = 1 << 20};
}

static uint64_t fake_total(const struct rings *rings) {
    return fake.total;
}

static const struct ring_ops fake_ops = {
    fake_open,        fake_close, fake_start,   fake_start,  fake_set_period,
    fake_add_process, fake_drain, fake_poll_fd, fake_counts, fake_total,
};

/* --- stacks ----------------------------------------------------------------------------------- */

/* Reads what belongs to other frames, as the kernel does. */
__attribute__((noinline, no_sanitize_address)) static void copy_stack(const uint8_t *from) {
    for (uint32_t i = 0; i < stack_bytes; i++)
        stack[i] = *(const volatile uint8_t *)&from[i];
}

__attribute__((noinline)) static void take_stack(void) {
    pthread_attr_t attributes;
    void *lowest;
    size_t size;
    unwind_registers_here(&registers);
    registers.known = UNWIND_ALL_KNOWN;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &lowest, &size);
    pthread_attr_destroy(&attributes);
    uint64_t from = registers.value[UNWIND_REG_SP], left = (uint64_t)lowest + size - from;
    stack_bytes = left < sizeof stack ? (uint32_t)left : sizeof stack;
    copy_stack((const uint8_t *)from);
}

__attribute__((noinline)) void caller_of_leaf(void) {
    take_stack();
    __asm__ volatile("");
}

void *root_of_stack(void *unused) {
    caller_of_leaf();
    return NULL;
}

static void take_stack_of_thread(void) {
    pthread_t thread;
    CHECK_INT(pthread_create(&thread, NULL, root_of_stack, NULL), ==, 0);
    pthread_join(thread, NULL);
}

/* --- records ---------------------------------------------------------------------------------- */

struct host_record *push_record(struct bench *bench, enum host_record_kind kind, pid_t pid,
                                pid_t tid) {
    struct queued *queued = calloc(1, sizeof *queued);
    queued->record =
        (struct host_record){.kind = kind, .pid = pid, .tid = tid, .time_ns = bench->time_ns};
    bench->time_ns += bench->step_ns;
    *last = queued;
    last = &queued->next;
    fake.queued++;
    return &queued->record;
}

void push_sample(struct bench *bench, pid_t pid, pid_t tid) {
    struct host_record *record = push_record(bench, HOST_SAMPLE, pid, tid);
    record->sample = (struct host_sample){.weight_ns = bench->step_ns,
                                          .abi = HOST_ABI_64,
                                          .registers = registers,
                                          .stack = stack,
                                          .stack_bytes = stack_bytes,
                                          .asked_bytes = sizeof stack};
}

void push_shorts(struct bench *bench, uint32_t count, uint32_t asked_bytes) {
    for (uint32_t i = 0; i < count; i++) {
        push_sample(bench, bench->child, bench->child);
        struct queued *queued = container_of(last, struct queued, next);
        queued->record.sample.stack_bytes = 16;
        queued->record.sample.asked_bytes = asked_bytes;
    }
}

void push_samples(struct bench *bench, pid_t pid, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        push_sample(bench, pid, pid);
}

void push_fork(struct bench *bench, pid_t parent, pid_t pid, pid_t tid) {
    struct host_record *record = push_record(bench, HOST_FORK, pid, tid);
    record->fork.parent_pid = record->fork.parent_tid = parent;
}

void push_comm(struct bench *bench, pid_t pid, const char *name, bool is_exec) {
    struct host_record *record = push_record(bench, HOST_COMM, pid, pid);
    record->comm.name = name;
    record->comm.is_exec = is_exec;
}

void push_exit(struct bench *bench, pid_t pid, pid_t tid) {
    (void)push_record(bench, HOST_EXIT, pid, tid);
}

void push_own_mappings(struct bench *bench, pid_t pid) {
    struct proc_maps_reader reader;
    struct proc_maps_line line;
    proc_maps_begin(&reader, getpid(), NULL);
    while (proc_maps_next(&reader, &line)) {
        if (!line.is_executable || line.mapping.start >> 63)
            continue;
        struct host_record *record = push_record(bench, HOST_MMAP, pid, pid);
        struct queued *queued = container_of(record, struct queued, record);
        snprintf(queued->path, sizeof queued->path, "%s", line.mapping.path);
        record->mmap = (struct host_mmap){.start = line.mapping.start,
                                          .end = line.mapping.end,
                                          .offset = line.mapping.offset,
                                          .inode = line.mapping.inode,
                                          .device_major = line.mapping.device_major,
                                          .device_minor = line.mapping.device_minor,
                                          .path = queued->path};
    }
    proc_maps_end(&reader);
}

/* --- the engine ------------------------------------------------------------------------------- */

void bench_init(struct bench *bench) {
    memset(bench, 0, sizeof *bench);
    fake = (struct fake_rings){0};
    bench->step_ns = MS;
    bench->child = fork();
    if (bench->child == 0) {
        for (;;)
            pause();
    }
    take_stack_of_thread();
    place_make(&bench->place);
    collect_init(&bench->collected);
    struct sonde_diag diag = {0};
    /* The tables of this program are built once for all tests. */
    char shared[4096];
    const char *folder = getenv("TEST_TMPDIR");
    snprintf(shared, sizeof shared, "%.4000s/tables", folder ? folder : "");
    struct engine_options options = {.socket_path = bench->place.socket,
                                     .data_dir = folder ? shared : bench->place.data};
    CHECK_INT(engine_open(&options, &bench->engine, &diag), ==, SONDE_OK);
    bench->engine->host->ops = &fake_ops;
}

void bench_finish(struct bench *bench) {
    engine_capture_release(bench->capture);
    engine_destroy(bench->engine);
    collect_finish(&bench->collected);
    place_remove(&bench->place);
    CHECK_INT(fake.open_sets, ==, 0);
    while (first) {
        struct queued *next = first->next;
        free(first);
        first = next;
    }
    last = &first;
    kill(bench->child, SIGKILL);
    waitpid(bench->child, NULL, 0);
}

void bench_wait(struct bench *bench, bool (*is_true)(struct bench *bench)) {
    uint64_t end_ns = now_monotonic_ns() + 30000 * MS;
    while (!is_true(bench)) {
        if (now_monotonic_ns() > end_ns)
            check_fail(__FILE__, __LINE__, "waited for 30 s; %s", bench->collected.diag.text);
        (void)engine_round(bench->engine, 5);
    }
}

struct target *bench_target(struct bench *bench) {
    return bench->engine->targets;
}

static bool has_begun(struct bench *bench) {
    struct target *target = bench_target(bench);
    return collect_has_ended(&bench->collected) ||
           (target && target->captures && target->captures->state == CAPTURE_RUNNING);
}

static void begin(struct bench *bench, const struct engine_cpu_spec *spec) {
    struct sonde_diag diag = {0};
    if (engine_capture_cpu(bench->engine, spec, &collect_events, &bench->collected, &bench->capture,
                           &diag))
        check_fail(__FILE__, __LINE__, "%s", diag.text);
    bench_wait(bench, has_begun);
    bench->time_ns = now_monotonic_ns() + 2 * MS; /* a whole period after the start */
}

void bench_begin(struct bench *bench, struct engine_selector selector) {
    begin(bench, &(struct engine_cpu_spec){
                     .target = selector, .frequency_hz = 1000, .source = ENGINE_HOST});
}

void bench_begin_event(struct bench *bench, enum sonde_event_id event, uint64_t every) {
    begin(bench, &(struct engine_cpu_spec){.target = {.pid = bench->child},
                                           .frequency_hz = 1000,
                                           .event = event,
                                           .every = every});
}

static bool is_settled(struct bench *bench) {
    return fake.queued == 0 && now_monotonic_ns() > bench->time_ns;
}

void bench_settle(struct bench *bench) {
    bench_wait(bench, is_settled);
}

static bool has_ended(struct bench *bench) {
    return collect_has_ended(&bench->collected) && bench->engine->captures_running == 0;
}

static bool has_loaded(struct bench *bench) {
    const struct host_stream *stream = bench_target(bench)->host->stream;
    return !stream || !stream->park.first;
}

const struct sonde_profile *bench_end(struct bench *bench) {
    bench_settle(bench);
    bench_wait(bench, has_loaded); /* an ended capture waits for tables only so long */
    engine_capture_finish(bench->capture);
    bench_wait(bench, has_ended);
    if (bench->collected.profile_count == 0)
        check_fail(__FILE__, __LINE__, "no profile: %s", bench->collected.diag.text);
    return bench->collected.profiles[0];
}
