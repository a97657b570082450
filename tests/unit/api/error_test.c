/* SPDX-License-Identifier: Apache-2.0 */
#include "api/error.h"
#include "tests/unit/check.h"

#include <errno.h>

TEST(every_code_has_its_own_complete_row) {
    for (int code = 0; code < SONDE_ERR_COUNT; code++) {
        const struct sonde_error_info *info = sonde_error_info((sonde_err)code);
        CHECK_INT(info->code, ==, code);
        CHECK(info->reason && info->reason[0] && info->sentence && info->sentence[0]);
        CHECK_INT(sonde_error_from_reason(info->reason), ==, code);
        CHECK_INT(info->grpc_status, >=, 0);
        CHECK_INT(info->grpc_status, <=, 16);
        CHECK_INT(info->exit_code, <=, 4);
        CHECK((code == SONDE_OK) == (info->exit_code == 0));
        CHECK((code == SONDE_OK) == (info->http_status == 200));
    }
}

TEST(an_unknown_code_or_reason_is_an_internal_error) {
    CHECK_INT(sonde_error_info((sonde_err)999)->code, ==, SONDE_INTERNAL);
    CHECK_INT(sonde_error_from_reason("NO_SUCH_REASON"), ==, SONDE_INTERNAL);
    CHECK_INT(sonde_error_from_grpc(99), ==, SONDE_INTERNAL);
    CHECK_INT(sonde_error_from_grpc(14), ==, SONDE_UNAVAILABLE);
}

TEST(a_busy_session_is_409_and_aborted) {
    CHECK_INT(sonde_error_info(SONDE_SESSION_BUSY)->http_status, ==, 409);
    CHECK_INT(sonde_error_info(SONDE_SESSION_BUSY)->grpc_status, ==, 10);
}

TEST(fail_fills_the_diag_and_cuts_a_long_text) {
    struct sonde_diag diag = {0};
    CHECK_INT(sonde_fail(&diag, SONDE_TOO_LARGE, "%0500d", 1), ==, SONDE_TOO_LARGE);
    CHECK_INT(strlen(diag.text), ==, sizeof diag.text - 1);
    CHECK_INT(sonde_fail_os(&diag, ENOSPC, "cannot write"), ==, SONDE_IO);
    CHECK_STR(diag.text, "cannot write: No space left on device");
    CHECK_INT(diag.os_error, ==, ENOSPC);
    CHECK_STR(sonde_diag_text(NULL, SONDE_CANCELLED), "cancelled by the client");
}
