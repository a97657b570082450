/* SPDX-License-Identifier: Apache-2.0
 *
 * Write: each message is checked, stored and acknowledged before the next one is read, so a call
 * holds one message.
 *
 * A call remembers which stacks the store has, so that it asks once per stack and not once per
 * window. */
#include "api/base/clock.h"
#include "api/hash_index.h"
#include "service/engine/pool.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/core/server_state.h"
#include "service/rpc/history/delivery.h"
#include "service/rpc/history/query.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#define MAX_UNKNOWN 10000
#define MAX_KNOWN   65536
#define FORGET_S    3600 /* the store may have deleted an old stack since then */
/* From the arrival of a message to its insert, which may take another minute. A sender that has no
 * answer waits for two minutes before it asks another instance. */
#define INSERT_S 45

struct known_stack {
    uint64_t id;
    uint64_t asked; /* in which message; 0 = the store has it */
};

struct writing {
    struct rpc_call *call;
    struct rpc_history *history;
    const Sonde__V1__WriteRequest *request;
    struct store_stop stop;
    struct engine_work work;
    struct loop_message done;
    struct hash_index index;
    struct known_stack *known;
    uint32_t known_count;
    int64_t forgot_s; /* on the monotonic clock */
    uint64_t messages, windows;
    /* The answer to the present message; its arrays are in the arena. */
    struct sonde_arena arena;
    Sonde__V1__WriteResponse response;
    sonde_err err;
    struct sonde_diag diag;
};

/* ---- Stacks that the store lacks (worker) ---- */

static struct known_stack *find(struct writing *writing, uint64_t id, uint32_t *hash) {
    uint32_t number;
    *hash = hash_index_words(&writing->index, id, 0);
    struct hash_probe probe = hash_probe(*hash);
    while ((number = hash_index_next(&writing->index, &probe)) != HASH_INDEX_NONE)
        if (writing->known[number].id == id)
            return &writing->known[number];
    return NULL;
}

/* When the table is full it starts again: stacks are then asked for once more. */
static struct known_stack *find_or_add(struct writing *writing, uint64_t id) {
    uint32_t hash;
    struct known_stack *stack = find(writing, id, &hash);
    if (stack)
        return stack;
    if (writing->known_count == MAX_KNOWN) {
        hash_index_clear(&writing->index);
        writing->known_count = 0;
    }
    stack = &writing->known[writing->known_count];
    *stack = (struct known_stack){.id = id, .asked = UINT64_MAX};
    return hash_index_add(&writing->index, hash, writing->known_count++) ? stack : NULL;
}

static sonde_err learn(struct writing *writing, const struct store_stack *stacks, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct known_stack *stack = find_or_add(writing, stacks[i].id);
        if (!stack)
            return SONDE_OUT_OF_MEMORY;
        stack->asked = 0;
    }
    return SONDE_OK;
}

/* The ids of a window that are not known to be stored, each once per message. */
static sonde_err collect(struct writing *writing, const struct store_window *window, uint64_t *ids,
                         size_t *count) {
    for (uint32_t i = 0; i < window->row_count; i++) {
        struct known_stack *stack = find_or_add(writing, window->stack[i]);
        if (!stack)
            return SONDE_OUT_OF_MEMORY;
        if (stack->asked != 0 && stack->asked != writing->messages)
            ids[(*count)++] = stack->id;
        if (stack->asked != 0)
            stack->asked = writing->messages;
    }
    return SONDE_OK;
}

