/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/json.h"

#include "proto/sonde/v1/profiler.pb-c.h"
#include "tests/unit/check.h"

static void check_json(const ProtobufCMessage *message, const char *expected) {
    struct sonde_buf text = {0};
    json_message(&text, message);
    CHECK(!text.failed);
    CHECK_STR(text.data, expected);
    sonde_buf_finish(&text);
}

TEST(json_of_an_empty_message_has_every_field) {
    Sonde__V1__TargetSelector selector = SONDE__V1__TARGET_SELECTOR__INIT;
    check_json(&selector.base, "{\"name\":\"\",\"pid\":0,\"uuid\":\"\"}");
}

TEST(json_names_are_camel_case_and_64_bit_numbers_are_text) {
    Sonde__V1__StackCount count = SONDE__V1__STACK_COUNT__INIT;
    count.stack = 4294967295u;
    count.count = 18446744073709551615ull;
    count.cpu_ns = 7;
    check_json(&count.base,
               "{\"stack\":4294967295,\"count\":\"18446744073709551615\",\"cpuNs\":\"7\"}");
}

TEST(json_escapes_what_would_break_a_string) {
    Sonde__V1__CommandLine line = SONDE__V1__COMMAND_LINE__INIT;
    char *arguments[] = {"a\"b\\c", "\n\x1b[31m\x7f", "\xc3\xa4"};
    line.arguments = arguments;
    line.n_arguments = 3;
    check_json(&line.base,
               "{\"arguments\":[\"a\\\"b\\\\c\",\"\\u000a\\u001b[31m\\u007f\",\"\xc3\xa4\"]}");
}

TEST(json_enums_have_names_and_unknown_ones_numbers) {
    Sonde__V1__TargetEvent event = SONDE__V1__TARGET_EVENT__INIT;
    event.kind = SONDE__V1__TARGET_EVENT__KIND__SYNCED;
    check_json(&event.base, "{\"kind\":\"SYNCED\"}");
    event.kind = (Sonde__V1__TargetEvent__Kind)77;
    check_json(&event.base, "{\"kind\":77}");
}

TEST(json_shows_of_a_oneof_only_what_is_set) {
    Sonde__V1__CaptureEvent event = SONDE__V1__CAPTURE_EVENT__INIT;
    check_json(&event.base, "{}");
    event.event_case = SONDE__V1__CAPTURE_EVENT__EVENT_CHUNK;
    event.chunk = (ProtobufCBinaryData){4, (uint8_t *)"\xff\x00\x01z"};
    check_json(&event.base, "{\"chunk\":\"/wABeg==\"}");
}

TEST(json_lists_hold_messages) {
    Sonde__V1__Drop full = SONDE__V1__DROP__INIT, other = SONDE__V1__DROP__INIT;
    full.cause = "ring_full";
    other.count = 3;
    Sonde__V1__Drop *drops[] = {&full, &other};
    Sonde__V1__CpuWindow window = SONDE__V1__CPU_WINDOW__INIT;
    window.drops = drops;
    window.n_drops = 2;
    struct sonde_buf text = {0};
    json_message(&text, &window.base);
    CHECK(strstr(text.data, "\"drops\":[{\"cause\":\"ring_full\",\"count\":\"0\"},"
                            "{\"cause\":\"\",\"count\":\"3\"}]"));
    sonde_buf_finish(&text);
}

TEST(json_doubles_and_booleans) {
    Sonde__V1__Progress progress = SONDE__V1__PROGRESS__INIT;
    progress.hottest_share = 0.25;
    struct sonde_buf text = {0};
    json_message(&text, &progress.base);
    CHECK(strstr(text.data, "\"hottestShare\":0.25"));
    sonde_buf_finish(&text);
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    rendering.raw = 1;
    json_message(&text, &rendering.base);
    CHECK(strstr(text.data, "\"raw\":true,\"mergeThreads\":false"));
    sonde_buf_finish(&text);
}
