/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/store/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 64

struct row {
    uint32_t process, stack;
    uint8_t thread;
};

struct model {
    uint64_t random, seq;
    uint32_t samples_per_s;
    double service_sums[MODEL_SERVICES], stack_sums[MODEL_STACKS];
    char services[MODEL_SERVICES][24];
    char instances[MODEL_PROCESSES][40];
    struct store_stack *stacks[MODEL_SERVICES];
    struct store_frame *frames[MODEL_SERVICES];
    struct store_line *lines[MODEL_SERVICES];
    char (*names)[96];
    struct row *rows;
    uint64_t *stack;
    uint8_t *thread;
    int64_t *value;
    struct store_window windows[MODEL_PROCESSES];
    struct store_total totals[MODEL_TASKS];
    char tasks[MODEL_TASKS][16];
};

static const char *const threads[MODEL_THREADS] = {"main",   "io-1",  "io-2",    "worker-1",
                                                   "worker", "flush", "compact", "rpc"};

static uint64_t draw(struct model *model) {
    model->random ^= model->random << 13;
    model->random ^= model->random >> 7;
    model->random ^= model->random << 17;
    return model->random * 0x2545f4914f6cdd1du;
}

static void zipf(double *sums, int count) {
    double sum = 0;
    for (int i = 0; i < count; i++)
        sums[i] = sum += pow(i + 1, -1.05);
}

