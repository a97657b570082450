/* SPDX-License-Identifier: Apache-2.0 */
#include "service/export/answer.h"

#include "tests/unit/check.h"

#include <string.h>

static struct export_answer answer;

static enum export_outcome http(long status, const char *body) {
    answer_of_http(status, 0, sonde_slice_of(body), false, &answer);
    return answer.outcome;
}

static enum export_outcome grpc(int status, const char *message) {
    answer_of_grpc(status, message, (struct sonde_slice){"", 0}, &answer);
    return answer.outcome;
}

TEST(http_statuses_are_done_repeated_smaller_or_refused) {
    CHECK_INT(http(200, "x"), ==, EXPORT_DONE);
    CHECK_INT(http(204, ""), ==, EXPORT_DONE);
    static const long later[] = {408, 429, 502, 503, 504};
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++)
        CHECK_INT(http(later[i], ""), ==, EXPORT_RETRY);
    CHECK_INT(http(413, ""), ==, EXPORT_TOO_LARGE);
    static const long never[] = {0, 301, 400, 401, 403, 404, 415, 500, 501};
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++)
        CHECK_INT(http(never[i], ""), ==, EXPORT_REFUSED);
}

TEST(grpc_statuses_are_done_repeated_smaller_or_refused) {
    static const enum export_outcome outcomes[] = {
        EXPORT_DONE,    EXPORT_RETRY,   EXPORT_REFUSED, EXPORT_REFUSED, EXPORT_RETRY,
        EXPORT_REFUSED, EXPORT_REFUSED, EXPORT_REFUSED, EXPORT_RETRY,   EXPORT_REFUSED,
        EXPORT_RETRY,   EXPORT_RETRY,   EXPORT_REFUSED, EXPORT_REFUSED, EXPORT_RETRY,
        EXPORT_RETRY,   EXPORT_REFUSED};
    for (int status = 0; status <= 16; status++)
        CHECK_INT(grpc(status, ""), ==, outcomes[status]);
    CHECK_INT(grpc(8, "Received message larger than max (5 vs. 4)"), ==, EXPORT_TOO_LARGE);
    CHECK_INT(grpc(4, ""), ==, EXPORT_RETRY);
    CHECK(answer.is_timeout);
}

TEST(texts_of_receivers_are_cut_and_cleaned) {
    char long_text[1000];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = 0;
    (void)http(400, " a\r\n\x1b[31m b\xc3\xa4 ");
    CHECK_STR(answer.text, "HTTP status 400: a [31m b");
    (void)http(400, long_text);
    CHECK_INT(strlen(answer.text), <, sizeof answer.text);
    (void)grpc(3, long_text);
    CHECK_INT(strlen(answer.text), <, sizeof answer.text);
    (void)http(403, "");
    CHECK_STR(answer.text, "HTTP status 403");
}

TEST(a_pause_that_the_receiver_asks_for_is_bounded) {
    answer_of_http(503, 7, sonde_slice_of(""), false, &answer);
    CHECK_INT(answer.wait_ms, ==, 7000);
    answer_of_http(503, INT64_MAX, sonde_slice_of(""), false, &answer);
    CHECK_INT(answer.wait_ms, ==, ANSWER_MAX_WAIT_S * 1000);
    answer_of_http(503, -1, sonde_slice_of(""), false, &answer);
    CHECK_INT(answer.wait_ms, ==, 0);
}

TEST(a_retry_info_is_found_among_other_details) {
    static const char status[] = "\x08\x0e\x12\x04"
                                 "busy"
                                 "\x1a\x07\x0a\x03"
                                 "a/b"
                                 "\x12\x00"
                                 "\x1a\x20\x0a\x16"
                                 "x/google.rpc.RetryInfo"
                                 "\x12\x05\x0a\x03\x08\x02\x10"; /* cut */
    struct sonde_slice cut = {status, sizeof status - 1};
    answer_of_grpc(14, "busy", cut, &answer);
    CHECK_INT(answer.wait_ms, ==, 0);
    static const char whole[] = "\x1a\x20\x0a\x16"
                                "x/google.rpc.RetryInfo"
                                "\x12\x06\x0a\x04\x08\x02\x10\x00";
    answer_of_grpc(14, "busy", (struct sonde_slice){whole, sizeof whole - 1}, &answer);
    CHECK_INT(answer.wait_ms, ==, 2000);
    CHECK_STR(answer.text, "gRPC status 14: busy");
}

TEST(a_partial_success_counts_what_was_rejected) {
    static const char partial[] = "\x0a\x07\x08\x03\x12\x03why";
    answer = (struct export_answer){0};
    answer_read_partial((struct sonde_slice){partial, sizeof partial - 1}, &answer);
    CHECK_INT(answer.rejected, ==, 3);
    CHECK_STR(answer.text, "why");
    static const char negative[] = "\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    answer = (struct export_answer){0};
    answer_read_partial((struct sonde_slice){negative, sizeof negative - 1}, &answer);
    CHECK_INT(answer.rejected, ==, 0);
    answer_read_partial((struct sonde_slice){"", 0}, &answer);
    CHECK_INT(answer.rejected, ==, 0);
}