static int by_id(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static void report(struct writing *writing, const uint64_t *ids, size_t count,
                   const struct store_stack *found, size_t found_count, uint64_t *scratch) {
    Sonde__V1__WriteResponse *response = &writing->response;
    for (size_t i = 0; i < found_count; i++)
        scratch[i] = found[i].id;
    if (found_count)
        qsort(scratch, found_count, sizeof *scratch, by_id);
    for (size_t i = 0; i < count && response->n_unknown_stacks < MAX_UNKNOWN; i++)
        if (!found_count || !bsearch(&ids[i], scratch, found_count, sizeof *scratch, by_id))
            response->unknown_stacks[response->n_unknown_stacks++] = ids[i];
}

static sonde_err ask(struct writing *writing, const struct store_window *window, uint64_t *ids,
                     uint64_t *scratch) {
    struct store *store = writing->history->store;
    struct store_stack *found = NULL;
    size_t count = 0, found_count = 0;
    sonde_err err = collect(writing, window, ids, &count);
    if (!err && count)
        err = store->ops->stacks(store, window->service, ids, count, &writing->stop,
                                 &writing->arena, &found, &found_count, &writing->diag);
    if (!err)
        err = learn(writing, found, found_count);
    if (!err)
        report(writing, ids, count, found, found_count < count ? found_count : count, scratch);
    return err;
}

static sonde_err find_unknown(struct writing *writing, const struct store_batch *batch) {
    size_t most = 0;
    for (size_t i = 0; i < batch->window_count; i++)
        most = batch->windows[i].row_count > most ? batch->windows[i].row_count : most;
    uint64_t *ids = sonde_arena_alloc(&writing->arena, (2 * most + 1) * sizeof *ids);
    writing->response.unknown_stacks =
        sonde_arena_alloc(&writing->arena, MAX_UNKNOWN * sizeof(uint64_t));
    sonde_err err = ids && writing->response.unknown_stacks ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    if (!err)
        err = learn(writing, batch->stacks, batch->stack_count);
    for (size_t i = 0; i < batch->window_count && !err; i++)
        err = ask(writing, &batch->windows[i], ids, ids + most);
    return err;
}

/* ---- One message (worker) ---- */

static void forget(struct writing *writing) {
    int64_t now_s = clock_ms(CLOCK_MONOTONIC) / 1000;
    if (now_s - writing->forgot_s < FORGET_S)
        return;
    hash_index_clear(&writing->index);
    writing->known_count = 0;
    writing->forgot_s = now_s;
}

/* If the store has the windows but cannot be asked about stacks, the answer is an error: the sender
 * repeats the message, and the windows count as duplicates then. */
static sonde_err store_message(struct writing *writing) {
    struct history_delivery delivery;
    struct store_put_result result = {0};
    sonde_err err =
        history_delivery_read(writing->request, &writing->arena, &delivery, &writing->diag);
    delivery.batch.stop = &writing->stop;
    if (!err)
        err = store_put(writing->history->store, &delivery.batch, &result, &writing->diag);
    if (!err)
        err = find_unknown(writing, &delivery.batch);
    if (err == SONDE_DEADLINE_EXCEEDED || err == SONDE_CANCELLED)
        err = sonde_fail(&writing->diag, SONDE_UNAVAILABLE,
                         "the store was too slow; send the windows again");
    writing->response.stored = result.stored;
    writing->response.duplicates = result.duplicates;
    writing->response.rejected = result.rejected + delivery.rejected;
    writing->windows += result.stored;
    return err;
}

static void on_done(struct loop_message *message);

static void run(struct engine_work *work) {
    struct writing *writing = container_of(work, struct writing, work);
    struct loop *loop = rpc_call_server(writing->call)->loop;
    sonde__v1__write_response__init(&writing->response);
    writing->response.delivery = writing->request->delivery;
    writing->messages++;
    forget(writing);
    writing->err = store_message(writing);
    writing->done.run = on_done;
    loop_post(loop, &writing->done);
}

/* ---- The call (loop) ---- */

static void on_done(struct loop_message *message) {
    struct writing *writing = container_of(message, struct writing, done);
    struct rpc_call *call = writing->call;
    if (writing->err)
        rpc_finish(call, writing->err, &writing->diag);
    else
        rpc_send(call, &writing->response.base);
    sonde_arena_finish(&writing->arena);
    rpc_call_drop(call);
}

/* The sender may ask another instance from now on. */
static void on_gone(struct rpc_call *call) {
    struct writing *writing = rpc_call_state(call);
    atomic_store(&writing->stop.is_stopped, true);
}

static void on_stop(struct rpc_call *call) {
    struct sonde_diag diag = {0};
    rpc_finish(call, sonde_fail(&diag, SONDE_UNAVAILABLE, "the service is stopping"), &diag);
}

static void release(struct rpc_call *call) {
    struct writing *writing = rpc_call_state(call);
    rpc_call_note(call, " messages=%llu windows=%llu", (unsigned long long)writing->messages,
                  (unsigned long long)writing->windows);
    writing->history->writes--;
    hash_index_finish(&writing->index);
    free(writing->known);
    free(writing);
}

static struct writing *create(struct rpc_call *call, struct rpc_history *history) {
    static const struct rpc_call_events events = {
        .on_gone = on_gone, .on_stop = on_stop, .release = release};
    struct writing *writing = calloc(1, sizeof *writing);
    struct known_stack *known = calloc(MAX_KNOWN, sizeof *known);
    if (!writing || !known) {
        free(writing);
        free(known);
        return NULL;
    }
    writing->call = call;
    writing->history = history;
    writing->known = known;
    writing->work.run = run;
    hash_index_init(&writing->index);
    history->writes++;
    rpc_call_set(call, &events, writing);
    return writing;
}

static uint64_t deadline_ns(void) {
    return (uint64_t)clock_ns(CLOCK_MONOTONIC) + INSERT_S * UINT64_C(1000000000);
}

void rpc_write(struct rpc_call *call, const ProtobufCMessage *message) {
    struct rpc_history *history = history_of(call);
    struct writing *writing = rpc_call_state(call);
    struct sonde_diag diag = {0};
    sonde_err err = SONDE_OK;
    if (!history)
        return;
    if (!writing && history->writes >= HISTORY_WRITES)
        err = sonde_fail(&diag, SONDE_TOO_MANY_CAPTURES,
                         "%u Write calls are running; the limit is %d", history->writes,
                         HISTORY_WRITES);
    else if (!writing && !(writing = create(call, history)))
        err = SONDE_OUT_OF_MEMORY;
    if (err) {
        rpc_finish(call, err, &diag);
        return;
    }
    writing->request = (const void *)message;
    writing->stop.deadline_ns = deadline_ns();
    rpc_call_take(call); /* dropped in on_done */
    pool_add(history->writers, &writing->work);
}
