/* SPDX-License-Identifier: Apache-2.0
 *
 * CheckUnwind. */
#include "service/engine/unwind_check/unwind_check.h"
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/rpc/base/text.h"
#include "service/rpc/request/params.h"
#include "service/rpc/threads/packed_answer.h"

#include <stdio.h>
#include <stdlib.h>

#define DEFAULT_MS     2000
#define LEAST_MS       100
#define DEFAULT_HZ     199
#define DEFAULT_STACKS 1000

static void fill_difference(struct sonde_arena *arena, const struct engine_unwind_difference *from,
                            Sonde__V1__UnwindDifference *to) {
    sonde__v1__unwind_difference__init(to);
    to->stacks = from->stacks;
    to->pc = from->pc;
    to->function = (char *)rpc_text(arena, from->function);
    to->module = (char *)rpc_text(arena, from->module);
    to->module_offset = from->module_offset;
    to->ours = from->ours;
    to->other = from->other;
    to->our_end = (char *)from->our_end;
    to->rule = (char *)from->rule;
    to->cfi = (char *)rpc_text(arena, from->row);
}

/* NULL = there is none, or no memory for it. */
static Sonde__V1__SavedStack *saved_stack(struct sonde_arena *arena,
                                          const struct engine_saved_stack *from) {
    Sonde__V1__SavedStack *to = from ? sonde_arena_alloc(arena, sizeof *to) : NULL;
    size_t count = from ? from->module_count : 0;
    Sonde__V1__SavedModule *modules = sonde_arena_alloc(arena, (count + 1) * sizeof *modules);
    Sonde__V1__SavedModule **list = sonde_arena_alloc(arena, (count + 1) * sizeof *list);
    if (!to || !modules || !list)
        return NULL;
    sonde__v1__saved_stack__init(to);
    to->end = (char *)(uintptr_t)from->end;
    to->n_registers = from->register_count;
    to->registers = (uint64_t *)(uintptr_t)from->registers;
    to->stack = (ProtobufCBinaryData){from->stack_bytes, (uint8_t *)(uintptr_t)from->stack};
    to->n_pcs = from->count;
    to->pcs = (uint64_t *)(uintptr_t)from->pcs;
    to->n_modules = count;
    to->modules = list;
    for (size_t i = 0; i < count; i++) {
        const struct engine_saved_module *module = &from->modules[i];
        list[i] = &modules[i];
        sonde__v1__saved_module__init(list[i]);
        list[i]->start = module->start;
        list[i]->end = module->end;
        list[i]->bias = module->bias;
        list[i]->path = (char *)rpc_text(arena, module->path);
        list[i]->build_id = (char *)(uintptr_t)module->build_id;
        list[i]->table =
            (ProtobufCBinaryData){module->table_bytes, (uint8_t *)(uintptr_t)module->table};
    }
    return to;
}

static grpc_slice pack(const struct engine_unwind_check *from) {
    Sonde__V1__UnwindCheck message = SONDE__V1__UNWIND_CHECK__INIT;
    Sonde__V1__UnwindDifference differences[ENGINE_CHECK_MAX_DIFFERENCES];
    Sonde__V1__UnwindDifference *pointers[ENGINE_CHECK_MAX_DIFFERENCES];
    struct sonde_arena arena = {0};
    message.stacks = from->stacks;
    message.frames = from->frames;
    message.equal_stacks = from->equal_stacks;
    message.equal_frames = from->equal_frames;
    message.reached_root = from->reached_root;
    message.other_reached_root = from->other_reached_root;
    message.note = (char *)from->note;
    message.saved_stack = saved_stack(&arena, from->saved);
    message.differences = pointers;
    message.n_differences = from->difference_count;
    for (uint32_t i = 0; i < from->difference_count; i++) {
        fill_difference(&arena, &from->differences[i], &differences[i]);
        pointers[i] = &differences[i];
    }
    grpc_slice packed = rpc_pack(&message.base);
    sonde_arena_finish(&arena);
    return packed;
}

static void on_check(void *context, sonde_err err, const struct sonde_diag *diag,
                     const struct engine_unwind_check *check) {
    struct packed_answer *answer = context;
    answer->err = err;
    if (diag)
        answer->diag = *diag;
    if (!err) {
        snprintf(answer->note, sizeof answer->note, " stacks=%llu equal=%llu",
                 (unsigned long long)check->stacks, (unsigned long long)check->equal_stacks);
        answer->packed = pack(check);
    }
    packed_answer_post(answer);
}

static sonde_err read_spec(const Sonde__V1__CheckUnwindRequest *request,
                           struct engine_unwind_check_spec *spec, struct sonde_diag *diag) {
    sonde_err err = rpc_selector(request->target, &spec->target, diag);
    if (!err)
        err = rpc_number("duration_ms", request->duration_ms, DEFAULT_MS, LEAST_MS,
                         ENGINE_CHECK_MAX_MS, &spec->duration_ms, diag);
    if (!err)
        err = rpc_number("frequency_hz", request->frequency_hz, DEFAULT_HZ, 1, ENGINE_CHECK_MAX_HZ,
                         &spec->frequency_hz, diag);
    if (!err)
        err = rpc_number("max_stacks", request->max_stacks, DEFAULT_STACKS, 1,
                         ENGINE_CHECK_MAX_STACKS, &spec->max_stacks, diag);
    spec->save_stack = request->save_stack;
    return err;
}

static sonde_err check_caller(const struct rpc_call *call,
                              const struct engine_unwind_check_spec *spec,
                              struct sonde_diag *diag) {
    if (!spec->save_stack || rpc_call_is_own_user(call))
        return SONDE_OK;
    return sonde_fail(diag, SONDE_PERMISSION_DENIED,
                      "save_stack: a copy of a stack may hold secrets, so only sonded's own user "
                      "and root get one, on its machine and without a token");
}

void rpc_check_unwind(struct rpc_call *call, const ProtobufCMessage *message) {
    struct engine_unwind_check_spec spec = {0};
    struct sonde_diag diag = {0};
    sonde_err err = read_spec((const void *)message, &spec, &diag);
    if (!err)
        err = check_caller(call, &spec, &diag);
    struct packed_answer *answer = err ? NULL : calloc(1, sizeof *answer);
    if (!err && !answer)
        err = SONDE_OUT_OF_MEMORY;
    if (!err) {
        packed_answer_begin(answer, call, &spec.target);
        err = engine_check_unwind(rpc_call_server(call)->engine, &spec, on_check, answer, &diag);
        if (err)
            rpc_call_drop(call);
    }
    if (!err)
        return;
    free(answer);
    rpc_finish(call, err, &diag);
}
