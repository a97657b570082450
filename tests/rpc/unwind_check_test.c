/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/rpc/setup.h"
#include "tests/unit/check.h"

#include <string.h>

static struct setup setup;
static struct sonde_diag diag;

static sonde_err check_unwind(uint32_t duration_ms, uint32_t frequency_hz, uint32_t max_stacks,
                              Sonde__V1__UnwindCheck **answer) {
    Sonde__V1__CheckUnwindRequest request = SONDE__V1__CHECK_UNWIND_REQUEST__INIT;
    ProtobufCMessage *message = NULL;
    request.duration_ms = duration_ms;
    request.frequency_hz = frequency_hz;
    request.max_stacks = max_stacks;
    sonde_err err =
        client_unary(setup.client, &client_check_unwind, &request.base, 5000, &message, &diag);
    *answer = (Sonde__V1__UnwindCheck *)message;
    return err;
}

TEST(the_answer_has_the_engines_numbers_and_texts) {
    Sonde__V1__UnwindCheck *answer;
    setup_begin(&setup);
    CHECK_INT(check_unwind(0, 0, 0, &answer), ==, SONDE_OK);
    CHECK_INT(answer->stacks, ==, 3);
    CHECK_INT(answer->frames, ==, 30);
    CHECK_INT(answer->equal_stacks, ==, 2);
    CHECK_INT(answer->equal_frames, ==, 25);
    CHECK_INT(answer->reached_root, ==, 3);
    CHECK_INT(answer->other_reached_root, ==, 2);
    CHECK_INT(answer->n_differences, ==, 1);
    const Sonde__V1__UnwindDifference *difference = answer->differences[0];
    CHECK_INT(difference->pc, ==, 0x1010);
    CHECK_STR(difference->function, "odd\\xff"); /* what is not UTF-8 is escaped */
    CHECK_STR(difference->our_end, "root");
    CHECK_STR(difference->rule, "cfa=rsp+8");
    CHECK_STR(difference->cfi, "CFA=rsp+16 ra=c-8");
    protobuf_c_message_free_unpacked(&answer->base, NULL);
    setup_end(&setup);
}

TEST(values_out_of_bounds_are_refused) {
    Sonde__V1__UnwindCheck *answer;
    setup_begin(&setup);
    CHECK_INT(check_unwind(99, 0, 0, &answer), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "duration_ms: \"99\" is not a whole number from 100 to 60000");
    CHECK_INT(check_unwind(60001, 0, 0, &answer), ==, SONDE_INVALID_ARGUMENT);
    CHECK_INT(check_unwind(0, 10001, 0, &answer), ==, SONDE_INVALID_ARGUMENT);
    CHECK_INT(check_unwind(0, 0, 10001, &answer), ==, SONDE_INVALID_ARGUMENT);
    setup_end(&setup);
}

static bool keep_answer(struct watcher *watcher, const ProtobufCMessage *message) {
    const Sonde__V1__SavedStack *saved = ((const Sonde__V1__UnwindCheck *)message)->saved_stack;
    (void)watcher;
    if (!saved)
        return false;
    CHECK_STR(saved->end, "the end");
    CHECK_INT(saved->n_registers, ==, 17);
    CHECK_INT(saved->registers[16], ==, 0x1010);
    CHECK_INT(saved->n_pcs, ==, 2);
    CHECK_INT(saved->stack.len, ==, 6);
    CHECK(memcmp(saved->stack.data, "memory", 6) == 0);
    CHECK_INT(saved->n_modules, ==, 1);
    CHECK_INT(saved->modules[0]->end, ==, 0x2000);
    CHECK_STR(saved->modules[0]->path, "/bin/demo");
    CHECK_STR(saved->modules[0]->build_id, "ab");
    CHECK_INT(saved->modules[0]->table.len, ==, 5);
    return true;
}

static sonde_err save_stack(const struct client_caller *caller) {
    Sonde__V1__CheckUnwindRequest request = SONDE__V1__CHECK_UNWIND_REQUEST__INIT;
    struct watcher watcher = {.caller = caller, .on_message = keep_answer};
    request.save_stack = true;
    watcher_start(&watcher, setup.client, &client_check_unwind, &request.base, 5000);
    return watcher_end(&watcher, &diag);
}

TEST(only_the_services_own_user_gets_memory_of_a_stack) {
    Sonde__V1__UnwindCheck *answer;
    setup_begin(&setup);
    CHECK_INT(save_stack(NULL), ==, SONDE_OK);
    CHECK_INT(check_unwind(0, 0, 0, &answer), ==, SONDE_OK);
    CHECK(!answer->saved_stack);
    protobuf_c_message_free_unpacked(&answer->base, NULL);
    const struct client_caller other = {.is_limited = true, .uid = 4711};
    fake_engine_add(setup.engine, "theirs", 21, 4711, true);
    CHECK_INT(save_stack(&other), ==, SONDE_PERMISSION_DENIED);
    CHECK(strstr(diag.text, "save_stack: a copy of a stack may hold secrets"));
    setup_end(&setup);
}
