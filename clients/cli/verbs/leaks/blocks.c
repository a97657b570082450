/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/leaks/blocks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_S       1000000000ll
#define STEP_S         10    /* steps of series are multiples of it */
#define MAX_STEP_S     86400 /* of series; longer blocks have several steps */
#define MAX_PROCESSES  10000 /* in one answer */
#define SAME_PROCESSES 10    /* up to one of so many may have changed between two blocks */

enum { VERSION, HOST, INSTANCE, PID };
static char version[] = "version", host[] = "host", instance[] = "instance", pid[] = "pid";
static char *by_process[] = {
    [VERSION] = version, [HOST] = host, [INSTANCE] = instance, [PID] = pid};

static sonde_err ask(struct blocks *blocks, enum sonde_event_id event, size_t groups,
                     const struct history_range *range, int64_t step_s,
                     Sonde__V1__QuerySeriesResponse **answer, struct sonde_diag *diag) {
    Sonde__V1__QuerySeriesRequest request = SONDE__V1__QUERY_SERIES_REQUEST__INIT;
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    ProtobufCMessage *message = NULL;
    history_select(&selection, blocks->name, sonde_events[event].name, blocks->selector, range);
    request.selection = &selection;
    request.step_s = (uint32_t)(step_s < MAX_STEP_S ? step_s : MAX_STEP_S);
    request.group_by = by_process;
    request.n_group_by = groups;
    request.limit = MAX_PROCESSES;
    sonde_err err =
        service_call(blocks->service, &client_query_series, &request.base, &message, diag);
    *answer = (void *)message;
    if (!err && (*answer)->omitted)
        err = sonde_fail(diag, SONDE_TOO_LARGE,
                         "more than %d processes in this time: choose some with --selector",
                         MAX_PROCESSES);
    return history_explain(err, diag);
}

static int64_t first_time(const Sonde__V1__Series *series) {
    return series->n_time_unix_s ? series->time_unix_s[0] : INT64_MAX;
}

sonde_err blocks_refuse_short(int64_t recorded_s, struct sonde_diag *diag) {
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                      "a verdict needs %d minutes of recorded live memory, and this time has "
                      "%" PRId64 ": choose an earlier --from, or wait",
                      (LEAK_LEAST_BLOCKS + 1) * BLOCKS_LEAST_S / 60, recorded_s / 60);
}

/* The time of the first record; INT64_MAX = there is none. */
static int64_t find_first(const struct blocks *blocks) {
    int64_t first = INT64_MAX;
    for (size_t i = 0; i < blocks->memory->n_series; i++)
        if (first_time(blocks->memory->series[i]) < first)
            first = first_time(blocks->memory->series[i]);
    return first;
}

static sonde_err cut(struct blocks *blocks, const struct history_range *range,
                     struct sonde_diag *diag) {
    int64_t from_s = range->from_unix_ns / NS_PER_S, until_s = range->until_unix_ns / NS_PER_S;
    if (from_s < blocks->first_unix_s)
        from_s = blocks->first_unix_s;
    int64_t block_s = (until_s - from_s) / LEAK_MAX_BLOCKS / STEP_S * STEP_S;
    if (block_s > MAX_STEP_S)
        block_s = (block_s + MAX_STEP_S - 1) / MAX_STEP_S * MAX_STEP_S;
    blocks->block_s = block_s < BLOCKS_LEAST_S ? BLOCKS_LEAST_S : block_s;
    blocks->from_unix_s = (from_s + blocks->block_s - 1) / blocks->block_s * blocks->block_s;
    int64_t count = (until_s - blocks->from_unix_s) / blocks->block_s;
    blocks->count = count > LEAK_MAX_BLOCKS ? LEAK_MAX_BLOCKS : (size_t)(count > 0 ? count : 0);
    return blocks->count < LEAK_LEAST_BLOCKS ? blocks_refuse_short(until_s - from_s, diag)
                                             : SONDE_OK;
}

struct history_range blocks_range(const struct blocks *blocks, size_t block) {
    int64_t from_s = blocks->from_unix_s + (int64_t)block * blocks->block_s;
    return (struct history_range){from_s * NS_PER_S, (from_s + blocks->block_s) * NS_PER_S};
}

static size_t block_of(const struct blocks *blocks, int64_t time_unix_s) {
    if (time_unix_s < blocks->from_unix_s)
        return SIZE_MAX;
    return (size_t)((time_unix_s - blocks->from_unix_s) / blocks->block_s);
}

