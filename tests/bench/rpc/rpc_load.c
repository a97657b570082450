/* SPDX-License-Identifier: Apache-2.0
 *
 * A load generator for the service, with the C client:
 *
 *     rpc_load ADDR METHOD CONCURRENCY SECONDS
 *
 * Each call that ends starts the next one on the client's thread, so that the figures contain no
 * wake-up of another thread. METHOD is GetInfo, ListTargets or HeapStatus (it counts calls), or
 * CaptureCpu or StreamCpu (it counts messages and bytes). Prints one line of JSON. */
#include "clients/c/client.h"
#include "proto/sonde/v1/profiler.pb-c.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_SAMPLES (4u << 20)

struct load {
    struct client *client;
    const struct client_method *method;
    const ProtobufCMessage *request;
    int64_t end_ns, start_ns, last_ns,
        chunks_ns;         /* from the first to the last chunk, sum over all calls */
    uint32_t *nanoseconds; /* of each call */
    size_t calls, messages, bytes, failures;
    atomic_int running;
    pthread_mutex_t lock;
    pthread_cond_t done;
};

struct slot {
    struct load *load;
    int64_t began_ns, first_chunk_ns;
};

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static bool on_message(void *context, struct client_call *call, const ProtobufCMessage *message) {
    struct slot *slot = context;
    slot->load->messages++;
    if (slot->load->method == &client_capture_cpu) {
        const Sonde__V1__CaptureEvent *event = (const void *)message;
        if (event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_CHUNK && !slot->first_chunk_ns)
            slot->first_chunk_ns = now_ns();
        else if (event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_CHUNK)
            slot->load->bytes += event->chunk.len;
    }
    return true;
}

static void start_one(struct slot *slot);

static void leave(struct load *load) {
    pthread_mutex_lock(&load->lock);
    if (atomic_fetch_sub(&load->running, 1) == 1)
        pthread_cond_signal(&load->done);
    pthread_mutex_unlock(&load->lock);
}

static void on_end(void *context, sonde_err err, const struct sonde_diag *diag) {
    struct slot *slot = context;
    struct load *load = slot->load;
    load->last_ns = now_ns();
    load->failures += err != SONDE_OK;
    if (slot->first_chunk_ns)
        load->chunks_ns += load->last_ns - slot->first_chunk_ns;
    if (load->calls < MAX_SAMPLES)
        load->nanoseconds[load->calls++] = (uint32_t)(load->last_ns - slot->began_ns);
    if (load->last_ns < load->end_ns && !err)
        start_one(slot);
    else
        leave(load);
}

static void start_one(struct slot *slot) {
    static const struct client_callbacks callbacks = {.on_message = on_message, .on_end = on_end};
    struct load *load = slot->load;
    slot->began_ns = now_ns();
    slot->first_chunk_ns = 0;
    if (!client_call_start(load->client, load->method, load->request, 0, NULL, &callbacks, slot))
        abort();
}

static int by_size(const void *a, const void *b) {
    uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
    return (one > other) - (one < other);
}

static double percentile_us(const struct load *load, double share) {
    return load->calls ? load->nanoseconds[(size_t)((double)(load->calls - 1) * share)] / 1e3 : 0;
}

static void report(struct load *load, const char *method, int concurrency) {
    double seconds = (double)(load->last_ns - load->start_ns) / 1e9;
    qsort(load->nanoseconds, load->calls, sizeof *load->nanoseconds, by_size);
    printf("{\"method\":\"%s\",\"concurrency\":%d,\"calls\":%zu,\"failures\":%zu,"
           "\"calls_per_s\":%.0f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"messages_per_s\":%.0f,"
           "\"chunk_bytes_per_s\":%.0f}\n",
           method, concurrency, load->calls, load->failures, (double)load->calls / seconds,
           percentile_us(load, 0.5), percentile_us(load, 0.99), (double)load->messages / seconds,
           load->chunks_ns ? (double)load->bytes * 1e9 / (double)load->chunks_ns : 0);
}

/* Selects the method and its request by name. */
static bool choose(struct load *load, const char *name, double seconds) {
    static Sonde__V1__GetInfoRequest info = SONDE__V1__GET_INFO_REQUEST__INIT;
    static Sonde__V1__ListTargetsRequest targets = SONDE__V1__LIST_TARGETS_REQUEST__INIT;
    static Sonde__V1__HeapStatusRequest heap = SONDE__V1__HEAP_STATUS_REQUEST__INIT;
    static Sonde__V1__CaptureCpuRequest capture = SONDE__V1__CAPTURE_CPU_REQUEST__INIT;
    static Sonde__V1__StreamCpuRequest stream = SONDE__V1__STREAM_CPU_REQUEST__INIT;
    static Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    rendering.format = SONDE__V1__FORMAT__COLLAPSED;
    capture.duration_ms = 1;
    capture.no_progress = true;
    capture.rendering = &rendering;
    stream.window_ms = 50;
    stream.max_windows = (uint32_t)(seconds * 20) + 1;
    const struct {
        const char *name;
        const struct client_method *method;
        const ProtobufCMessage *request;
    } rows[] = {
        {"GetInfo", &client_get_info, &info.base},
        {"ListTargets", &client_list_targets, &targets.base},
        {"HeapStatus", &client_heap_status, &heap.base},
        {"CaptureCpu", &client_capture_cpu, &capture.base},
        {"StreamCpu", &client_stream_cpu, &stream.base},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].name, name) != 0)
            continue;
        load->method = rows[i].method;
        load->request = rows[i].request;
        return true;
    }
    return false;
}

static void run(struct load *load, int concurrency, double seconds) {
    struct slot *slots = calloc((size_t)concurrency, sizeof *slots);
    load->start_ns = now_ns();
    load->end_ns = load->start_ns + (int64_t)(seconds * 1e9);
    atomic_store(&load->running, concurrency);
    for (int i = 0; i < concurrency; i++) {
        slots[i].load = load;
        start_one(&slots[i]);
    }
    pthread_mutex_lock(&load->lock);
    while (atomic_load(&load->running) > 0)
        pthread_cond_wait(&load->done, &load->lock);
    pthread_mutex_unlock(&load->lock);
    client_destroy(load->client); /* joins the thread that writes the figures */
    free(slots);
}

int main(int argc, char **argv) {
    struct sonde_diag diag = {0};
    struct load load = {.lock = PTHREAD_MUTEX_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};
    int concurrency = argc >= 5 ? atoi(argv[3]) : 0;
    double seconds = argc >= 5 ? atof(argv[4]) : 0;
    if (argc != 5 || concurrency < 1 || concurrency > 4096 || !choose(&load, argv[2], seconds)) {
        fprintf(stderr, "usage: rpc_load ADDR METHOD CONCURRENCY SECONDS\n");
        return 2;
    }
    struct client_options options = {.address = argv[1]};
    load.nanoseconds = malloc(MAX_SAMPLES * sizeof *load.nanoseconds);
    if (client_create(&options, &load.client, &diag) || !client_wait_ready(load.client, 5000)) {
        fprintf(stderr, "no connection to %s %s\n", argv[1], diag.text);
        return 1;
    }
    run(&load, concurrency, seconds);
    report(&load, argv[2], concurrency);
    free(load.nanoseconds);
    return load.failures ? 1 : 0;
}
