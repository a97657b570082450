/* SPDX-License-Identifier: Apache-2.0 */
#include "api/json/json.h"

#include "proto/sonde/v1/profiler.pb-c.h"
#include "tests/unit/check.h"

static struct sonde_buf out;

static const char *json(const ProtobufCMessage *message) {
    sonde_buf_finish(&out);
    sonde_json_message(&out, message);
    return out.data;
}

static const char *quoted(const char *text, size_t len) {
    sonde_buf_finish(&out);
    sonde_json_string(&out, (struct sonde_slice){text, len});
    return out.data;
}

#define QUOTED(text) quoted(text, sizeof text - 1)

TEST(strings_are_safe_in_json_and_html) {
    CHECK_STR(QUOTED("plain"), "\"plain\"");
    CHECK_STR(QUOTED("a\"b\\c\n"), "\"a\\\"b\\\\c\\n\"");
    CHECK_STR(QUOTED("\0\x1f\x7f"), "\"\\u0000\\u001f\\u007f\"");
    CHECK_STR(QUOTED("</script>&"), "\"\\u003c/script\\u003e\\u0026\"");
    CHECK_STR(QUOTED("\xc3\xa9\xf0\x9f\x94\xa5"), "\"\xc3\xa9\xf0\x9f\x94\xa5\"");
    CHECK_STR(QUOTED("\xff\xc3"), "\"\xef\xbf\xbd\xef\xbf\xbd\"");
    CHECK_STR(QUOTED("\xc0\xaf"), "\"\xef\xbf\xbd\xef\xbf\xbd\"");
}

TEST(a_message_has_every_field_name) {
    Sonde__V1__Drop drop = SONDE__V1__DROP__INIT;
    Sonde__V1__Drop *drops[] = {&drop};
    Sonde__V1__Info info = SONDE__V1__INFO__INIT;
    drop.cause = (char *)"ring_full";
    drop.count = 18446744073709551615u;
    info.pid = -1;
    info.drops_total = drops;
    info.n_drops_total = 1;
    CHECK_STR(json(&info.base),
              "{\"version\":\"\",\"host\":\"\",\"pid\":-1,\"startUnixNs\":\"0\",\"targets\":0,"
              "\"capturesRunning\":0,\"capturesLimitPerTarget\":0,\"capturesTotal\":\"0\","
              "\"samplesTotal\":\"0\",\"dropsTotal\":[{\"cause\":\"ring_full\","
              "\"count\":\"18446744073709551615\"}],\"streamsRunning\":\"0\",\"cpuNs\":\"0\","
              "\"residentBytes\":\"0\",\"rights\":[],\"openFds\":\"0\",\"maxFds\":\"0\","
              "\"virtualBytes\":\"0\",\"functionTimes\":[],\"exports\":[],"
              "\"collectSessions\":[],\"noCollect\":false,\"apiMin\":0,\"apiMax\":0,"
              "\"events\":[]}");
}

TEST(the_smallest_and_largest_numbers_are_exact) {
    Sonde__V1__Info info = SONDE__V1__INFO__INIT;
    info.pid = INT32_MIN;
    info.targets = UINT32_MAX;
    info.start_unix_ns = INT64_MIN;
    CHECK(strstr(json(&info.base), "\"pid\":-2147483648,\"startUnixNs\":\"-9223372036854775808\","
                                   "\"targets\":4294967295,") != NULL);
}

TEST(only_the_set_member_of_a_oneof_is_written) {
    Sonde__V1__CaptureEvent event = SONDE__V1__CAPTURE_EVENT__INIT;
    CHECK_STR(json(&event.base), "{}");
    event.event_case = SONDE__V1__CAPTURE_EVENT__EVENT_CHUNK;
    event.chunk = (ProtobufCBinaryData){4, (uint8_t *)"\x00\xff\x10z"};
    CHECK_STR(json(&event.base), "{\"chunk\":\"AP8Qeg==\"}");
    Sonde__V1__Progress progress = SONDE__V1__PROGRESS__INIT;
    progress.hottest_share = 0.5;
    event.event_case = SONDE__V1__CAPTURE_EVENT__EVENT_PROGRESS;
    event.progress = &progress;
    CHECK_STR(json(&event.base),
              "{\"progress\":{\"elapsedMs\":0,\"durationMs\":0,\"samples\":\"0\","
              "\"dropped\":\"0\",\"hottest\":\"\",\"hottestShare\":0.5}}");
}

TEST(absent_messages_are_omitted_and_enums_have_names) {
    Sonde__V1__TargetEvent event = SONDE__V1__TARGET_EVENT__INIT;
    event.kind = SONDE__V1__TARGET_EVENT__KIND__SYNCED;
    CHECK_STR(json(&event.base), "{\"kind\":\"SYNCED\"}");
    event.kind = (Sonde__V1__TargetEvent__Kind)77;
    CHECK_STR(json(&event.base), "{\"kind\":77}");
}

TEST(repeated_numbers_are_a_list) {
    uint32_t frames[] = {1, 2, 3};
    Sonde__V1__StreamStack stack = SONDE__V1__STREAM_STACK__INIT;
    stack.n_frames = 3;
    stack.frames = frames;
    CHECK_STR(json(&stack.base), "{\"frames\":[1,2,3],\"thread\":0,\"tid\":0}");
    sonde_buf_finish(&out);
}