/* A bit for each block in which the process has a record. */
static uint64_t life_of(const struct blocks *blocks, const Sonde__V1__Series *series) {
    uint64_t life = 0;
    for (size_t i = 0; i < series->n_time_unix_s; i++) {
        size_t block = block_of(blocks, series->time_unix_s[i]);
        life |= block < blocks->count ? 1ull << block : 0;
    }
    return life;
}

static void count_processes(struct blocks *blocks, const Sonde__V1__QuerySeriesResponse *answer) {
    uint32_t differ[LEAK_MAX_BLOCKS] = {0};
    for (size_t i = 0; i < answer->n_series; i++) {
        uint64_t life = life_of(blocks, answer->series[i]);
        for (size_t k = 0; k < blocks->count; k++) {
            blocks->processes[k] += life >> k & 1;
            differ[k] += k > 0 && (life >> k & 1) != (life >> (k - 1) & 1);
        }
    }
    for (size_t k = 1; k < blocks->count; k++)
        blocks->is_changed[k] = differ[k] * SAME_PROCESSES > blocks->processes[k];
}

static void add_traffic(struct blocks *blocks, const Sonde__V1__QuerySeriesResponse *answer) {
    for (size_t i = 0; i < answer->n_series; i++) {
        const Sonde__V1__Series *series = answer->series[i];
        for (size_t k = 0; k < series->n_time_unix_s && k < series->n_value; k++) {
            size_t block = block_of(blocks, series->time_unix_s[k]);
            if (block < blocks->count)
                blocks->traffic[block] += (double)series->value[k];
        }
    }
}

/* With blocks' own steps. */
static sonde_err read_series(struct blocks *blocks, struct sonde_diag *diag) {
    struct history_range range = blocks_range(blocks, 0);
    Sonde__V1__QuerySeriesResponse *answer;
    range.until_unix_ns = blocks_range(blocks, blocks->count - 1).until_unix_ns;
    sonde_err err =
        ask(blocks, SONDE_MEM_INUSE, COUNT_OF(by_process), &range, blocks->block_s, &answer, diag);
    if (!err)
        count_processes(blocks, answer);
    if (answer)
        protobuf_c_message_free_unpacked(&answer->base, NULL);
    if (err)
        return err;
    err = ask(blocks, SONDE_ON_CPU, 0, &range, blocks->block_s, &answer, diag);
    if (!err)
        add_traffic(blocks, answer);
    if (answer)
        protobuf_c_message_free_unpacked(&answer->base, NULL);
    return err;
}

sonde_err blocks_read(struct blocks *blocks, const struct history_range *range,
                      struct sonde_diag *diag) {
    int64_t step_s = (range->until_unix_ns - range->from_unix_ns) / NS_PER_S / 1000;
    sonde_err err = ask(blocks, SONDE_MEM_INUSE, VERSION + 1, range,
                        step_s < BLOCKS_LEAST_S ? BLOCKS_LEAST_S : step_s, &blocks->memory, diag);
    if (err)
        return err;
    blocks->first_unix_s = find_first(blocks);
    if (blocks->first_unix_s == INT64_MAX)
        return sonde_fail(diag, SONDE_NOT_FOUND,
                          "history has no live memory of \"%.80s\" in this time; it is recorded "
                          "while the heap is sampled: run `sonde heap on %.80s`, or see `sonde "
                          "growth` for a process that is not prepared",
                          blocks->name, blocks->name);
    err = cut(blocks, range, diag);
    return err ? err : read_series(blocks, diag);
}

void blocks_finish(struct blocks *blocks) {
    if (blocks->memory)
        protobuf_c_message_free_unpacked(&blocks->memory->base, NULL);
}

const char *blocks_version(const struct blocks *blocks, size_t block) {
    int64_t at = blocks->from_unix_s + (int64_t)block * blocks->block_s;
    int64_t least = 2 * blocks->block_s;
    const char *nearest = NULL;
    for (size_t i = 0; i < blocks->memory->n_series; i++) {
        const Sonde__V1__Series *series = blocks->memory->series[i];
        int64_t distance = llabs(first_time(series) - at);
        if (series->n_labels == 0 || !series->labels[0]->value[0] || distance > least ||
            first_time(series) <= blocks->first_unix_s)
            continue;
        least = distance;
        nearest = series->labels[0]->value;
    }
    return nearest;
}
