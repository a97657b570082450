/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/rpc/setup.h"
#include "tests/unit/check.h"

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
