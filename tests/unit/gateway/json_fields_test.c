/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/request/json_fields.h"

#include "tests/unit/check.h"

struct result {
    const char *name;
    int64_t count;
    bool flag;
};

static const struct json_field fields[] = {
    {"name", JSON_TEXT, true, offsetof(struct result, name)},
    {"count", JSON_WHOLE, true, offsetof(struct result, count)},
    {"flag", JSON_FLAG, false, offsetof(struct result, flag)},
};

static struct sonde_arena arena;
static struct result result;
static struct sonde_diag diag;

static sonde_err read_body(const char *body) {
    sonde_arena_finish(&arena);
    result = (struct result){"unset", 7, true};
    diag = (struct sonde_diag){0};
    return json_fields_read(sonde_slice_of(body), fields, 3, &arena, &result, &diag);
}

static void check_text(const char *body, const char *text) {
    if (!read_body(body) || !strstr(diag.text, text))
        check_fail(__FILE__, __LINE__, "%s: %s", body, diag.text);
}

TEST(fields_are_stored_by_type) {
    CHECK(!read_body("{\"name\":\"a\\u00e9\",\"count\":-5,\"flag\":false,\"more\":[{}]} trailing"));
    CHECK_STR(result.name, "a\xc3\xa9");
    CHECK_INT(result.count, ==, -5);
    CHECK(!result.flag);
}

TEST(absent_and_null_fields_are_unchanged) {
    CHECK(!read_body("{\"name\":\"a\",\"count\":1,\"flag\":null}"));
    CHECK(result.flag);
}

TEST(the_last_of_two_fields_counts) {
    CHECK(!read_body("{\"name\":\"a\",\"name\":\"b\",\"count\":1}"));
    CHECK_STR(result.name, "b");
}

TEST(all_missing_fields_are_named) {
    check_text("{}", "missing, empty or 0: name, count");
    check_text("{\"name\":\"\",\"count\":1}", "missing, empty or 0: name");
    check_text("{\"name\":\"a\",\"count\":0}", "missing, empty or 0: count");
}

TEST(a_wrong_type_is_named) {
    check_text("{\"name\":5,\"count\":1}", "name must be a string");
    check_text("{\"name\":\"a\",\"count\":\"1\"}", "count must be an integer");
    check_text("{\"name\":\"a\",\"count\":1.0}", "count must be an integer");
    check_text("{\"name\":\"a\",\"count\":1,\"flag\":1}", "flag must be true or false");
}

TEST(malformed_json_has_its_place) {
    check_text("", "byte 0: the body is empty");
    check_text("{", "byte 1: ");
    check_text("{\"name\":\"a\"", "byte 11: ");
    check_text("{\"name\":\"\xff\"}", "malformed JSON at byte ");
    check_text("{\"name\":\"\\u0000\"}", "malformed JSON at byte ");
    check_text("[]", "must be a JSON object");
    sonde_arena_finish(&arena);
}