static uint32_t draw_zipf(struct model *model, const double *sums, uint32_t count) {
    double at = (double)(draw(model) >> 11) * 0x1p-53 * sums[count - 1];
    uint32_t low = 0, high = count - 1;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (sums[middle] > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static uint64_t id_of(uint64_t kind, uint64_t a, uint64_t b) {
    uint64_t id = (kind << 56 ^ a << 32 ^ b) * 0x9e3779b97f4a7c15u;
    id = (id ^ id >> 29) * 0xbf58476d1ce4e5b9u;
    return id ^ id >> 32;
}

/* Each stack shares its first frames with an earlier one. */
static void make_stacks(struct model *model, int service) {
    static uint16_t paths[MODEL_STACKS][MAX_DEPTH];
    static uint8_t depths[MODEL_STACKS];
    struct store_stack *stacks = calloc(MODEL_STACKS, sizeof *stacks);
    for (int i = 0; i < MODEL_STACKS; i++) {
        int depth = 20 + (int)(draw(model) % 21), shared = 0;
        int from = i ? (int)(draw(model) % (uint64_t)i) : 0;
        if (i)
            shared = depths[from] * (40 + (int)(draw(model) % 50)) / 100;
        memcpy(paths[i], paths[from], (size_t)shared * sizeof paths[0][0]);
        depth = depth > shared ? depth : shared + 1;
        for (int at = shared; at < depth; at++)
            paths[i][at] = (uint16_t)(draw(model) % MODEL_FUNCTIONS);
        depths[i] = (uint8_t)depth;
        uint64_t *frames = calloc((size_t)depth, sizeof *frames);
        for (int at = 0; at < depth; at++)
            frames[depth - 1 - at] = id_of(1, (uint64_t)service, paths[i][at]);
        stacks[i] =
            (struct store_stack){model->services[service], id_of(2, (uint64_t)service, (uint64_t)i),
                                 frames, (uint32_t)depth};
    }
    model->stacks[service] = stacks;
}

static void make_frames(struct model *model, int service) {
    struct store_frame *frames = calloc(MODEL_FUNCTIONS, sizeof *frames);
    struct store_line *lines = calloc(MODEL_FUNCTIONS, sizeof *lines);
    for (int i = 0; i < MODEL_FUNCTIONS; i++) {
        char *name = model->names[service * MODEL_FUNCTIONS + i];
        snprintf(name, sizeof model->names[0],
                 "service_%d::component_%d<std::string, %d>::handle_request_%d(Context const&)",
                 service, i / 64, i % 7, i);
        lines[i] = (struct store_line){name, "/src/component/handler.cc", (uint32_t)i};
        frames[i] = (struct store_frame){.id = id_of(1, (uint64_t)service, (uint64_t)i),
                                         .build_id = model->services[service],
                                         .module = "/usr/bin/service",
                                         .address = (uint64_t)i * 64,
                                         .version = 1,
                                         .lines = &lines[i],
                                         .line_count = 1};
    }
    model->frames[service] = frames;
    model->lines[service] = lines;
}

struct model *model_create(uint32_t samples_per_s) {
    struct model *model = calloc(1, sizeof *model);
    size_t most = (size_t)samples_per_s * 3600;
    model->random = 88172645463325252u;
    model->samples_per_s = samples_per_s;
    model->names = calloc(MODEL_SERVICES * MODEL_FUNCTIONS, sizeof *model->names);
    model->rows = calloc(most, sizeof *model->rows);
    model->stack = calloc(most, sizeof *model->stack);
    model->thread = calloc(most, 1);
    model->value = calloc(most, sizeof *model->value);
    zipf(model->service_sums, MODEL_SERVICES);
    zipf(model->stack_sums, MODEL_STACKS);
    for (int i = 0; i < MODEL_SERVICES; i++) {
        snprintf(model->services[i], sizeof model->services[i], "service-%d", i);
        make_stacks(model, i);
        make_frames(model, i);
    }
    for (int i = 0; i < MODEL_PROCESSES; i++)
        snprintf(model->instances[i], sizeof model->instances[i], "%032x", i * 7919 + 1);
    for (int i = 0; i < MODEL_TASKS; i++)
        snprintf(model->tasks[i], sizeof model->tasks[i], "task-%d", i);
    return model;
}

void model_destroy(struct model *model) {
    for (int i = 0; i < MODEL_SERVICES; i++) {
        for (int stack = 0; stack < MODEL_STACKS; stack++)
            free((void *)(uintptr_t)model->stacks[i][stack].frames);
        free(model->stacks[i]);
        free(model->frames[i]);
        free(model->lines[i]);
    }
    free(model->names);
    free(model->rows);
    free(model->stack);
    free(model->thread);
    free(model->value);
    free(model);
}

struct store_batch model_names(struct model *model, int service) {
    return (struct store_batch){.stacks = model->stacks[service],
                                .stack_count = MODEL_STACKS,
                                .frames = model->frames[service],
                                .frame_count = MODEL_FUNCTIONS};
}

static int compare_rows(const void *left, const void *right) {
    const struct row *a = left, *b = right;
    if (a->process != b->process)
        return a->process < b->process ? -1 : 1;
    if (a->stack != b->stack)
        return a->stack < b->stack ? -1 : 1;
    return (int)a->thread - (int)b->thread;
}

/* Draws samples and sums them by process, stack and thread; returns the number of rows. */
static uint32_t make_rows(struct model *model, uint32_t samples) {
    for (uint32_t i = 0; i < samples; i++) {
        uint32_t service = draw_zipf(model, model->service_sums, MODEL_SERVICES);
        model->rows[i].process = service * 2 + (uint32_t)(draw(model) & 1);
        model->rows[i].stack = draw_zipf(model, model->stack_sums, MODEL_STACKS);
        /* A stack runs on few pools. */
        model->rows[i].thread = (uint8_t)((model->rows[i].stack + draw(model) % 2) % MODEL_THREADS);
    }
    qsort(model->rows, samples, sizeof *model->rows, compare_rows);
    uint32_t count = 0;
    for (uint32_t i = 0; i < samples; i++) {
        if (i && compare_rows(&model->rows[i], &model->rows[i - 1]) == 0) {
            model->value[count - 1] += MODEL_PERIOD_NS;
            continue;
        }
        const struct row *row = &model->rows[i];
        model->stack[count] = model->stacks[row->process / 2][row->stack].id;
        model->thread[count] = row->thread;
        model->rows[count] = *row;
        model->value[count++] = MODEL_PERIOD_NS;
    }
    return count;
}

static void set_window(struct model *model, struct store_window *window, uint32_t process,
                       int64_t begin, uint32_t length_s) {
    static const struct store_label labels[] = {
        {"container", "abcdef"}, {"pod", "pod-1"}, {"zone", "a"}};
    *window = (struct store_window){.source = 1,
                                    .seq = model->seq++,
                                    .epoch = 1,
                                    .event = "on-cpu",
                                    .service = model->services[process / 2],
                                    .host = "host-1",
                                    .instance = model->instances[process],
                                    .pid = 1000 + process,
                                    .start_unix_ns = 1,
                                    .begin_unix_s = begin,
                                    .length_s = length_s,
                                    .period_ns = MODEL_PERIOD_NS,
                                    .weight = 1,
                                    .clock = "perf",
                                    .labels = labels,
                                    .label_count = 3,
                                    .threads = threads,
                                    .thread_count = MODEL_THREADS};
}

static void make_totals(struct model *model, int64_t begin, uint32_t length_s) {
    for (int i = 0; i < MODEL_TASKS; i++)
        model->totals[i] = (struct store_total){.source = 1,
                                                .seq = (uint64_t)begin,
                                                .epoch = 1,
                                                .host = "host-1",
                                                .begin_unix_s = begin,
                                                .length_s = length_s,
                                                .process = model->services[i % MODEL_SERVICES],
                                                .thread = model->tasks[i],
                                                .cpu_ns = (int64_t)(draw(model) % 400000000)};
}

struct store_batch model_interval(struct model *model, int64_t begin, uint32_t length_s) {
    uint32_t count = make_rows(model, model->samples_per_s * length_s), at = 0;
    size_t windows = 0;
    while (at < count) {
        struct store_window *window = &model->windows[windows++];
        uint32_t process = model->rows[at].process, first = at;
        set_window(model, window, process, begin, length_s);
        window->stack = &model->stack[at];
        window->thread = &model->thread[at];
        window->value = &model->value[at];
        for (; at < count && model->rows[at].process == process; at++)
            window->samples += (uint64_t)(model->value[at] / MODEL_PERIOD_NS);
        window->row_count = at - first;
    }
    make_totals(model, begin, length_s);
    return (struct store_batch){.windows = model->windows,
                                .window_count = windows,
                                .totals = model->totals,
                                .total_count = MODEL_TASKS};
}
