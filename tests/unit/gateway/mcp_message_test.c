/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/mcp/message.h"

#include "tests/unit/check.h"

#include <stdio.h>

static struct mcp_message message;
static const char *problem;

static enum mcp_code read_body(const char *body) {
    mcp_message_finish(&message);
    return mcp_message_read(sonde_slice_of(body), &message, &problem);
}

static void check_argument(const char *key, const char *text) {
    struct sonde_slice value;
    if (!query_get(&message.arguments, key, &value) || !sonde_slice_equals(value, text))
        check_fail(__FILE__, __LINE__, "%s is not %s", key, text);
}

TEST(a_call_has_its_tool_and_arguments) {
    CHECK(!read_body("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{\"name\":"
                     "\"top\",\"arguments\":{\"capture\":3,\"sort\":\"a&b=c %41\",\"flag\":true,"
                     "\"share\":0.5,\"none\":null}}}"));
    CHECK_STR(message.id, "7");
    CHECK_STR(message.method, "tools/call");
    CHECK_STR(message.name, "top");
    check_argument("capture", "3");
    check_argument("sort", "a&b=c %41");
    check_argument("flag", "true");
    check_argument("share", "0.5");
    CHECK_INT(message.arguments.count, ==, 4);
}

TEST(ids_are_numbers_and_strings_and_stay_as_they_are) {
    CHECK(!read_body("{\"jsonrpc\":\"2.0\",\"id\":\"a\\\"\\u00e9\",\"method\":\"ping\"}"));
    CHECK_STR(message.id, "\"a\\\"\\u00E9\"");
    CHECK(!read_body("{\"jsonrpc\":\"2.0\",\"id\":-9007199254740991,\"method\":\"ping\"}"));
    CHECK_STR(message.id, "-9007199254740991");
    CHECK_INT(read_body("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}"), ==,
              MCP_INVALID_REQUEST);
    CHECK_INT(read_body("{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}"), ==,
              MCP_INVALID_REQUEST);
    CHECK_INT(read_body("{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"ping\"}"), ==,
              MCP_INVALID_REQUEST);
}

TEST(an_id_that_is_too_long_is_refused) {
    char body[400];
    snprintf(body, sizeof body, "{\"jsonrpc\":\"2.0\",\"id\":\"%0*d\",\"method\":\"ping\"}",
             MCP_MAX_ID - 2, 0);
    CHECK(!read_body(body));
    snprintf(body, sizeof body, "{\"jsonrpc\":\"2.0\",\"id\":\"%0*d\",\"method\":\"ping\"}",
             MCP_MAX_ID - 1, 0);
    CHECK_INT(read_body(body), ==, MCP_INVALID_REQUEST);
}

TEST(a_notification_has_no_id_and_a_response_no_method) {
    CHECK(!read_body("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
                     "\"requestId\":12}}"));
    CHECK(!message.id);
    CHECK_STR(message.cancelled, "12");
    CHECK(!read_body("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"));
    CHECK(!message.method);
}

TEST(what_is_not_json_rpc_is_refused) {
    CHECK_INT(read_body(""), ==, MCP_PARSE_ERROR);
    CHECK_INT(read_body("{\"jsonrpc\":"), ==, MCP_PARSE_ERROR);
    CHECK_INT(read_body("{} {}"), ==, MCP_PARSE_ERROR);
    CHECK_INT(read_body("{}"), ==, MCP_INVALID_REQUEST);
    CHECK_INT(read_body("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]"), ==,
              MCP_INVALID_REQUEST);
    CHECK_INT(read_body("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}"), ==,
              MCP_INVALID_REQUEST);
    CHECK_INT(read_body("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":5}"), ==, MCP_INVALID_REQUEST);
    CHECK_INT(read_body("{\"jsonrpc\":\"2.0\",\"id\":1}"), ==, MCP_INVALID_REQUEST);
}

TEST(params_and_arguments_must_be_objects_of_plain_values) {
    CHECK_INT(read_body("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":[1]}"), ==,
              MCP_INVALID_PARAMS);
    CHECK_STR(message.id, "1");
    CHECK_INT(read_body("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{\"arguments\":"
                        "[]}}"),
              ==, MCP_INVALID_PARAMS);
    CHECK_INT(read_body("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{\"arguments\":"
                        "{\"a\":{}}}}"),
              ==, MCP_INVALID_PARAMS);
}

TEST(too_many_arguments_are_refused) {
    struct sonde_buf body = {0};
    for (int most = MCP_MAX_ARGUMENTS; most <= MCP_MAX_ARGUMENTS + 1; most++) {
        body.len = 0;
        sonde_buf_puts(&body, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{"
                              "\"arguments\":{");
        for (int i = 0; i < most; i++)
            sonde_buf_printf(&body, "%s\"a%d\":%d", i ? "," : "", i, i);
        sonde_buf_puts(&body, "}}}");
        CHECK_INT(read_body(body.data), ==, most > MCP_MAX_ARGUMENTS ? MCP_INVALID_PARAMS : MCP_OK);
    }
    sonde_buf_finish(&body);
}
